package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"
)

// topGroups is the number of groups that a run's report lists for each dump; the
// raw file holds the rest.
const topGroups = 5

// whereColumns lists the places that counts names in the order of reports, those
// that this version does not know last by name. Connections in the queue are no
// workers and have no place.
func whereColumns(counts map[string]int) []string {
	rank := map[string]int{}
	for i, where := range stacks.Wheres() {
		rank[where] = i - len(stacks.Wheres())
	}
	var columns []string
	for where := range counts {
		if where != stacks.Queued {
			columns = append(columns, where)
		}
	}
	slices.SortFunc(columns, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(a, b))
	})
	return columns
}

func noDumps() []block { return []block{paragraph{plain("The summary holds no dumps.")}} }

func dumpBlocks(r runFolder) []block {
	if len(r.summary.Dumps) == 0 {
		return noDumps()
	}
	t := table{columns: []column{words("point"), numbers("at"), numbers(membersOf(r.summary.Dumps)), numbers("workers"), numbers("queued"),
		numbers("pause"), words("raw text"), words("low-pause profile")}}
	who := whoStoodIn(r.summary)
	pause := "The pause is how long the full dump stopped the victim's world."
	if r.summary.Attached != nil {
		pause = "The service does not say how long a dump paused it: no longer than the whole answer took."
		t.columns = t.columns[:len(t.columns)-1]
		t.columns[5] = numbers("answer took")
	}
	for _, d := range r.summary.Dumps {
		profile := rawFile(r.dir, ".", d.ProfileFile)
		if d.ProfileFile != "" {
			profile = join(profile, plain(", "+milliseconds(d.ProfileMS)+" ms"))
		}
		raw := rawFile(r.dir, ".", d.File)
		if d.Truncated {
			raw = join(raw, plain(" "), strong("cut off: the counts are too low"))
		}
		row := []text{code(d.Point), plain(scenarioSeconds(d.AtS, r.summary.Run.Scale)), plain(count(d.Goroutines)),
			plain(who.workersOf(d)), plain(who.queuedOf(d)), plain(milliseconds(max(d.PauseMS, d.TookMS)) + " ms"), raw, profile}
		t.rows = append(t.rows, row[:len(t.columns)])
	}
	return []block{t, paragraph{plain(pause)}}
}

// largest picks the topGroups groups of a dump, largest first.
func largest(groups []result.Group) []result.Group {
	sorted := slices.Clone(groups)
	slices.SortStableFunc(sorted, func(a, b result.Group) int { return cmp.Compare(b.Count, a.Count) })
	return sorted[:min(topGroups, len(sorted))]
}

// exampleBlocks shows one stack of the largest group that something held.
func exampleBlocks(dumps []result.Dump) []block {
	var held result.Group
	point := ""
	for _, d := range dumps {
		for _, g := range d.Groups {
			if heldPlace(g.Where) && g.Stack != "" && g.Count > held.Count {
				held, point = g, d.Point
			}
		}
	}
	if point == "" {
		return nil
	}
	summary := join(plain(fmt.Sprintf("One of the %s in %s at ", count(held.Count), whereInWords(held.Where))), code(point), plain(", as printed"))
	return []block{details{summary: summary, blocks: []block{listing{strings.Split(strings.TrimRight(held.Stack, "\r\n"), "\n")}}}}
}

func poolTable(p result.Pool) block {
	return table{
		columns: []column{numbers("workers"), numbers("limit"), numbers("busy"), numbers("queued"), numbers("permits held"),
			numbers("accept queue"), numbers("connections lost to a full accept queue"), numbers("abandoned by their client")},
		rows: [][]text{{plain(count(p.MaxWorkers)), plain(workerLimit(p)), plain(count(p.MaxBusy)), plain(count(p.MaxQueued)),
			plain(count(p.MaxPermits)), plain(count(p.MaxAcceptQueue)), plain(count(p.AcceptDrops)), plain(count(p.Abandoned))}},
	}
}

func workerLimit(p result.Pool) string {
	if p.WorkerLimit == 0 {
		return "none"
	}
	return count(p.WorkerLimit)
}

// cpuLimit is the most that the victim could use, in percent of a core; 0 if
// the manifest does not tell.
func (r runFolder) cpuLimit() int {
	if r.manifest == nil {
		return 0
	}
	procs, err := strconv.Atoi(r.manifest.Limits["GOMAXPROCS"])
	if err != nil {
		return 0
	}
	return 100 * max(0, procs)
}

func processBlocks(r runFolder) []block {
	s := r.summary
	of := ""
	if limit := r.cpuLimit(); limit > 0 {
		of = fmt.Sprintf(" of %s %%", count(limit))
	}
	blocks := []block{
		sentence(strong(fmt.Sprintf("CPU %s%s on average while the load was on; %s.",
			inUnit(s.Victim.CPUPercentMean, "percent"), of, busyAtOneTime(s.Pool))), plain(" 100 % is one core.")),
		paragraph{plain("The victim, while the load was on; the timeline below covers the whole run:")},
		table{
			columns: []column{numbers("CPU, mean"), numbers("CPU, max"), numbers("memory, max"), numbers("goroutines, max")},
			rows: [][]text{{plain(inUnit(s.Victim.CPUPercentMean, "percent")), plain(inUnit(s.Victim.CPUPercentMax, "percent")),
				plain(size(s.Victim.RSSBytesMax)), plain(count(s.Victim.GoroutinesMax))}},
		},
	}
	if len(s.Children) > 0 {
		t := table{columns: []column{words("process"), numbers("CPU"), numbers("runnable without a CPU")}}
		for _, c := range s.Children {
			t.rows = append(t.rows, []text{code(c.Name), plain(number(c.CPUSeconds, 2) + " s"), plain(milliseconds(c.RunQueueWaitMS) + " ms")})
		}
		blocks = append(blocks, paragraph{plain("Every process, while the load was on, in real time:")}, t)
	}
	return blocks
}

// busyAtOneTime says that a maximum is one: the workers were not busy throughout.
func busyAtOneTime(p result.Pool) string {
	if p.WorkerLimit == 0 {
		return "at most " + plural(p.MaxBusy, "request") + " were being worked on at one time, and there was no limit"
	}
	return "at most " + busyAtMost(p) + " at one time"
}

func doseBlocks(r runFolder) []block {
	u := r.summary.Upstream
	seen := "not measured"
	if u.DelaySeenMS != nil {
		seen = milliseconds(*u.DelaySeenMS) + " ms"
	}
	blocks := []block{table{
		columns: []column{numbers("delay asked"), numbers("delay seen"), words("through"), numbers("requests of the load that arrived")},
		rows:    [][]text{{plain(milliseconds(u.DelayAskedMS) + " ms"), plain(seen), plain(u.Via), plain(count(u.Received))}},
	}}
	if rest := restOfTheLoad(r); rest != "" {
		blocks = append(blocks, paragraph{plain(rest)})
	}
	return blocks
}

// restOfTheLoad says why fewer requests arrived at the upstream than were started,
// where the run ended before the victim had worked its queue off.
func restOfTheLoad(r runFolder) string {
	e := r.summary.Endpoints[upstreamEndpoint]
	rest := e.Started - r.summary.Upstream.Received
	if rest <= 0 || r.summary.Recovery.Recovered {
		return ""
	}
	text := fmt.Sprintf("The rest, %s, were still queued in the victim when the run ended", plural(rest, "request"))
	passesAll := r.manifest != nil && r.manifest.Config["skip-abandoned"] == "false"
	if e.HTTPError > 0 || e.Unseen == nil || *e.Unseen > 0 || !passesAll {
		text += ", or had ended before their turn"
	}
	return text + "."
}

func baselineBlocks(s result.Summary) []block {
	if len(s.Baselines) == 0 {
		return []block{paragraph{plain("No baseline was measured.")}}
	}
	t := table{columns: []column{words("baseline"), numbers("rate"), numbers("for"), numbers("requests"), numbers("failed"),
		numbers("p50"), numbers("p95"), numbers("p99"), numbers("max")}}
	for _, b := range s.Baselines {
		p := b.Response
		t.rows = append(t.rows, []text{code(b.Name), plain(number(b.Rate, 1) + "/s"), plain(number(b.Seconds, 1) + " s"), plain(count(p.Count)),
			plain(count(b.Failed)), plain(timeOf(p, p.P50)), plain(timeOf(p, p.P95)), plain(timeOf(p, p.P99)), plain(timeOf(p, p.Max))})
	}
	return []block{sentence(plain("Before the load, on "), endpoint(protected(s)), plain(" alone; seconds are real.")), t}
}

// conditionBlocks lists what ran, on what and how; missing says why there is no
// manifest.
func conditionBlocks(m *result.Manifest, missing string) []block {
	if m == nil {
		return []block{paragraph{plain(missing + " The conditions are not known.")}}
	}
	revision := m.Revision
	if m.Modified {
		revision += " (with local changes)"
	}
	t := table{columns: []column{words("condition"), words("value")}}
	add := func(name, value string) {
		if value != "" {
			t.rows = append(t.rows, []text{plain(name), plain(value)})
		}
	}
	add("revision", revision)
	add("Go", m.GoVersion)
	add("system", m.OS)
	add("kernel", m.Kernel)
	add("CPU", fmt.Sprintf("%s × %s", count(m.CPUs), m.CPUModel))
	add("memory", size(m.MemoryBytes))
	add("runtime", m.Runtime)
	add("PostgreSQL", m.Postgres)
	for _, name := range slices.Sorted(maps.Keys(m.Limits)) {
		add("victim's "+name, m.Limits[name])
	}
	add("seed", strconv.FormatUint(m.Seed, 10))
	blocks := []block{t}
	if len(m.Config) > 0 {
		config := table{columns: []column{words("setting"), words("value")}}
		for _, name := range slices.Sorted(maps.Keys(m.Config)) {
			config.rows = append(config.rows, []text{code(name), code(m.Config[name])})
		}
		blocks = append(blocks, details{summary: plain("The whole effective configuration: " + plural(len(m.Config), "setting")), blocks: []block{config}})
	}
	if len(m.Programs) > 0 {
		programs := table{columns: []column{words("program"), words("SHA-256")}}
		for _, name := range slices.Sorted(maps.Keys(m.Programs)) {
			programs.rows = append(programs.rows, []text{code(name), code(m.Programs[name])})
		}
		blocks = append(blocks, programs)
	}
	return blocks
}
