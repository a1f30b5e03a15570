package report

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"chokepoint/internal/load/latency"
	"chokepoint/internal/result"
)

// The fixtures are runs of the exhaustion scenario as the arithmetic of the
// experiment gives them, with noise where a real run has some.

func ptr[T any](v T) *T { return &v }

func percentiles(n int64, p50, p95, p99, highest float64) result.Percentiles {
	p := result.Percentiles{Min: p50 / 2, P50: p50, P90: p50 + (p95-p50)/2, P95: p95, P99: p99, Max: highest, Count: n}
	if n >= 1000 {
		p.P999 = ptr((p99 + highest) / 2)
	}
	return p
}

func runHeader(profile string, scale float64, n int) result.Run {
	started := time.Date(2026, 11, 30, 2, 0, 0, 0, time.UTC).Add(time.Duration(n) * 4 * time.Minute)
	return result.Run{ID: fmt.Sprintf("%s-exhaustion-%s-%d", started.Format("20060102T150405Z"), profile, n),
		Scenario: "exhaustion", Profile: profile, Scale: scale, StartedAt: started}
}

// antiRun is the outage; n is the number of the run and varies its noise.
func antiRun(scale float64, n int) result.Summary {
	noise := float64(n%3) / 10
	timeout := 30_000 * scale
	return result.Summary{
		Schema:   result.SummarySchema,
		Run:      runHeader("anti", scale, n),
		Validity: result.Validity{Valid: true, Reasons: []string{}},
		Verdict: result.Verdict{Outcome: result.Reproduced, Expected: result.Reproduced, Checks: []result.Check{
			{Name: "fast.failed_ratio", Want: "at least 10 %", Got: "66.7 %", OK: true},
			{Name: "workers in the upstream read at load_40s", Want: "at least 195 of 200", Got: "200", OK: true},
			{Name: "in_flight_bounded", Want: "true", Got: "true", OK: true, Informative: true},
		}},
		Endpoints: map[string]result.Endpoint{
			"fast": {
				Planned: 1200, Scheduled: 1200, Started: 1200, OK: 400, Timeout: 800, ServerSeen: ptr(1200), Unseen: ptr(0),
				Causes: map[string]int{"response": 800}, FailedRatio: 800. / 1200, CompletedFailedRatio: 800. / 1200,
				Status: map[string]int{"200": 400}, TargetRate: 20 / scale, AchievedRate: 20 / scale, Workers: 613, ClientTimeoutMS: timeout,
				Response:       percentiles(1200, timeout, timeout+1.2, timeout+5.8, timeout+9),
				OKResponse:     percentiles(400, 2.9+noise, timeout*0.93, timeout*0.99, timeout-3),
				FailedResponse: percentiles(800, timeout, timeout+1.5, timeout+6, timeout+9),
				Service:        percentiles(1200, timeout-0.4, timeout+0.9, timeout+5, timeout+8),
				Lag:            percentiles(1200, 0.08+noise/100, 0.31, 0.74+noise, 2.1),
				QuietResponse:  percentiles(380, 2.8+noise, timeout*0.9, timeout*0.98, timeout-4),
				ServerTiming:   &result.ServerTiming{Queue: timeout * 2.1, Database: 0.8},
			},
			"upstream": {
				Planned: 1200, Scheduled: 1200, Started: 1200, OK: 400, Timeout: 800, ServerSeen: ptr(1198), Unseen: ptr(2),
				Causes: map[string]int{"response": 798, "connect": 2}, FailedRatio: 800. / 1200, CompletedFailedRatio: 800. / 1200,
				Status: map[string]int{"200": 400}, TargetRate: 20 / scale, AchievedRate: 20 / scale, Workers: 1213, ClientTimeoutMS: 2 * timeout,
				Response:     percentiles(1200, 2*timeout, 2*timeout+1, 2*timeout+4.6, 2*timeout+7),
				OKResponse:   percentiles(400, timeout*1.33+noise, timeout*1.9, timeout*1.98, 2*timeout-1),
				Lag:          percentiles(1200, 0.09, 0.33, 0.81, 2.4),
				ServerTiming: &result.ServerTiming{Queue: timeout * 1.9, Upstream: timeout + 1},
			},
		},
		Baselines: []result.Baseline{
			{Name: "fixed_rate", Rate: 100, Seconds: 10, Response: percentiles(1000, 1.73+noise, 6.04, 9.2, 12.5)},
			{Name: "load_rate", Rate: 20 / scale, Seconds: 3, Response: percentiles(60, 1.9, 5.1, 5.9, 6.1)},
		},
		Dumps: []result.Dump{
			{Point: "before", AtS: -1, PauseMS: 0.9, File: "dumps/01-before.txt", Goroutines: 41, Workers: 10,
				Where: map[string]int{"idle": 10, "upstream_read": 0}, Groups: []result.Group{
					{Where: "idle", State: "chan receive", Frame: "chokepoint/internal/service/pool.(*worker).awaitTask", Count: 10},
					{Where: "other", State: "IO wait", Frame: "net.(*TCPListener).accept", Count: 2}}},
			heldDump("load_15s", 15, "02", 300, 4.2+noise),
			heldDump("load_40s", 40, "03", 1300, 21.7+noise),
			heldDump("after_5s", 65, "04", 1900, 24.1+noise),
		},
		Pool: result.Pool{MaxWorkers: 200, WorkerLimit: 200, MaxBusy: 200, MaxQueued: 2000 + n%3, MaxAcceptQueue: 1, Abandoned: 1600},
		Victim: result.Process{CPUPercentMean: 2.1 + noise, CPUPercentMax: 9.4, RSSBytesMax: 96<<20 + int64(n)<<18,
			GoroutinesMax: 2460 + n},
		Children: []result.Child{{Name: "victim", CPUSeconds: 1.27, RunQueueWaitMS: 84.2}, {Name: "upstream", CPUSeconds: 0.44, RunQueueWaitMS: 31},
			{Name: "loadgen", CPUSeconds: 1.9, RunQueueWaitMS: 66.5}},
		Upstream: result.Upstream{DelayAskedMS: timeout, DelaySeenMS: ptr(timeout + 1.1 + noise), Via: "stub", Received: 899},
		Recovery: result.Recovery{WaitedS: 45, PredictedSeconds: ptr(130.0)},
		Prediction: result.Prediction{Agrees: false, Rows: []result.PredictionRow{
			{Name: "fast.failed_ratio", Unit: "ratio", Predicted: 2. / 3, Low: 2. / 3, High: 2. / 3, Measured: 2. / 3, Tolerance: 0.02, OK: true},
			{Name: "fast.p50_ms", Unit: "ms", Predicted: timeout, Low: timeout, High: timeout, Measured: timeout, Tolerance: max(5, timeout*0.02), OK: true},
			{Name: "upstream.status_200", Unit: "count", Predicted: 400, Low: 399, High: 401, Measured: 412, Tolerance: 8, OK: false},
			{Name: "dump.load_15s.upstream_read", Unit: "count", Predicted: 200, Low: 200, High: 200, Measured: 200, Tolerance: 5, OK: true},
			{Name: "recovery.seconds", Unit: "s", Predicted: 130, Low: 130, High: 130, Measured: 45, Tolerance: 5, OK: true,
				Note: "predicted to outlast the wait of 45 s, and did"},
		}},
	}
}

func heldDump(point string, at float64, file string, queued int, pause float64) result.Dump {
	return result.Dump{Point: point, AtS: at, PauseMS: pause, File: "dumps/" + file + "-" + point + ".txt",
		ProfileFile: "dumps/" + file + "-" + point + ".pb.gz", ProfileMS: pause / 10,
		Goroutines: 250 + queued, Workers: 200, Queued: queued,
		Where: map[string]int{"idle": 0, "upstream_read": 200, "permit_wait": 0, "database": 0, "queued": queued, "running": 0, "other": 0},
		Groups: []result.Group{
			{Where: "queued", State: "chan receive", Frame: "chokepoint/internal/service/pool.(*task).awaitWorker", Count: queued},
			{Where: "upstream_read", State: "IO wait", Frame: "github.com/valyala/fasthttp.(*ResponseHeader).tryRead", Count: 200,
				Stack: "goroutine 212 [IO wait]:\ninternal/poll.runtime_pollWait(0x7f0f, 0x72)\n\t/usr/local/go/src/runtime/netpoll.go:351 +0x85\n" +
					"chokepoint/internal/service/pool.(*Pool).work(0xc000126000)\n\tpool.go:120 +0x1f\n"}}}
}

// fixedRun is the run that the fix protects.
func fixedRun(scale float64, n int) result.Summary {
	s := antiRun(scale, n)
	noise := float64(n%3) / 10
	s.Run = runHeader("fixed", scale, n)
	s.Verdict = result.Verdict{Outcome: result.Protected, Expected: result.Protected, Checks: []result.Check{
		{Name: "fast.failed_ratio", Want: "0 %", Got: "0.0 %", OK: true}}}
	s.Endpoints = map[string]result.Endpoint{
		"fast": {Planned: 1200, Scheduled: 1200, Started: 1200, OK: 1200, ServerSeen: ptr(1200), Unseen: ptr(0), Causes: map[string]int{},
			Status: map[string]int{"200": 1200}, TargetRate: 20 / scale, AchievedRate: 20 / scale, Workers: 613, ClientTimeoutMS: 30_000 * scale,
			Response:   percentiles(1200, 2.9+noise, 11.8+noise, 27.3+20*noise, 61),
			OKResponse: percentiles(1200, 2.9+noise, 11.8+noise, 27.3+20*noise, 61), QuietResponse: percentiles(1190, 2.8, 10.9, 14.2, 19),
			Lag: percentiles(1200, 0.07, 0.29, 0.7, 1.1)},
		"upstream": {Planned: 1200, Scheduled: 1200, Started: 1200, HTTPError: 1200, ServerSeen: ptr(1200), Unseen: ptr(0), Causes: map[string]int{},
			ErrorBodies: map[string]int{"bulkhead_full": 600 + n%3, "upstream_timeout": 600 - n%3}, FailedRatio: 1, CompletedFailedRatio: 1,
			Status:     map[string]int{"503": 600 + n%3, "504": 600 - n%3},
			TargetRate: 20 / scale, AchievedRate: 20 / scale, Workers: 1213, ClientTimeoutMS: 60_000 * scale,
			Response: percentiles(1200, 2000*scale/2, 2000*scale+75, 2000*scale+105, 2000*scale+140), Lag: percentiles(1200, 0.08, 0.3, 0.71, 1.2)},
	}
	held := map[string]int{"idle": 4, "upstream_read": 20, "permit_wait": 2}
	for i := 1; i < 3; i++ {
		d := &s.Dumps[i]
		d.Workers, d.Queued, d.Goroutines, d.Where, d.PauseMS = 26, 0, 70, held, 1.1
		d.Groups = []result.Group{{Where: "upstream_read", State: "IO wait", Frame: "github.com/valyala/fasthttp.(*ResponseHeader).tryRead", Count: 20}}
	}
	d := &s.Dumps[3]
	d.Workers, d.Queued, d.Goroutines, d.Where, d.PauseMS, d.Groups = 26, 0, 60, map[string]int{"idle": 26}, 1, s.Dumps[0].Groups[:1]
	s.Pool = result.Pool{MaxWorkers: 26 + n%3, WorkerLimit: 200, MaxBusy: 24 + n%3, MaxPermits: 20}
	s.Victim = result.Process{CPUPercentMean: 3.4 + noise, CPUPercentMax: 11, RSSBytesMax: 41 << 20, GoroutinesMax: 96}
	s.Upstream.Received = 600
	s.Recovery = result.Recovery{Recovered: true, WaitedS: 2.3, Seconds: ptr(2.1 + noise), PredictedSeconds: ptr(2.0)}
	s.Prediction = result.Prediction{Agrees: true, Rows: []result.PredictionRow{
		{Name: "upstream.status_503", Unit: "count", Predicted: 600, Low: 598, High: 602, Measured: 601, Tolerance: 12, OK: true}}}
	return s
}

// droppedRun is the outage with too few workers in the generator.
func droppedRun(n int) result.Summary {
	s := antiRun(1, n)
	s.Validity = result.Validity{Valid: false,
		Reasons:  []string{"fast: 517 of 1,200 scheduled requests were dropped: 100 workers were too few", "lag p99 was 7.20 ms, over the limit of 5 ms (loadgen: CPU 1.90 s, run-queue wait 66.5 ms)"},
		Warnings: []string{"upstream: 3 requests were interrupted"}}
	s.Verdict = result.Verdict{Outcome: result.Invalid, Expected: result.Reproduced}
	e := s.Endpoints["fast"]
	e.Dropped, e.Started, e.OK, e.Timeout, e.ServerSeen = 517, 683, 400, 283, ptr(683)
	s.Endpoints["fast"] = e
	return s
}

// invalidFixed is a protected run whose generator was late.
func invalidFixed() result.Summary {
	s := fixedRun(1, 1)
	s.Verdict.Outcome = result.Invalid
	s.Validity = result.Validity{Reasons: []string{"fast: lag p99 is 7.20 ms (limit 5ms); the generator used 1.90 s of CPU and waited 0.07 s for a CPU"}}
	return s
}

func manifest(s result.Summary) result.Manifest {
	return result.Manifest{Schema: result.ManifestSchema, RunID: s.Run.ID, Revision: "0123abc", Modified: true, GoVersion: "go1.26.8", OS: "linux/amd64",
		Kernel: "6.18.0", CPUs: 2, CPUModel: "Example CPU @ 2.5GHz", MemoryBytes: 8 << 30, Runtime: "native", Postgres: "15.8, local binaries",
		Limits: map[string]string{"GOMAXPROCS": "2", "GOMEMLIMIT": "2GiB"}, Seed: 7,
		Config:   map[string]string{"profile": s.Run.Profile, "rate": "20/s", "duration": "1m0s", "skip-abandoned": "false", "upstream-delay": "30s"},
		Programs: map[string]string{"victim": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}}
}

func timelineOf(s result.Summary, from, to int) []result.TimelineRow {
	var rows []result.TimelineRow
	for at := from; at <= to; at++ {
		r := result.TimelineRow{AtS: float64(at), Phase: "load", Workers: 10, Breaker: "none", CPUPercent: 2}
		if at >= 0 {
			r.Busy = min(s.Pool.MaxBusy, at*20)
			r.Workers = max(10, r.Busy)
			r.Queued = min(s.Pool.MaxQueued, max(0, (at-10)*40))
			r.CPUPercent = 3
			r.PermitsHeld = min(s.Pool.MaxPermits, r.Busy)
		}
		if s.Endpoints["fast"].Timeout > 0 && at >= 40 && at < 80 {
			r.FastFailed = 20
		}
		rows = append(rows, r)
	}
	return rows
}

func eventsOf(s result.Summary) []result.Event {
	events := []result.Event{{AtS: 0, Name: "load_on"}, {AtS: 15, Name: "dump", Detail: "load_15s", PauseMS: 4.2}, {AtS: 60, Name: "load_off"}}
	if s.Endpoints["fast"].Timeout > 0 {
		events = slices.Insert(events, 1, result.Event{AtS: 10, Name: "pool_full"})
		events = append(events, result.Event{AtS: 40, Name: "first_fast_failed"}, result.Event{AtS: 79.95, Name: "last_fast_failed"})
	}
	return events
}

// requestsOf are the arrivals of a run whose first answers are good, at the pace of its
// median, and whose others all end as most of them did.
func requestsOf(s result.Summary) []result.Request {
	var requests []result.Request
	for _, name := range endpointNames(s) {
		e := s.Endpoints[name]
		for i := range e.Started {
			r := result.Request{ID: fmt.Sprintf("%s-%d", name, i), Endpoint: name, Due: time.Duration(float64(i) / e.TargetRate * float64(time.Second)),
				Lag: 200 * time.Microsecond, Outcome: "ok", Status: 200, Response: time.Duration(e.OKResponse.P50 * float64(time.Millisecond))}
			switch {
			case i < e.OK:
			case e.Timeout > 0:
				r.Outcome, r.Status, r.Response = "timeout", 0, time.Duration(e.ClientTimeoutMS*float64(time.Millisecond))
			default:
				r.Outcome, r.Status, r.Response = "http_error", 503+i%2, time.Duration(e.Response.P50*float64(time.Millisecond))
			}
			r.Service = r.Response - r.Lag
			requests = append(requests, r)
		}
	}
	return requests
}

func writeLog(path string, requests []result.Request) error {
	totals := map[string]*latency.Histogram{}
	record := func(tag string, d time.Duration) {
		if totals[tag] == nil {
			totals[tag] = latency.New()
		}
		totals[tag].Record(d)
	}
	for _, r := range requests {
		record(r.Endpoint+"/"+latency.Response, r.Response)
		if r.Outcome == "ok" {
			record(r.Endpoint+"/"+latency.OKResponse, r.Response)
		}
	}
	var b bytes.Buffer
	log, err := latency.NewLogWriter(&b, time.Unix(0, 0))
	if err != nil {
		return err
	}
	for _, tag := range slices.Sorted(maps.Keys(totals)) {
		if err := log.Write(tag, 0, time.Minute, totals[tag]); err != nil {
			return err
		}
	}
	return result.WriteFile(path, b.Bytes())
}

// writeRun writes a whole run's folder.
func writeRun(t *testing.T, dir string, s result.Summary) {
	t.Helper()
	writeSummary(t, dir, s)
	for _, err := range []error{
		result.WriteJSON(filepath.Join(dir, result.ManifestFile), manifest(s)),
		result.WriteJSON(filepath.Join(dir, result.LoadFile), result.Load{Schema: result.LoadSchema, WindowS: 60 * s.Run.Scale, ElapsedS: 120 * s.Run.Scale, Endpoints: s.Endpoints,
			Drops: map[string][]int{"fast": {0, 0, 0}}}),
		result.WriteTimeline(filepath.Join(dir, result.TimelineFile), timelineOf(s, -15, 110)),
		result.WriteEvents(filepath.Join(dir, result.EventsFile), eventsOf(s)),
		result.WriteRequests(filepath.Join(dir, result.RequestsFile), requestsOf(s)),
		writeLog(filepath.Join(dir, result.HistogramFile), requestsOf(s)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, d := range s.Dumps {
		name := filepath.Join(dir, filepath.FromSlash(d.File))
		if i == 0 {
			name += ".gz" // as reference results are committed
		}
		for _, file := range []string{name, filepath.Join(dir, filepath.FromSlash(d.ProfileFile))} {
			if file == dir {
				continue
			}
			if err := result.WriteFile(file, []byte("goroutine 1 [running]:\n")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func writeSummary(t *testing.T, dir string, s result.Summary) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := result.WriteJSON(filepath.Join(dir, result.SummaryFile), s); err != nil {
		t.Fatal(err)
	}
}

// runText and comparisonText are the reports as Markdown.
func runText(dir string) (string, error) {
	r, err := Run(dir)
	return r.Markdown, err
}

func comparisonText(dir string) (string, error) {
	r, err := Comparison(dir)
	return r.Markdown, err
}
