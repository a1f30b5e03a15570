package report

import (
	"slices"
	"strings"
	"testing"

	"chokepoint/internal/result"
)

// attachedRun is an outage of a service that is not ours, whose endpoint shop must
// survive. It has no metrics, and its dumps are of Go.
func attachedRun() result.Summary {
	s := antiRun(1, 1)
	s.Run.Scenario, s.Run.Profile, s.Run.Protect = "attach", "staging", "shop"
	shop, call := s.Endpoints["fast"], s.Endpoints["upstream"]
	for _, e := range []*result.Endpoint{&shop, &call} {
		e.ServerSeen, e.Unseen, e.ServerTiming = nil, nil, nil
	}
	s.Endpoints = map[string]result.Endpoint{"shop": shop, "ads": call, "feed": call}
	s.Verdict = result.Verdict{Outcome: result.NotProtected, Expected: result.Protected}
	s.Attached = &result.Attached{DumpURL: "http://127.0.0.1:6060/debug/pprof/goroutine?debug=2"}
	s.Pool, s.Victim, s.Upstream, s.Prediction = result.Pool{}, result.Process{}, result.Upstream{}, result.Prediction{}
	s.Recovery = result.Recovery{WaitedS: 45}
	for i := range s.Dumps {
		d := &s.Dumps[i]
		d.Workers, d.Queued, d.PauseMS, d.TookMS, d.ProfileFile = 0, 0, 0, 7, ""
		d.Where = map[string]int{"other": d.Goroutines}
		d.Groups = []result.Group{{Where: "upstream_read", State: "TIMED_WAITING", Frame: "main.call", Count: 20, Stack: "main.call()"}}
		if d.Point != pointBefore {
			d.Where = map[string]int{"upstream_read": 20, "permit_wait": i, "other": d.Goroutines - 20 - i}
		}
	}
	return s
}

// tomcatRun is the same of a JVM, with metrics and a pool that its dumps show.
func tomcatRun() result.Summary {
	s := attachedRun()
	s.Attached.MetricsURL = "http://127.0.0.1:8081/actuator/prometheus"
	s.Attached.Metrics = map[string]string{result.MetricBusy: "tomcat_threads_busy_threads", result.MetricLimit: "tomcat_threads_config_max_threads", result.MetricCPU: "process_cpu_usage"}
	s.Pool = result.Pool{WorkerLimit: 200, MaxBusy: 200}
	s.Victim = result.Process{CPUPercentMean: 2.5, CPUPercentMax: 9}
	for i := range s.Dumps {
		d := &s.Dumps[i]
		d.Unit, d.Workers = "threads", 200
		if d.Point != pointBefore {
			d.Where = map[string]int{"upstream_read": 199, "idle": 1}
		}
	}
	return s
}

func TestARunOfAnAttachedService(t *testing.T) {
	limitless := tomcatRun()
	delete(limitless.Attached.Metrics, result.MetricLimit)
	limitless.Pool.WorkerLimit = 0
	channel := attachedRun()
	channel.Dumps[2].Where = map[string]int{"upstream_read": 20, "other": channel.Dumps[2].Goroutines - 20}
	channel.Dumps[2].Groups = []result.Group{
		{Where: "upstream_read", Frame: "main.call", Count: 20},
		{Where: "other", State: "IO wait", Frame: "net/http.(*connReader).backgroundRead", Count: 700},
		{Where: "other", State: "chan send", Frame: "main.(*shop).call", Count: 800},
	}
	for _, test := range []struct {
		name       string
		summary    result.Summary
		want, none []string
	}{
		{
			"Go, no metrics", attachedRun(),
			[]string{
				"# Attach, staging: not protected",
				"**Not protected: /shop lost 66.7 % of its 1,200 requests (p95 of its answers 27,900 ms) and /ads 66.7 % of its 1,200 requests and /feed 66.7 % of its 1,200 requests; at +65.0 s, of 2,150 goroutines 20 stood in the upstream read and 3 in the wait for a permit.**",
				"## Where the goroutines stood", "the pool of this service is not one that the dump tells",
				"The run has no metrics of the service.", "**Not recovered** in the 45.0 s",
				"`/shop`", "answer took", "| `load_15s` | 15.0 s | 550 | – | – | 7.0 ms |", "the server does not count", "/shop failed",
			},
			[]string{"/fast", "victim", "predict", "pool was idle", "busy", "CPU of", "low-pause", "Expected of"},
		},
		{
			"Tomcat, with metrics", tomcatRun(),
			[]string{
				"; at most 200 of 200 workers were busy; at +15.0 s, of 200 workers 199 stood in the upstream read.**",
				"## Where the workers stood", "| busy workers | `tomcat_threads_busy_threads` | 200 | – |",
				"| CPU; 100 % is one core | `process_cpu_usage` | 9.0 % | 2.5 % |", "| point | at | threads |", "The largest groups of threads",
			},
			[]string{"no rule has a word", "/fast", "victim", "predict", "goroutine", "memory", "requests that wait for a worker"},
		},
		{
			"a semaphore that no rule knows", channel,
			[]string{"Most goroutines stand where no rule has a word for it.", "- `load_40s`: 1,530 of 1,550 goroutines in `other`; the largest: 800 in `main.(*shop).call` (chan send), 700 in `net/http.(*connReader).backgroundRead` (IO wait)\n"},
			[]string{"- `load_15s`"},
		},
		{"Tomcat, whose limit is not known", limitless, []string{"; at most 200 workers were busy; at +15.0 s"}, []string{"without a limit", "limit of workers", "limit none"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			report := runReport(t, test.summary)
			page := report.HTML[strings.Index(report.HTML, "<body"):] // without the style and the script
			text := report.Markdown[:strings.Index(report.Markdown, "## Conditions")]
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("the report has no %q:\n%s", want, text)
				}
			}
			for _, none := range test.none {
				if i := strings.Index(text, none); i >= 0 {
					t.Errorf("the report has %q: %q", none, text[max(0, i-80):min(len(text), i+80)])
				}
			}
			for _, none := range []string{"/fast", "of the victim", "scenario seconds from the start"} {
				if strings.Contains(page, none) {
					t.Errorf("the page has %q", none)
				}
			}
			var panes []string
			for _, pane := range charts(t, report)[0].Panes {
				panes = append(panes, pane.Title)
			}
			if has := slices.Contains(panes, "Workers"); has != test.summary.Knows(result.MetricBusy) {
				t.Errorf("panes %q", panes)
			}
		})
	}
}
