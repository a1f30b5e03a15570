package merge

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/load/latency"
	"chokepoint/internal/load/ledger"
	"chokepoint/internal/result"
)

// epoch is when the first run starts.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

// run is what one generator did: its good answers took ok, its timeouts failed.
type run struct {
	at         time.Duration // from epoch
	window     time.Duration
	ok, failed []time.Duration
}

// histograms are those of the run's endpoint, by kind.
func (r run) histograms() map[string]*latency.Histogram {
	all := map[string]*latency.Histogram{}
	for _, k := range kinds() {
		all[k.name] = latency.New()
	}
	for _, d := range r.ok {
		all[latency.OKResponse].Record(d)
	}
	for _, d := range r.failed {
		all[latency.FailedResponse].Record(d)
	}
	for _, d := range slices.Concat(r.ok, r.failed) {
		all[latency.Response].Record(d)
		all[latency.Service].Record(d / 2)
		all[latency.Lag].Record(d / 1000)
	}
	return all
}

// load is the run's result, of one endpoint named fast.
func (r run) load() result.Load {
	n := len(r.ok) + len(r.failed)
	l := ledger.Ledger{Planned: n, Scheduled: n, Started: n}
	for range r.ok {
		l.Finish(ledger.Answer{Outcome: ledger.OK, Status: 200})
	}
	for range r.failed {
		l.Finish(ledger.Answer{Outcome: ledger.Timeout, Cause: "response"})
	}
	rate := float64(n) / r.window.Seconds()
	e := result.Endpoint{TargetRate: rate, AchievedRate: rate, Workers: 10, ClientTimeoutMS: 1000}
	l.Fill(&e)
	histograms := r.histograms()
	for _, k := range kinds() {
		*k.of(&e) = histograms[k.name].Percentiles()
	}
	seconds := int((r.window + time.Second - 1) / time.Second)
	return result.Load{
		Schema: result.LoadSchema, Model: result.ModelOpen, StartedAt: epoch.Add(r.at), WindowS: r.window.Seconds(), ElapsedS: r.window.Seconds() + 0.5,
		Phase: "load", Validity: result.Validity{Valid: true, Reasons: []string{}},
		Endpoints: map[string]result.Endpoint{"fast": e}, Drops: map[string][]int{"fast": make([]int, seconds)},
		Generator: result.Child{Name: "loadgen", CPUSeconds: 0.25},
	}
}

// write leaves the run's result and log in dir, the result changed by change.
func (r run) write(t interface{ Fatal(...any) }, dir, name string, change func(*result.Load)) string {
	path := filepath.Join(dir, name)
	load := r.load()
	if change != nil {
		change(&load)
	}
	if err := result.WriteJSON(path, load); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := latency.NewLogWriter(&b, load.StartedAt)
	if err != nil {
		t.Fatal(err)
	}
	for kind, h := range r.histograms() {
		if err := w.Write("fast/"+kind, 0, r.window, h); err != nil {
			t.Fatal(err)
		}
	}
	if err := result.WriteFile(LogBeside(path), b.Bytes()); err != nil {
		t.Fatal(err)
	}
	return path
}

const ms = time.Millisecond

func TestMergeIsLossless(t *testing.T) {
	dir := t.TempDir()
	// Not rapid: a hundred rounds of histograms and files take a minute under the
	// race detector.
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 0))
		durations := func(most int) []time.Duration {
			var all []time.Duration
			for range random.IntN(most) {
				// Of every magnitude from 1 ns to twice what a histogram tells apart.
				all = append(all, time.Duration(random.Int64N(int64(2*latency.Highest))>>random.IntN(43)))
			}
			return all
		}
		whole := run{window: 2 * time.Second}
		var paths []string
		for _, name := range []string{"a.json", "b.json", "c.json"}[:1+seed%3] {
			shard := run{window: whole.window, ok: durations(600), failed: durations(2)}
			whole.ok, whole.failed = slices.Concat(whole.ok, shard.ok), slices.Concat(whole.failed, shard.failed)
			paths = append(paths, shard.write(t, dir, name, nil))
		}
		got, err := Files(paths, len(paths))
		if err != nil {
			t.Fatal(err)
		}
		want := whole.load()
		e := want.Endpoints["fast"]
		e.Workers *= len(paths)
		want.Endpoints["fast"] = e
		want.Generator.CPUSeconds *= float64(len(paths))
		want.Merged = got.Load.Merged
		closely := cmp.Comparer(func(a, b float64) bool { return a == b || (a-b)/b < 1e-12 && (b-a)/b < 1e-12 })
		if diff := cmp.Diff(want, got.Load, closely); diff != "" {
			t.Fatalf("the shards together are not the whole (-whole +merged):\n%s", diff)
		}
		if n := got.Responses["fast"].All.Count(); n != e.Response.Count {
			t.Fatalf("%d responses, want %d", n, e.Response.Count)
		}
	}
}

// TestMemoryDoesNotGrowWithTheLogs: the log of a result takes more than a megabyte,
// and what is kept of a result must be far less.
func TestMemoryDoesNotGrowWithTheLogs(t *testing.T) {
	dir := t.TempDir()
	r := run{window: time.Second, ok: []time.Duration{ms}, failed: []time.Duration{time.Second}}
	m := &merger{load: result.Load{Merged: &result.Merged{}}, histograms: map[string]map[string]*latency.Histogram{}}
	const results = 20
	add := func(i int) {
		in, log, err := read(r.write(t, dir, strconv.Itoa(i)+".json", nil))
		if err == nil {
			err = m.add(in, log)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add(0) // the sums
	before := liveBytes()
	for i := range results {
		add(1 + i)
	}
	each := (liveBytes() - before) / results
	if n := m.histograms["fast"][latency.Response].Count(); n != 2*(1+results) {
		t.Errorf("%d responses, want %d", n, 2*(1+results))
	}
	if each > 64<<10 {
		t.Errorf("%d kB are kept of each result, want its head alone", each>>10)
	}
}

// liveBytes is the heap that is in use.
func liveBytes() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func TestRatesAddUpInParallelOnly(t *testing.T) {
	hundred := slices.Repeat([]time.Duration{ms}, 100)
	s := time.Second
	for _, tt := range []struct {
		name        string
		runs        []run
		arrangement string
		rate        float64
		window      float64
		workers     int
	}{
		{"one", []run{{window: s, ok: hundred}}, Sequence, 100, 1, 10},
		{"in parallel", []run{{window: s, ok: hundred}, {window: s, ok: hundred}}, Parallel, 200, 1, 20},
		{"in parallel, one a little later", []run{{window: s, ok: hundred}, {at: 100 * ms, window: s, ok: hundred}}, Parallel, 200, 1, 20},
		{"in sequence", []run{{window: s, ok: hundred}, {at: s, window: s, ok: hundred}}, Sequence, 100, 2, 10},
		{"in sequence, after a pause", []run{{window: s, ok: hundred}, {at: time.Hour, window: 3 * s, ok: hundred}}, Sequence, 50, 4, 10},
		{"in sequence by two clocks", []run{{window: s, ok: hundred}, {at: 990 * ms, window: s, ok: hundred}}, Sequence, 100, 2, 10},
		{"two rounds of two", []run{{window: s, ok: hundred}, {window: s, ok: hundred}, {at: s, window: s, ok: hundred}, {at: s, window: s, ok: hundred}}, Mixed, 200, 2, 20},
		{"in parallel, one half as long", []run{{window: 2 * s, ok: hundred}, {window: s, ok: hundred}}, Parallel, 100, 2, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			var paths []string
			for i, r := range tt.runs {
				paths = append(paths, r.write(t, dir, string(rune('a'+i))+".json", nil))
			}
			slices.Reverse(paths) // the order of the arguments does not matter
			got, err := Files(paths, 0)
			if err != nil {
				t.Fatal(err)
			}
			e := got.Load.Endpoints["fast"]
			if got.Load.Merged.Arrangement != tt.arrangement || e.AchievedRate != tt.rate || e.TargetRate != tt.rate || got.Load.WindowS != tt.window || e.Workers != tt.workers {
				t.Errorf("%s at %v/s (target %v/s) over %v s with %d workers, want %s at %v/s over %v s with %d", got.Load.Merged.Arrangement,
					e.AchievedRate, e.TargetRate, got.Load.WindowS, e.Workers, tt.arrangement, tt.rate, tt.window, tt.workers)
			}
			if !got.Load.Validity.Valid || e.OK != 100*len(tt.runs) || len(got.Load.Drops["fast"]) != int(tt.window) {
				t.Errorf("validity %+v, %d ok, %d seconds of drops", got.Load.Validity, e.OK, len(got.Load.Drops["fast"]))
			}
		})
	}
}

func TestDropsKeepTheirSecond(t *testing.T) {
	dir := t.TempDir()
	dropped := func(drops ...int) func(*result.Load) {
		return func(l *result.Load) {
			l.Drops["fast"] = drops
			l.DropTimes = map[string][]result.DropSecond{}
			e := l.Endpoints["fast"]
			for i, n := range drops {
				if n > 0 {
					at := int64(i) * 1e9
					l.DropTimes["fast"] = append(l.DropTimes["fast"], result.DropSecond{Second: i, Dropped: n, FirstDueNS: at + int64(n), LastDueNS: at + 10*int64(n)})
				}
				e.Planned, e.Scheduled, e.Dropped = e.Planned+n, e.Scheduled+n, e.Dropped+n
			}
			l.Endpoints["fast"] = e
			l.Validity = result.Validity{Reasons: []string{"dropped"}}
		}
	}
	two := run{window: 2 * time.Second, ok: []time.Duration{ms}}
	later := two
	later.at = 10 * time.Second
	got, err := Files([]string{
		two.write(t, dir, "a.json", dropped(1, 2)), two.write(t, dir, "b.json", dropped(0, 5)), later.write(t, dir, "c.json", dropped(3, 0)),
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{1, 7, 3, 0}, got.Load.Drops["fast"]); diff != "" {
		t.Error(diff)
	}
	times := []result.DropSecond{
		{Second: 0, Dropped: 1, FirstDueNS: 1, LastDueNS: 10},
		{Second: 1, Dropped: 7, FirstDueNS: 1e9 + 2, LastDueNS: 1e9 + 50},
		{Second: 2, Dropped: 3, FirstDueNS: 2e9 + 3, LastDueNS: 2e9 + 30},
	}
	if diff := cmp.Diff(times, got.Load.DropTimes["fast"]); diff != "" {
		t.Error(diff)
	}
	if v := got.Load.Validity; v.Valid || len(v.Reasons) != 3 || v.Reasons[0] != filepath.Join(dir, "a.json")+": dropped" {
		t.Errorf("validity %+v, want the reason of each file", v)
	}
}

func TestIncomplete(t *testing.T) {
	second := run{window: time.Second, ok: []time.Duration{ms, 2 * ms}, failed: []time.Duration{time.Second}}
	endpoint := func(change func(*result.Endpoint)) func(*result.Load) {
		return func(l *result.Load) {
			e := l.Endpoints["fast"]
			change(&e)
			l.Endpoints["fast"] = e
		}
	}
	for _, tt := range []struct {
		name   string
		second func(t *testing.T, dir string) string
		want   string
		ok     int // good answers of the two together
	}{
		{"a missing file", func(t *testing.T, dir string) string { return filepath.Join(dir, "b.json") }, "b.json: no such file", 2},
		{"not a result", func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "b.json")
			if err := os.WriteFile(path, []byte(`{"schema": "chokepoint/summary/v1"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, `has schema "chokepoint/summary/v1"`, 2},
		{"no log", func(t *testing.T, dir string) string {
			path := second.write(t, dir, "b.json", nil)
			if err := os.Remove(LogBeside(path)); err != nil {
				t.Fatal(err)
			}
			return path
		}, "b.json has no interval log beside it", 2},
		{"a log cut off", func(t *testing.T, dir string) string {
			path := second.write(t, dir, "b.json", nil)
			data, err := os.ReadFile(LogBeside(path))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(LogBeside(path), data[:len(data)-20], 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, "b.hlog: histogram log, line ", 2},
		{"a log of another run", func(t *testing.T, dir string) string {
			path := second.write(t, dir, "b.json", nil)
			other := second
			other.ok = []time.Duration{ms, 700 * ms}
			if err := os.Rename(LogBeside(other.write(t, dir, "c.json", nil)), LogBeside(path)); err != nil {
				t.Fatal(err)
			}
			return path
		}, "ok_response from 999.936µs to", 4},
		{"a ledger that does not balance", func(t *testing.T, dir string) string {
			return second.write(t, dir, "b.json", endpoint(func(e *result.Endpoint) { e.Started-- }))
		}, "b.json: fast: ledger: 3 scheduled, but 2 started + 0 dropped", 4},
		{"more values in the log", func(t *testing.T, dir string) string {
			return second.write(t, dir, "b.json", endpoint(func(e *result.Endpoint) { e.Response.Count = 2 }))
		}, "fast: 3 values of response in the log and 2 in the result", 4},
		{"another endpoint", func(t *testing.T, dir string) string {
			return second.write(t, dir, "b.json", func(l *result.Load) {
				l.Endpoints = map[string]result.Endpoint{"slow": {}}
			})
		}, "b.json has no endpoint fast", 2},
		{"another timeout", func(t *testing.T, dir string) string {
			return second.write(t, dir, "b.json", endpoint(func(e *result.Endpoint) { e.ClientTimeoutMS = 5 }))
		}, "b.json: fast waits 5 ms, others 1000 ms", 4},
		{"another phase", func(t *testing.T, dir string) string {
			return second.write(t, dir, "b.json", func(l *result.Load) { l.Phase = "baseline" })
		}, `b.json is of phase "baseline"`, 4},
		{"a window that cannot be", func(t *testing.T, dir string) string {
			return second.write(t, dir, "b.json", func(l *result.Load) { l.WindowS = 1e300 })
		}, "b.json has a load window of 1e+300 s", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			got, err := Files([]string{second.write(t, dir, "a.json", nil), tt.second(t, dir)}, 0)
			if err != nil {
				t.Fatal(err)
			}
			incomplete := strings.Join(got.Load.Merged.Incomplete, "\n")
			if !strings.Contains(incomplete, tt.want) {
				t.Errorf("incomplete: %q, want %q", incomplete, tt.want)
			}
			if v := got.Load.Validity; v.Valid || !strings.HasPrefix(v.Reasons[0], "incomplete: ") {
				t.Errorf("validity %+v, want incomplete", v)
			}
			if e := got.Load.Endpoints["fast"]; e.OK != tt.ok || e.AchievedRate > 6 {
				t.Errorf("%d ok at %v/s, want %d and nothing scaled up", e.OK, e.AchievedRate, tt.ok)
			}
		})
	}
}

func TestAStaggeredRoundIsNotSummed(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i, name := range []string{"a.json", "b.json", "c.json"} {
		r := run{at: time.Duration(i) * 400 * ms, window: time.Second, ok: slices.Repeat([]time.Duration{ms}, 90)}
		paths = append(paths, r.write(t, dir, name, nil))
	}
	got, err := Files(paths, 0)
	if err != nil {
		t.Fatal(err)
	}
	// 270 arrivals in 1.8 s, from the first start to the last end.
	if e := got.Load.Endpoints["fast"]; e.AchievedRate < 149.999 || e.AchievedRate > 150.001 {
		t.Errorf("%v/s, want 150/s", e.AchievedRate)
	}
	if len(got.Load.Merged.Incomplete) != 1 || !strings.Contains(got.Load.Merged.Incomplete[0], "overlap only in part") {
		t.Errorf("incomplete %q", got.Load.Merged.Incomplete)
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	a := run{window: time.Second}.write(t, dir, "a.json", nil)
	if _, err := Files([]string{a, filepath.Join(dir, ".", "a.json")}, 0); err == nil || !strings.Contains(err.Error(), "is given twice") {
		t.Errorf("error %v, want that a file is given twice", err)
	}
	if _, err := Files([]string{filepath.Join(dir, "none.json")}, 0); err == nil {
		t.Error("no file at all gave a result")
	}
	got, err := Files([]string{a}, 4)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 of 4 results are there"}, got.Load.Merged.Incomplete); diff != "" {
		t.Error(diff)
	}
}

func TestWarmUpsAndEngines(t *testing.T) {
	warm := func(seconds float64, ok int) func(*result.Load) {
		return func(l *result.Load) {
			l.Engine = "loop"
			l.Warmup = &result.Warmup{Seconds: seconds, Endpoints: map[string]result.WarmupEndpoint{
				"fast": {Scheduled: ok + 3, Started: ok + 2, Dropped: 1, OK: ok, Failed: 2, Overhang: 1},
			}}
		}
	}
	for _, tt := range []struct {
		name   string
		second func(*result.Load)
		want   *result.Warmup
		engine string
	}{
		{"the same", warm(2, 20), &result.Warmup{Seconds: 2, Endpoints: map[string]result.WarmupEndpoint{
			"fast": {Scheduled: 36, Started: 34, Dropped: 2, OK: 30, Failed: 4, Overhang: 2},
		}}, "loop"},
		{"another length", warm(3, 20), nil, "loop"},
		{"none", func(l *result.Load) { l.Engine = "goroutines" }, nil, ""},
	} {
		dir := t.TempDir()
		r := run{window: time.Second, ok: []time.Duration{ms}}
		got, err := Files([]string{r.write(t, dir, "a.json", warm(2, 10)), r.write(t, dir, "b.json", tt.second)}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got.Load.Warmup); diff != "" || got.Load.Engine != tt.engine {
			t.Errorf("%s: engine %q, want %q; warm-up %s", tt.name, got.Load.Engine, tt.engine, diff)
		}
	}
}

func TestWhatWasSentIsKeptWhereItIsTheSame(t *testing.T) {
	in := func(method, url, arrivals string, received int64, headers ...string) input {
		l := run{window: time.Second, ok: []time.Duration{time.Millisecond}}.load()
		l.Arrivals, l.OfferedS = arrivals, 1
		e := l.Endpoints["fast"]
		e.Method, e.URL, e.Headers, e.ReceivedBytes, e.ReceivedRate = method, url, headers, received, float64(received)
		l.Endpoints["fast"] = e
		return input{load: l}
	}
	for _, tt := range []struct {
		name     string
		inputs   []input
		want     result.Endpoint
		arrivals string
	}{
		{"the same", []input{in("GET", "http://a/", "constant", 100, "Accept"), in("GET", "http://a/", "constant", 20, "Accept")},
			result.Endpoint{Method: "GET", URL: "http://a/", Headers: []string{"Accept"}}, "constant"},
		{"apart", []input{in("GET", "http://a/", "constant", 60, "Accept"), in("PUT", "http://b/", "poisson", 60)}, result.Endpoint{}, ""},
	} {
		m := &merger{load: result.Load{Merged: &result.Merged{}}, inputs: tt.inputs, histograms: map[string]map[string]*latency.Histogram{
			"fast": run{window: time.Second}.histograms(),
		}}
		got := m.merge().Load
		e := got.Endpoints["fast"]
		sent := result.Endpoint{Method: e.Method, URL: e.URL, Headers: e.Headers}
		if diff := cmp.Diff(tt.want, sent); diff != "" || got.Arrivals != tt.arrivals {
			t.Errorf("%s: %q arrivals (-want +got)\n%s", tt.name, got.Arrivals, diff)
		}
		if e.ReceivedBytes != 120 || e.ReceivedRate != 120 || got.OfferedS != 1 {
			t.Errorf("%s: %d bytes, %v a second, %v s offered; want 120, 120 and 1", tt.name, e.ReceivedBytes, e.ReceivedRate, got.OfferedS)
		}
	}
}
