package attach

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chokepoint/internal/result"
)

// TestAGoServiceThatDies: ten workers, ten calls that nobody answers, and every
// other request waits for one of them.
func TestAGoServiceThatDies(t *testing.T) {
	t.Parallel()
	public, admin := service(t, "-workers=10")
	o := attach(t, shop(public), "-protect=fast", "-dump-at=1500ms,+200ms", "-dump-url="+admin+"/debug/pprof/goroutine?debug=2",
		"-metrics-url="+admin+"/metrics", "-busy-metric=shop_workers_busy", "-limit-metric=shop_workers_limit", "-queued-metric=shop_requests_waiting",
		"-cpu-metric=process_cpu_seconds_total", "-memory-metric=process_resident_memory_bytes")
	s := o.summary
	if o.code != 4 || s.Verdict.Outcome != result.NotProtected || !s.Validity.Valid {
		t.Fatalf("exit %d, %s, valid %v %q; stderr\n%s", o.code, s.Verdict.Outcome, s.Validity.Valid, s.Validity.Reasons, o.stderr)
	}
	if want := (result.Run{ID: filepath.Base(o.dir), Scenario: "attach", Profile: "shop", Scale: 1, StartedAt: s.Run.StartedAt, Protect: "fast"}); s.Run != want {
		t.Errorf("run %+v, want %+v", s.Run, want)
	}
	fast, calls := s.Endpoints["fast"], s.Endpoints["recommendations"]
	// The tenth call is due with the tenth request to /fast, and has the last worker;
	// on a busy machine it is a few requests late.
	if fast.Scheduled != 40 || fast.OK < 9 || fast.OK > 15 || fast.Timeout != 40-fast.OK || fast.ServerSeen != nil {
		t.Errorf("fast: %d scheduled, %d ok, %d timeouts, server saw %v", fast.Scheduled, fast.OK, fast.Timeout, fast.ServerSeen)
	}
	if calls.Scheduled != 40 || calls.Timeout != 40 {
		t.Errorf("recommendations: %d scheduled, %d timeouts", calls.Scheduled, calls.Timeout)
	}
	var points []string
	for _, d := range s.Dumps {
		points = append(points, d.Point)
		held := 10
		if d.Point == "before" {
			held = 0
		}
		if d.Where["upstream_read"] != held || d.Unit != "" || d.Goroutines == 0 {
			t.Errorf("dump %s: %v", d.Point, d.Where)
		}
		if text, err := os.ReadFile(filepath.Join(o.dir, d.File)); err != nil || !strings.HasPrefix(string(text), "goroutine ") {
			t.Errorf("%s: %v", d.File, err)
		}
	}
	if want := []string{"before", "load_1500ms", "after_200ms"}; !slices.Equal(points, want) {
		t.Errorf("dumps %q, want %q", points, want)
	}
	if n := s.Dumps[1].Where["permit_wait"]; n < 1 {
		t.Errorf("nobody waits for a worker: %v", s.Dumps[1].Where)
	}
	if s.Pool.MaxBusy != 10 || s.Pool.WorkerLimit != 10 || s.Pool.MaxQueued < 1 || s.Victim.RSSBytesMax == 0 {
		t.Errorf("pool %+v, process %+v", s.Pool, s.Victim)
	}
	if s.Recovery.Recovered {
		t.Errorf("recovered: %+v", s.Recovery)
	}
	complete(t, o, "## Where the goroutines stood", "/fast lost")
	events, err := result.ReadEvents(filepath.Join(o.dir, result.EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"load_on", "pool_full", "first_fast_failed", "last_fast_failed", "load_off"} {
		if !slices.ContainsFunc(events, func(e result.Event) bool { return e.Name == name }) {
			t.Errorf("no event %s in %v", name, events)
		}
	}
}

// complete holds a run's folder to the files that every run has.
func complete(t *testing.T, o outcome, report ...string) {
	t.Helper()
	for _, name := range []string{result.ManifestFile, result.PlanFile, result.LoadFile, result.HistogramFile, result.RequestsFile, result.TimelineFile, result.EventsFile, result.PageFile} {
		if info, err := os.Stat(filepath.Join(o.dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(o.dir, "probe.json")); err == nil {
		t.Error("a probe's result is left behind")
	}
	text, err := os.ReadFile(filepath.Join(o.dir, result.ReportFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range report {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
}

// TestAGoServiceThatIsProtected: three calls at a time leave seven workers. What the
// plan's thresholds say besides has an exit code of its own.
func TestAGoServiceThatIsProtected(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		args    []string
		code    int
		outcome result.Outcome
	}{
		{"as it should be", nil, 0, result.Protected},
		{"a threshold is not met", []string{"-threshold=recommendations:failed<1%"}, 99, result.NotProtected},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			public, admin := service(t, "-workers=10", "-permits=3")
			o := attach(t, shop(public), append(test.args, "-protect=fast", "-recovery-wait=10s", "-dump-at=1500ms", "-dump-url="+admin+"/debug/pprof/goroutine?debug=2")...)
			s := o.summary
			if o.code != test.code || s.Verdict.Outcome != test.outcome || s.Endpoints["fast"].OK != 40 || s.Dumps[1].Where["upstream_read"] != 3 {
				t.Errorf("exit %d, verdict %+v, validity %+v; stderr\n%s", o.code, s.Verdict, s.Validity, o.stderr)
			}
			if !s.Recovery.Recovered && test.code == 0 {
				t.Errorf("not recovered: %+v", s.Recovery)
			}
			complete(t, o, "The run has no metrics of the service.")
		})
	}
}

// TestASpringBootService: thread dumps of a real JVM as Actuator gives them, and
// Micrometer's metrics.
func TestASpringBootService(t *testing.T) {
	t.Parallel()
	var loaded atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/fast", func(w http.ResponseWriter, r *http.Request) {
		loaded.Store(loaded.Load() || r.Header.Get("X-Chokepoint-Phase") == "load")
		if r.Header.Get("Authorization") != "Basic bG9hZA==" {
			t.Errorf("the load's headers: %v", r.Header)
		}
	})
	actuator := func(w http.ResponseWriter, r *http.Request) bool {
		ok := r.Header.Get("Authorization") == "Bearer secret"
		if !ok {
			http.Error(w, "no", http.StatusUnauthorized)
		}
		return ok
	}
	mux.HandleFunc("/actuator/threaddump", func(w http.ResponseWriter, r *http.Request) {
		if !actuator(w, r) {
			return
		}
		w.Header().Set("Content-Type", "application/vnd.spring-boot.actuator.v3+json")
		name := "idle"
		if loaded.Load() {
			name = "bulkhead"
		}
		w.Write(recorded(t, "actuator-"+name+".json.gz"))
	})
	mux.HandleFunc("/actuator/prometheus", func(w http.ResponseWriter, r *http.Request) {
		if !actuator(w, r) {
			return
		}
		w.Header().Set("Content-Type", "text/plain;version=0.0.4;charset=utf-8")
		busy := 1
		if loaded.Load() {
			busy = 200
		}
		fmt.Fprintf(w, `# HELP tomcat_threads_busy_threads
# TYPE tomcat_threads_busy_threads gauge
tomcat_threads_busy_threads{name="http-nio-8080",} %d.0
tomcat_threads_busy_threads{name="http-nio-8081",} 1.0
# TYPE tomcat_threads_config_max_threads gauge
tomcat_threads_config_max_threads{name="http-nio-8080",} 200.0
# TYPE process_cpu_usage gauge
process_cpu_usage 0.01
# TYPE system_cpu_count gauge
system_cpu_count 2.0
`, busy)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	o := attach(t, anyLag+"duration: 1500ms\nurl: "+server.URL+"/fast\nrate: 20\n", "-dump-at=1s", "-recovery-wait=0s",
		"-dump-url="+server.URL+"/actuator/threaddump?token=t0ken", "-admin-header=Authorization: Bearer secret", "-header=Authorization: Basic bG9hZA==",
		"-metrics-url="+server.URL+"/actuator/prometheus", `-busy-metric=tomcat_threads_busy_threads{name="http-nio-8080"}`,
		`-limit-metric=tomcat_threads_config_max_threads{name="http-nio-8080"}`, "-cpu-metric=process_cpu_usage", "-queued-metric=tomcat_queue")
	s := o.summary
	if o.code != 0 || s.Run.Protect != "url" || len(s.Dumps) != 2 {
		t.Fatalf("exit %d, %+v, stderr\n%s", o.code, s.Validity, o.stderr)
	}
	before, under := s.Dumps[0], s.Dumps[1]
	if before.Workers != 200 || before.Where["idle"] != 200 || before.Unit != "threads" || before.File != "dumps/01-before.json" {
		t.Errorf("before: %d workers, %v, %s, %s", before.Workers, before.Where, before.Unit, before.File)
	}
	if under.Workers != 200 || under.Where["upstream_read"] != 20 || under.Where["permit_wait"] != 180 {
		t.Errorf("under load: %d workers, %v", under.Workers, under.Where)
	}
	if s.Pool.MaxBusy != 200 || s.Pool.WorkerLimit != 200 || s.Victim.CPUPercentMax != 2 {
		t.Errorf("pool %+v, process %+v", s.Pool, s.Victim)
	}
	if len(s.Validity.Warnings) == 0 || !slices.ContainsFunc(s.Validity.Warnings, func(w string) bool { return strings.Contains(w, "no answer had tomcat_queue (-queued-metric)") }) {
		t.Errorf("warnings %q", s.Validity.Warnings)
	}
	complete(t, o, "## Where the workers stood", "| busy workers |")
	err := filepath.WalkDir(o.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, secret := range []string{"secret", "t0ken", "bG9hZA"} {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s has %q", path, secret)
			}
		}
		return err
	})
	if err != nil || strings.Contains(o.stderr, "secret") || strings.Contains(o.stderr, "t0ken") {
		t.Errorf("%v; stderr\n%s", err, o.stderr)
	}
}

// recorded is a dump of a real JVM.
func recorded(t *testing.T, name string) []byte {
	f, err := os.Open(filepath.Join("..", "..", "internal", "evidence", "threads", "testdata", name))
	if err != nil {
		t.Error(err)
		return nil
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Error(err)
		return nil
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Error(err)
	}
	return text
}

// TestDumpsAndMetricsThatFail: each is a reason, or of metrics a warning, and the
// dumps after it are taken all the same.
func TestDumpsAndMetricsThatFail(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/dump":
			switch asked.Add(1) {
			case 1:
				http.NotFound(w, r)
			case 2:
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, "<!DOCTYPE html><title>Login</title>")
			case 3:
				select {
				case <-r.Context().Done():
				case <-time.After(5 * time.Second):
				}
			default:
				fmt.Fprint(w, "goroutine 1 [running]:\nmain.main()\n\t/main.go:1 +0x1\n")
			}
		case "/metrics":
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	o := attach(t, anyLag+"duration: 2s\nurl: "+server.URL+"\nrate: 20\n", "-dump-url="+server.URL+"/dump", "-dump-at=100ms,200ms,+500ms", "-dump-timeout=500ms",
		"-metrics-url="+server.URL+"/metrics", "-busy-metric=x")
	s := o.summary
	if o.code != 3 || s.Validity.Valid || s.Verdict.Outcome != result.Invalid || s.Endpoints["url"].OK != 40 {
		t.Fatalf("exit %d, %+v; stderr\n%s", o.code, s.Verdict, o.stderr)
	}
	if len(s.Dumps) != 1 || s.Dumps[0].Point != "after_500ms" || s.Dumps[0].Goroutines != 1 {
		t.Errorf("dumps %+v", s.Dumps)
	}
	for i, want := range []string{"dump before: " + server.URL + "/dump: 404 Not Found", "dump load_100ms: " + server.URL + "/dump: ", "dump load_200ms: " + server.URL + "/dump: no whole answer within 500ms", "1 of 4 dumps were taken"} {
		if i >= len(s.Validity.Reasons) || !strings.HasPrefix(s.Validity.Reasons[i], want) {
			t.Errorf("reasons %q, want %q as number %d", s.Validity.Reasons, want, i+1)
		}
	}
	if !slices.ContainsFunc(s.Validity.Warnings, func(w string) bool { return strings.HasSuffix(w, "got no answer, the last: answered 404 Not Found") }) {
		t.Errorf("warnings %q", s.Validity.Warnings)
	}
	complete(t, o, "404 Not Found", "The run has no metrics of the service.")
}

// TestInterrupted: before the load nothing was measured and nothing is left; under
// load the result is whole, and says that it was cut short.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		at     string
		result bool
	}{{"baseline: fast", false}, {"load begins in", false}, {"dump load_100ms", true}} {
		t.Run(test.at, func(t *testing.T) {
			t.Parallel()
			public, admin := service(t, "-workers=10")
			cmd, stderr, wait := attachedUntil(t, test.at, shop(public), "-protect=fast", "-dump-at=100ms", "-dump-url="+admin+"/debug/pprof/goroutine?debug=2", "-baseline-duration=3s")
			interruptAt(t, cmd, stderr)
			o := wait()
			if o.code != 130 || (o.dir != "") != test.result {
				t.Fatalf("exit %d, results %q; stderr\n%s", o.code, o.dir, o.stderr)
			}
			if !test.result {
				if !strings.HasSuffix(o.stderr, "before the load: nothing was measured\n") || o.stdout != "" {
					t.Errorf("stdout %q, stderr\n%s", o.stdout, o.stderr)
				}
				return
			}
			s := o.summary
			if s.Verdict.Outcome != result.Invalid || !strings.HasPrefix(s.Run.EndedEarly, "interrupted") || s.Endpoints["fast"].Scheduled == 0 || s.Endpoints["fast"].Scheduled >= 40 || len(s.Dumps) != 2 {
				t.Errorf("%+v, %+v, %d dumps", s.Run, s.Endpoints["fast"], len(s.Dumps))
			}
			complete(t, o, "Invalid run")
		})
	}
}

// TestRefused: one line that names the value, the code, and nothing left.
func TestRefused(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + closed.Addr().String()
	closed.Close()
	one := func(url string) string { return anyLag + "duration: 1s\nurl: " + url + "\nrate: 20\n" }
	dump := "-dump-url=" + gone + "/debug/pprof/goroutine?debug=2"
	for _, test := range []struct {
		name, plan string
		args       []string
		code       int
		want       string
	}{
		{"a target that is down", one(gone), []string{dump}, 1, "none of the 6 requests of the baseline to url got a good answer (6 connect_error, "},
		{"somebody else's", one("http://192.0.2.1:81/x"), []string{dump}, 2, "the load would go to 192.0.2.1:81, which is not this machine; if it is yours to break, say so with -allow-target 192.0.2.1:81"},
		{"somebody else's behind connect-to", one("http://127.0.0.1/x") + "connect-to: '127.0.0.1:80:192.0.2.1:81'\n", []string{dump}, 2, "the load would go to 192.0.2.1:81"},
		{"another target allowed", one("http://192.0.2.1:81/x"), []string{dump, "-allow-target=192.0.2.1:80"}, 2, "the load would go to 192.0.2.1:81"},
		{"a closed model", anyLag + "duration: 1s\nclosed: 5\nurl: " + gone + "\n", []string{dump}, 2, "is a closed model"},
		{"several endpoints", shop(gone), []string{dump}, 2, "-protect is missing; name the endpoint that must survive: one of fast, recommendations"},
		{"no such endpoint", shop(gone), []string{dump, "-protect=slow"}, 2, `-protect "slow": the plan has no such endpoint; give one of fast, recommendations`},
		{"no plan", "duration: 1s\nurl: x\n", []string{dump}, 2, "-plan: "},
		{"a dump after the load's end", one(gone), []string{dump, "-dump-at=5s"}, 2, "the load ends at 1s, before the dump at 5s"},
		{"no dump URL", one(gone), nil, 2, "-dump-url is missing"},
		{"no URL", one(gone), []string{"-dump-url=dump.txt"}, 2, "-dump-url (not a URL): want a URL"},
		{"metrics without a metric", one(gone), []string{dump, "-metrics-url=" + gone}, 2, "-metrics-url without a metric"},
		{"a metric without metrics", one(gone), []string{dump, "-busy-metric=x"}, 2, "a metric without -metrics-url"},
		{"no metric", one(gone), []string{dump, "-busy-metric=sum(x)"}, 2, `"sum(x)" is no metric`},
		{"no share", one(gone), []string{dump, "-max-failed=2"}, 2, "want a share from 0 to 1"},
		{"a header without a name", one(gone), []string{dump, "-admin-header=hidden"}, 2, "want a line such as"},
		{"a header of the load that is cut short", one(gone), []string{dump, "-header=Cookie: a #b"}, 2, "put it into the plan"},
		{"a name of a folder", one(gone), []string{dump, "-name=../x"}, 2, `-name "../x"`},
		{"a threshold of nobody", one(gone), []string{dump, "-threshold=slow:max<1s"}, 2, "there is no endpoint slow"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := attach(t, test.plan, test.args...)
			last := strings.TrimSuffix(o.stderr, "\n")
			last = last[strings.LastIndex(last, "\n")+1:]
			if o.code != test.code || o.dir != "" || o.stdout != "" || !strings.HasPrefix(last, "lab: ") || !strings.Contains(last, test.want) {
				t.Errorf("exit %d, results %q, stdout %q, stderr\n%s", o.code, o.dir, o.stdout, o.stderr)
			}
			if test.code == 2 && strings.Count(o.stderr, "\n") != 1 {
				t.Errorf("stderr is not one line:\n%s", o.stderr)
			}
		})
	}
}
