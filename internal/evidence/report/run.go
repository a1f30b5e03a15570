package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"
)

// Run writes the report of the run in dir, as Markdown and as one HTML file. A folder
// without a readable summary.json is an error; any other file that is missing is said
// to be missing, in its place.
func Run(dir string) (Report, error) {
	r, err := readRun(dir)
	if err != nil {
		return Report{}, err
	}
	if len(r.summary.Cases) > 0 {
		return render(matrixDocument(r))
	}
	return render(runDocument(r), r.malformed)
}

func runDocument(r runFolder) document {
	s := r.summary
	d := document{
		title: runTitle(s),
		lead:  []block{runLead(s)},
	}
	if when, ok := whenItBroke(r); ok {
		d.lead = append(d.lead, when)
	}
	if s.Run.Scale != 1 {
		d.lead = append(d.lead, scaleNote(s.Run.Scale))
	}
	d.lead = append(d.lead, runTiles(r))
	d.add("May this run be believed?", believedBlocks(r)...)
	d.add("Verdict", verdictBlocks(s)...)
	d.add("Latency and failures", latencyBlocks(r)...)
	if s.Attached == nil {
		d.add("Predicted beside measured", predictionBlocks(s)...)
	}
	d.add("Timeline", timelineBlocks(r)...)
	d.add("Status codes and causes of errors", statusBlocks(r)...)
	d.add(whoStoodIn(s).title(), whereBlocks(r)...)
	d.add("Dumps", dumpBlocks(r)...)
	if blocks := waitBlocks(r); blocks != nil {
		d.add("Where the wait went", blocks...)
	}
	d.add("Percentiles", percentileBlocks(r)...)
	d.add("Ledger", ledgerBlocks(s)...)
	d.add("Recovery", recoveryBlocks(s)...)
	if s.Attached != nil {
		d.add("Metrics of the service", attachedBlocks(s)...)
	} else {
		d.add("Pool maxima", poolTable(s.Pool))
		d.add("CPU and memory", processBlocks(r)...)
		d.add("Upstream: dose asked and dose seen", doseBlocks(r)...)
	}
	d.add("Baselines", baselineBlocks(s)...)
	d.add("Conditions", conditionBlocks(r.manifest, r.unread[result.ManifestFile])...)
	return d
}

// capitalisedName begins a title with a scenario's name, which may be empty.
func capitalisedName(name string) string {
	if name == "" {
		return "Run"
	}
	return capitalised(name)
}

func runLead(s result.Summary) block {
	return sentence(plain("Run "), code(s.Run.ID), plain(", started "+s.Run.StartedAt.UTC().Format("2006-01-02 15:04:05")+" UTC."))
}

func scaleNote(scale float64) block {
	return sentence(plain("Time ran at scale "), plain(shortest(scale)),
		plain(fmt.Sprintf(": a scenario second took %s s. Latencies (ms) and rates are real, so that a timeout of 30 scenario seconds shows as %s ms; "+
			"instants and recovery are in scenario seconds. Counts and shares do not depend on the scale.",
			shortest(scale), milliseconds(30_000*scale))))
}

func endpointNames(s result.Summary) []string { return slices.Sorted(maps.Keys(s.Endpoints)) }

func believedBlocks(r runFolder) []block {
	s := r.summary
	var blocks []block
	if s.Validity.Valid {
		blocks = append(blocks, sentence(strong("Yes: the run is valid."), plain(" What speaks for it:")))
	} else {
		blocks = append(blocks,
			sentence(strong("No: the run is invalid."), plain(" It is left out of medians. Its dumps show what they show all the same, and every figure is given below. The reasons:")),
			reasonList(s.Validity.Reasons, "The summary gives no reason."), paragraph{plain("What else bears on it:")})
	}
	var facts []text
	for _, name := range endpointNames(s) {
		e := s.Endpoints[name]
		fact := fmt.Sprintf("%s of %s scheduled requests were started, %s dropped, %s interrupted; the lag's p99 was %s.",
			count(e.Started), count(e.Scheduled), count(e.Dropped), count(e.Interrupted), timeOf(e.Lag, e.Lag.P99))
		facts = append(facts, join(endpoint(name), plain(": "+fact)))
		if when := dropsInWords(r.load, name); when != "" {
			facts = append(facts, join(endpoint(name), plain(": "+when)))
		}
	}
	if n := len(s.Prediction.Rows); n > 0 {
		facts = append(facts, plain(fmt.Sprintf("The model, which knows the configuration only, agrees on %s of %s.", count(n-disagreements(s.Prediction)), plural(n, "figure"))))
	}
	blocks = append(blocks, list{facts})
	if len(s.Validity.Warnings) > 0 {
		blocks = append(blocks, paragraph{strong("Warnings:")}, reasonList(s.Validity.Warnings, ""))
	}
	return blocks
}

func reasonList(reasons []string, empty string) block {
	if len(reasons) == 0 {
		return paragraph{plain(empty)}
	}
	var l list
	for _, r := range reasons {
		l.items = append(l.items, plain(r))
	}
	return l
}

// dropsInWords says in which real seconds of the window arrivals were dropped.
func dropsInWords(load *result.Load, name string) string {
	if load == nil {
		return ""
	}
	first, last, most := -1, -1, 0
	perSecond := load.Drops[name]
	for second, n := range perSecond {
		if n == 0 {
			continue
		}
		if first < 0 {
			first = second
		}
		last = second
		most = max(most, n)
	}
	if first < 0 {
		return ""
	}
	return fmt.Sprintf("the first drop fell in real second %s of the window, the last in second %s; %s at most in one second.",
		count(first), count(last), count(most))
}

func verdictBlocks(s result.Summary) []block {
	blocks := []block{paragraph{strong(verdictSentence(s))}}
	if want := s.Verdict.Expected; s.Attached == nil && want != "" && want != s.Verdict.Outcome {
		blocks = append(blocks, sentence(plain("Expected of this profile: "), strong(outcomeInWords(want)), plain(".")))
	}
	if len(s.Verdict.Checks) == 0 {
		return append(blocks, paragraph{plain("The summary lists no checks.")})
	}
	t := table{columns: []column{words("check"), words("wanted"), words("got"), words("holds")}}
	for _, c := range s.Verdict.Checks {
		holds := yesNo(c.OK)
		if c.Informative {
			holds = join(holds, plain(" (for information)"))
		}
		t.rows = append(t.rows, []text{plain(c.Name), plain(c.Want), plain(c.Got), holds})
	}
	return append(blocks, t)
}

func endpoint(name string) text { return code("/" + name) }

// timeOf prints one figure of p, or a dash where p holds no samples.
func timeOf(p result.Percentiles, v float64) string {
	if p.Count == 0 {
		return none
	}
	return milliseconds(v) + " ms"
}

func latencyBlocks(r runFolder) []block {
	s := r.summary
	if len(s.Endpoints) == 0 {
		return []block{paragraph{plain("The summary holds no endpoints.")}}
	}
	failures := table{columns: []column{words("endpoint"), numbers("scheduled"), numbers("ok"), numbers("failed"), numbers("failed share"),
		numbers("failed share of the completed"), numbers("target rate"), numbers("achieved rate"), numbers("client timeout")}}
	times := table{columns: []column{words("endpoint"), words("time of"), numbers("requests"), numbers("p50"), numbers("p95"),
		numbers("p99"), numbers("p99.9"), numbers("max")}}
	for _, name := range endpointNames(s) {
		e := s.Endpoints[name]
		failures.rows = append(failures.rows, []text{endpoint(name), plain(count(e.Scheduled)), plain(count(e.OK)), plain(count(e.Scheduled - e.OK)),
			plain(percent(e.FailedRatio)), plain(percent(e.CompletedFailedRatio)), plain(number(e.TargetRate, 1) + "/s"),
			plain(number(e.AchievedRate, 1) + "/s"), plain(milliseconds(e.ClientTimeoutMS) + " ms")})
		for _, row := range []struct {
			of     string
			p      result.Percentiles
			within int64 // the number of requests of a row that this one is part of
		}{
			{"response, all", e.Response, 0},
			{"response, ok", e.OKResponse, e.Response.Count},
			{"response, ok, no dump in its time", e.QuietResponse, e.OKResponse.Count},
			{"response, failed", e.FailedResponse, e.Response.Count},
			{"service, all", e.Service, 0},
			{"lag", e.Lag, 0},
		} {
			if row.p.Count > 0 && row.p.Count != row.within { // a part that is the whole only repeats it
				times.rows = append(times.rows, timesRow(name, row.of, row.p))
			}
		}
	}
	window := r.unread[result.LoadFile] + " How long the load lasted is not known."
	if r.load != nil {
		window = fmt.Sprintf("The window of the load lasted %s real seconds; the last request ended %s real seconds after its start.",
			number(r.load.WindowS, 1), number(r.load.ElapsedS, 1))
	}
	blocks := []block{paragraph{plain(window)}, failures, times,
		paragraph{plain("Response time runs from the moment a request fell due, service time from the worker's first connect or write, lag between the two. " +
			"A client timeout counts as the time that the client waited. Dropped and interrupted requests have no time and count as failed. " +
			"The p99.9 is left out under 1,000 samples, and a row that would only repeat another.")}}
	if fast, ok := s.Endpoints[protected(s)]; ok && fast.QuietResponse.Count > 0 && fast.OKResponse.Count > 0 {
		blocks = append(blocks, sentence(plain("A full dump stops the world. The p99 of "), endpoint(protected(s)),
			plain(fmt.Sprintf(" was %s over all its good answers, and %s without the %s that were in flight during a dump.",
				timeOf(fast.OKResponse, fast.OKResponse.P99), timeOf(fast.QuietResponse, fast.QuietResponse.P99),
				count(fast.OKResponse.Count-fast.QuietResponse.Count)))))
	}
	return blocks
}

func timesRow(name, of string, p result.Percentiles) []text {
	tail := none
	if p.P999 != nil {
		tail = timeOf(p, *p.P999)
	}
	return []text{endpoint(name), plain(of), plain(count(p.Count)), plain(timeOf(p, p.P50)), plain(timeOf(p, p.P95)),
		plain(timeOf(p, p.P99)), plain(tail), plain(timeOf(p, p.Max))}
}

func disagreements(p result.Prediction) (n int) {
	for _, row := range p.Rows {
		if !row.OK {
			n++
		}
	}
	return n
}

func predictionBlocks(s result.Summary) []block {
	rows := s.Prediction.Rows
	if len(rows) == 0 {
		return []block{paragraph{plain("The summary holds no prediction.")}}
	}
	blocks := []block{sentence(strong("The model and the run agree"), plain(fmt.Sprintf(" on %s.", plural(len(rows), "figure"))))}
	if n := disagreements(s.Prediction); n > 0 {
		blocks = []block{
			paragraph{strong(fmt.Sprintf("The model and the run disagree on %s of %s:", count(n), plural(len(rows), "figure")))},
			predictionTable(rows, false)}
	}
	if t := keyPredictions(rows); len(t.rows) > 0 {
		blocks = append(blocks, unabridged{[]block{paragraph{plain("Of those that agree, the ones that the verdict rests on:")}, t}})
	}
	if n := len(rows) - disagreements(s.Prediction); n > 0 {
		blocks = append(blocks, details{summary: plain("Figures on which they agree: " + count(n)), blocks: []block{predictionTable(rows, true)}})
	}
	if s.Run.Scale != 1 {
		blocks = append(blocks, paragraph{plain("Figures in s are scenario seconds, those in ms real milliseconds.")})
	}
	return blocks
}

// predictionTable lists the rows that agree, or those that do not.
func predictionTable(rows []result.PredictionRow, agree bool) table {
	return predictions(rows, func(row result.PredictionRow) bool { return row.OK == agree })
}

// keyPredictions are the figures that agree and that the story of a run rests on.
func keyPredictions(rows []result.PredictionRow) table {
	return predictions(rows, func(row result.PredictionRow) bool {
		name := row.Name
		dump := strings.HasPrefix(name, "dump.") && !strings.HasPrefix(name, "dump."+pointBefore)
		return row.OK && (strings.HasSuffix(name, ".failed_ratio") || strings.HasSuffix(name, ".p50_ms") || strings.HasPrefix(name, "pool.") || strings.HasPrefix(name, "recovery.") ||
			dump && strings.HasSuffix(name, "."+stacks.UpstreamRead))
	})
}

func predictions(rows []result.PredictionRow, shown func(result.PredictionRow) bool) table {
	t := table{columns: []column{words("figure"), numbers("predicted"), numbers("measured"), numbers("tolerance"), words("agrees"), words("note")}}
	for _, row := range rows {
		if !shown(row) {
			continue
		}
		predicted := inUnit(row.Predicted, row.Unit) + spread(row.Low, row.Predicted, row.High, row.Unit)
		t.rows = append(t.rows, []text{code(row.Name), plain(predicted), plain(inUnit(row.Measured, row.Unit)),
			plain("± " + tolerance(row)), yesNo(row.OK), plain(row.Note)})
	}
	return t
}

func order(ok bool) int {
	if ok {
		return 1
	}
	return 0
}

// tolerance is absolute, so that of a ratio is in percentage points.
func tolerance(row result.PredictionRow) string {
	if row.Unit == "ratio" {
		return number(row.Tolerance*100, 1) + " points"
	}
	return inUnit(row.Tolerance, row.Unit)
}

func statusBlocks(r runFolder) []block {
	s := r.summary
	t := table{columns: []column{words("endpoint"), words("kind"), words("value"), numbers("requests"), numbers("share of scheduled")}}
	for _, name := range endpointNames(s) {
		e := s.Endpoints[name]
		for _, kind := range []struct {
			name    string
			counts  map[string]int
			written func(string) text
		}{{"status", e.Status, code}, {"error in the body", e.ErrorBodies, code}, {"cause at the client", e.Causes, clientCause}} {
			for _, value := range slices.Sorted(maps.Keys(kind.counts)) {
				t.rows = append(t.rows, []text{endpoint(name), plain(kind.name), kind.written(value), plain(count(kind.counts[value])),
					plain(share(kind.counts[value], e.Scheduled))})
			}
		}
	}
	if len(t.rows) == 0 {
		return []block{paragraph{plain("No request got an answer, and no cause was noted.")}}
	}
	blocks := []block{t}
	if c, ok := statusChart(r); ok {
		blocks = append(blocks, c)
	} else if missing, ok := r.unread[result.RequestsFile]; ok {
		blocks = append(blocks, unabridged{[]block{paragraph{plain(missing + " When the requests ended is not known.")}}})
	}
	return blocks
}

// clientCause spells those keys of result.Endpoint.Causes that say only in which
// phase of a request its timeout passed.
func clientCause(key string) text {
	switch key {
	case "connect":
		return plain("timeout, connecting")
	case "response":
		return plain("timeout, waiting for the answer")
	case result.CauseUnsent:
		return plain("timeout, before the generator sent it")
	}
	return code(key)
}

func share(n, of int) string {
	if of == 0 {
		return none
	}
	return percent(float64(n) / float64(of))
}

func recoveryBlocks(s result.Summary) []block {
	if s.Attached != nil {
		return attachedRecovery(s)
	}
	r, scale := s.Recovery, s.Run.Scale
	var blocks []block
	if r.Recovered && r.Seconds != nil {
		blocks = append(blocks, paragraph{plain(fmt.Sprintf("The pool was idle and /%s answered as in the baseline %s after the end of the load; predicted: %s.",
			fastEndpoint, scenarioSeconds(*r.Seconds, scale), predictedRecovery(r)))})
	} else {
		blocks = append(blocks, sentence(strong("Not recovered"), plain(fmt.Sprintf(" in the %s that the run waited after the end of the load; predicted: %s.",
			scenarioSeconds(r.WaitedS, scale), predictedRecovery(r)))))
	}
	return blocks
}

// predictedRecovery is the model's word on when the pool is free again.
func predictedRecovery(r result.Recovery) string {
	if r.PredictedSeconds == nil {
		return "never"
	}
	return number(*r.PredictedSeconds, 1) + " s"
}

func ledgerBlocks(s result.Summary) []block {
	t := table{columns: []column{words("endpoint"), words("identity"), words("in figures"), words("holds")}}
	for _, name := range endpointNames(s) {
		e := s.Endpoints[name]
		row := func(identity, figures string, holds bool) {
			t.rows = append(t.rows, []text{endpoint(name), plain(identity), plain(figures), yesNo(holds)})
		}
		sum := func(parts ...int) (total int, written string) {
			var figures []string
			for _, p := range parts {
				total += p
				figures = append(figures, count(p))
			}
			return total, strings.Join(figures, " + ")
		}
		row("planned = scheduled", fmt.Sprintf("%s = %s", count(e.Planned), count(e.Scheduled)), e.Planned == e.Scheduled)
		total, written := sum(e.Started, e.Dropped)
		row("scheduled = started + dropped", count(e.Scheduled)+" = "+written, e.Scheduled == total)
		total, written = sum(e.OK, e.HTTPError, e.Timeout, e.ConnectError, e.TransportError, e.Interrupted)
		row("started = ok + http_error + timeout + connect_error + transport_error + interrupted", count(e.Started)+" = "+written, e.Started == total)
		if e.ServerSeen == nil || e.Unseen == nil {
			t.rows = append(t.rows, []text{endpoint(name), plain("started = seen by the server + never seen"), plain("the server does not count"), plain(none)})
			continue
		}
		total, written = sum(*e.ServerSeen, *e.Unseen)
		row("started = seen by the server + never seen", count(e.Started)+" = "+written, e.Started == total)
	}
	if len(t.rows) == 0 {
		return []block{paragraph{plain("The summary holds no endpoints.")}}
	}
	return []block{t}
}
