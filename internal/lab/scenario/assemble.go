package scenario

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/delay"
	"chokepoint/internal/evidence/queueing"
	"chokepoint/internal/result"
)

// write turns the evidence into the files of a run's folder, but for the
// manifest and the reports. It returns the summary, whose id is still empty.
func (e *evidence) write() (result.Summary, error) {
	sort.SliceStable(e.samples, func(i, j int) bool { return e.samples[i].at < e.samples[j].at })
	e.events = append(e.events, e.breaking()...)
	sort.SliceStable(e.events, func(i, j int) bool { return e.events[i].AtS < e.events[j].AtS })
	summary := e.summary()
	if err := result.WriteTimeline(filepath.Join(e.dir, result.TimelineFile), e.timeline()); err != nil {
		return summary, err
	}
	return summary, result.WriteEvents(filepath.Join(e.dir, result.EventsFile), e.events)
}

// breaking are the moments at which the service broke, as the victim's samples
// and the rows of the load tell them: pool_full, the first sample under load with
// every worker busy; first_fast_failed and last_fast_failed, when a client of
// /fast got its error or gave up. What did not happen has no event.
func (e *evidence) breaking() []result.Event {
	var events []result.Event
	for _, sample := range e.samples {
		if pool := sample.stats.Pool; sample.at >= 0 && pool.Limit > 0 && pool.Busy >= pool.Limit {
			events = append(events, result.Event{AtS: e.settings.scenarioSeconds(sample.at), Name: "pool_full"})
			break
		}
	}
	return append(events, failures(e.requests, "fast", e.settings.scenarioSeconds)...)
}

// summary puts the evidence together and judges it.
func (e *evidence) summary() result.Summary {
	s := e.settings
	sum := result.Summary{
		Schema:    result.SummarySchema,
		Run:       result.Run{Scenario: Exhaustion, Profile: s.Profile.Name, Variant: s.Variant, Scale: s.Scale, StartedAt: e.startedAt},
		Endpoints: map[string]result.Endpoint{},
		Baselines: e.baselines,
		Dumps:     e.dumps,
		Children:  e.children(),
		Recovery:  e.recovery,
		Upstream:  e.upstream(),
	}
	if e.ended != nil {
		sum.Run.EndedEarly = e.ended.Error()
	}
	if e.load != nil {
		for name, endpoint := range e.load.Endpoints {
			sum.Endpoints[name] = e.endpoint(name, endpoint)
		}
	}
	sum.Pool, sum.Victim = e.pool(), e.process()
	if !e.prediction.NeverRecovers {
		sum.Recovery.PredictedSeconds = &e.prediction.RecoverySeconds.Nominal
	}
	sum.Validity = e.validity(sum)
	sum.Prediction = queueing.Compare(e.prediction, sum)
	sum.Verdict = judge(s, sum)
	return sum
}

// endpoint adds what the server knows to what the load generator wrote.
func (e *evidence) endpoint(name string, endpoint result.Endpoint) result.Endpoint {
	endpoint.QuietResponse = dumpWindows{e.loadOn, e.windows}.quiet(e.requests, name)
	endpoint.Waits = e.waits(name)
	if e.seen != nil {
		seen := len(e.seen[name])
		unseen := 0
		for _, r := range e.requests {
			if r.Endpoint == name && r.Outcome != outcomeDropped && e.seen[name][r.ID] == 0 {
				unseen++
			}
		}
		endpoint.ServerSeen, endpoint.Unseen = &seen, &unseen
	}
	if e.final != nil {
		if phase, ok := e.final.Endpoints[name][adminapi.PhaseLoad]; ok {
			endpoint.ServerTiming = &result.ServerTiming{
				Queue: phase.QueueMS, Permit: phase.PermitMS, Upstream: phase.UpstreamMS, Database: phase.DatabaseMS,
			}
		}
	}
	return endpoint
}

// pool takes the victim's own extremes, which no sampling can miss.
func (e *evidence) pool() result.Pool {
	p := result.Pool{WorkerLimit: e.settings.MaxWorkers}
	stats := e.final
	if stats == nil && len(e.samples) > 0 {
		stats = &e.samples[len(e.samples)-1].stats
	}
	if stats == nil {
		return p
	}
	p.WorkerLimit = stats.Pool.Limit
	p.MaxWorkers = stats.Pool.MaxWorkers
	p.MaxBusy, p.MaxQueued, p.Abandoned = stats.Pool.MaxBusy, stats.Pool.MaxQueued, stats.Pool.Abandoned
	p.MaxAcceptQueue, p.AcceptDrops = stats.Listener.MaxAcceptQueue, stats.Listener.Drops
	for _, sample := range e.samples {
		p.MaxPermits = max(p.MaxPermits, sample.stats.PermitsHeld)
	}
	return p
}

// process is the victim's use of the machine while the load was on.
func (e *evidence) process() result.Process {
	var p result.Process
	window := e.settings.real(e.settings.Duration)
	var first, last *sample
	for i := range e.samples {
		sample := &e.samples[i]
		if sample.at < 0 || sample.at > window {
			continue
		}
		if first == nil {
			first = sample
		} else {
			p.CPUPercentMax = max(p.CPUPercentMax, cpuPercent(last, sample))
		}
		last = sample
		p.RSSBytesMax = max(p.RSSBytesMax, sample.stats.Process.RSSBytes)
		p.GoroutinesMax = max(p.GoroutinesMax, sample.stats.Process.Goroutines)
	}
	if first != last {
		p.CPUPercentMean = cpuPercent(first, last)
	}
	return p
}

// cpuPercent is the use of CPU between two samples; 100 is one core.
func cpuPercent(a, b *sample) float64 {
	elapsed := b.stats.Now.Sub(a.stats.Now).Seconds()
	if elapsed <= 0 {
		return 0
	}
	return 100 * (b.stats.Process.CPUSeconds - a.stats.Process.CPUSeconds) / elapsed
}

// children are what the processes used while the load was on.
func (e *evidence) children() []result.Child {
	var children []result.Child
	for _, name := range slices.Sorted(maps.Keys(e.usage)) {
		u := e.usage[name]
		children = append(children, result.Child{
			Name: name, CPUSeconds: u.CPUSeconds, RunQueueWaitMS: u.RunQueueWait.Seconds() * 1000,
		})
	}
	if e.load != nil {
		children = append(children, e.load.Generator)
	}
	return children
}

// upstream is the dose: asked and seen.
func (e *evidence) upstream() result.Upstream {
	u := result.Upstream{Via: e.via, DelaySeenMS: e.doseMS, Loss: e.loss}
	if d, err := delay.Parse(e.settings.Delay); err == nil {
		u.DelayAskedMS = d.Median().Seconds() * 1000 * e.settings.Scale
	}
	if e.stub != nil {
		u.Received = e.stub.Received[adminapi.PhaseLoad]
	}
	return u
}

// timeline joins the samples with what the load generator saw since the one before.
func (e *evidence) timeline() []result.TimelineRow {
	var rows []result.TimelineRow
	for i := range e.samples {
		sample := &e.samples[i]
		row := e.row(sample)
		if i > 0 {
			row.CPUPercent = cpuPercent(&e.samples[i-1], sample)
		}
		rows = append(rows, row)
	}
	addRequests(rows, e.requests, "fast", e.settings.Scale)
	addMarks(rows, e.events)
	return rows
}

func (e *evidence) row(s *sample) result.TimelineRow {
	phase := "load"
	switch {
	case s.at < 0:
		phase = "before"
	case s.at > e.settings.real(e.settings.Duration):
		phase = "recovery"
	}
	return result.TimelineRow{
		AtS: e.settings.scenarioSeconds(s.at), Phase: phase,
		Workers: s.stats.Pool.Workers, Busy: s.stats.Pool.Busy, Queued: s.stats.Pool.Queued,
		PermitsHeld: s.stats.PermitsHeld, Breaker: s.stats.Breaker,
		AcceptQueue: s.stats.Listener.AcceptQueue, Connections: s.stats.Listener.Connections,
		RSSBytes: s.stats.Process.RSSBytes, Goroutines: s.stats.Process.Goroutines,
	}
}

// Outcomes as requests.csv spells them.
const (
	outcomeOK          = "ok"
	outcomeHTTPError   = "http_error"
	outcomeDropped     = "dropped"
	outcomeInterrupted = "interrupted"
	outcomeTimeout     = "timeout"
	outcomeConnect     = "connect_error"
	outcomeTransport   = "transport_error"
)

// validity says whether the run may be believed.
func (e *evidence) validity(sum result.Summary) result.Validity {
	v := result.Validity{Reasons: e.reasons(sum), Warnings: e.warnings}
	if drops := e.drops(sum); drops != "" && e.settings.aboutTheListener() {
		v.Warnings = append(slices.Clone(v.Warnings), drops)
	}
	if e.load != nil {
		v.Warnings = slices.Concat(v.Warnings, e.load.Validity.Warnings)
	}
	for _, texts := range [][]string{v.Reasons, v.Warnings} {
		for i, text := range texts {
			texts[i] = strings.ReplaceAll(text, e.dir+string(filepath.Separator), "")
		}
	}
	v.Valid = len(v.Reasons) == 0
	return v
}

// reasons are those why the run may not be believed.
func (e *evidence) reasons(sum result.Summary) []string {
	var reasons []string
	if e.ended != nil {
		reasons = append(reasons, "the run ended early: "+e.ended.Error())
	}
	reasons = append(reasons, e.faults...)
	if e.load == nil {
		reasons = append(reasons, "no load was measured")
		return reasons
	}
	reasons = append(reasons, e.load.Validity.Reasons...)
	if used := e.crowding(sum.Children); used != "" && e.lagged() {
		reasons = append(reasons, used)
	}
	reasons = append(reasons, imbalances(e.load, e.requests, []string{"fast", "upstream"}, e.ended == nil)...)
	if e.requests != nil || !e.loaded() {
		reasons = append(reasons, reconcile(e.requests, e.seen, e.final != nil)...)
	}
	if drops := e.drops(sum); drops != "" && !e.settings.aboutTheListener() {
		reasons = append(reasons, drops)
	}
	if want, err := e.settings.DumpPoints(); err == nil && len(e.dumps) < len(want) && e.ended == nil {
		reasons = append(reasons, fmt.Sprintf("%d of %d dumps were taken", len(e.dumps), len(want)))
	}
	return reasons
}

// drops tells of an accept queue that overflowed; empty if none did.
func (e *evidence) drops(sum result.Summary) string {
	if sum.Pool.AcceptDrops == 0 {
		return ""
	}
	return fmt.Sprintf("the victim's accept queue overflowed: %d connection attempts were dropped by the kernel", sum.Pool.AcceptDrops)
}

// imbalances holds what the load generator wrote against itself: its own word for
// a balanced ledger is not enough. whole says that the run came to its end, and
// requests are nil where they could not be read.
func imbalances(load *result.Load, requests []result.Request, endpoints []string, whole bool) []string {
	rows := map[string]int{}
	for _, r := range requests {
		rows[r.Endpoint]++
	}
	var found []string
	for _, name := range endpoints {
		l, ok := load.Endpoints[name]
		outcomes := l.OK + l.HTTPError + l.Timeout + l.ConnectError + l.TransportError + l.Interrupted
		switch {
		case !ok:
			found = append(found, "the load generator's result has no endpoint "+name)
		case l.Scheduled != l.Started+l.Dropped || l.Started != outcomes:
			found = append(found, fmt.Sprintf("the ledger of %s does not balance: %d scheduled, %d started, %d dropped, %d outcomes", name, l.Scheduled, l.Started, l.Dropped, outcomes))
		case whole && l.Scheduled != l.Planned:
			found = append(found, fmt.Sprintf("of %d requests to %s that were planned %d fell due", l.Planned, name, l.Scheduled))
		case requests != nil && rows[name] != l.Scheduled:
			found = append(found, fmt.Sprintf("%s has %d rows of %s, and %d requests fell due", result.RequestsFile, rows[name], name, l.Scheduled))
		}
	}
	return found
}

// lagged reports whether the generator's lag is over its bound in some endpoint.
func (e *evidence) lagged() bool {
	if len(e.load.Validity.Reasons) == 0 {
		return false
	}
	for _, endpoint := range e.load.Endpoints {
		if endpoint.Lag.P99 > e.settings.MaxLag.Seconds()*1000 {
			return true
		}
	}
	return false
}

// crowding says what every process used, to tell a crowded machine from a bad
// tool: all but the generator, whose own reasons tell of it. Nothing is known of a
// run that was stopped under load.
func (e *evidence) crowding(children []result.Child) string {
	var used []string
	for _, c := range children {
		if c == e.load.Generator {
			continue
		}
		used = append(used, fmt.Sprintf("%s used %.2f s of CPU and waited %.2f s for a CPU", c.Name, c.CPUSeconds, c.RunQueueWaitMS/1000))
	}
	if len(used) == 0 {
		return ""
	}
	return "while the load was on, summed over threads: " + strings.Join(used, "; ")
}

// reconcile holds the client's ledger against what the server read: what had an
// answer was read exactly once, nothing was read twice, nothing came from nowhere.
func reconcile(requests []result.Request, seen adminapi.Seen, asked bool) []string {
	if !asked || seen == nil {
		return []string{"the victim could not be asked what it had read, so the ledger was not reconciled"}
	}
	type finding struct {
		text  string
		count int
		first string
	}
	unanswered := finding{text: "answered requests that the victim never read"}
	twice := finding{text: "requests that the victim read more than once"}
	foreign := finding{text: "requests that the victim read and the generator never sent"}
	note := func(f *finding, id string) {
		if f.count == 0 {
			f.first = id
		}
		f.count++
	}
	sent := map[string]bool{}
	for _, r := range requests {
		if r.Outcome == outcomeDropped {
			continue
		}
		sent[r.ID] = true
		times := seen[r.Endpoint][r.ID]
		if times == 0 && (r.Outcome == outcomeOK || r.Outcome == outcomeHTTPError) {
			note(&unanswered, r.ID)
		}
		if times > 1 {
			note(&twice, r.ID)
		}
	}
	for _, ids := range seen {
		for _, id := range slices.Sorted(maps.Keys(ids)) {
			if !sent[id] {
				note(&foreign, id)
			}
		}
	}
	var reasons []string
	for _, f := range []finding{unanswered, twice, foreign} {
		if f.count > 0 {
			reasons = append(reasons, fmt.Sprintf("the ledger does not agree with the server: %d %s, the first is %s", f.count, f.text, f.first))
		}
	}
	return reasons
}
