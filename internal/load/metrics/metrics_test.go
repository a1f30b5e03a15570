package metrics

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"chokepoint/internal/load/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scrape is every sample of a scrape, by its name and labels.
func scrape(t *testing.T, address string) map[string]float64 {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	response, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		t.Error(err)
		return nil
	}
	defer response.Body.Close()
	samples := map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasPrefix(name, "#") {
			if samples[name], err = strconv.ParseFloat(value, 64); err != nil {
				t.Errorf("%q: %v", lines.Text(), err)
			}
		}
	}
	return samples
}

func listen(t *testing.T, endpoints ...string) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0", endpoints)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestScrapesAgreeWithTheLedger(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer target.Close()
	s := listen(t, "fast", "busy", "gone")
	var middle map[string]float64
	c := engine.Config{
		Duration: 1300 * time.Millisecond,
		Endpoints: []engine.Endpoint{
			{Name: "fast", URL: target.URL, Rate: 200},
			{Name: "busy", URL: target.URL + "/busy", Rate: 100},
			{Name: "gone", URL: "http://127.0.0.1:1/", Rate: 50},
		},
		EachSecond: func(second engine.Second) {
			s.Second(second)
			if middle == nil {
				middle = scrape(t, s.Address())
			}
		},
	}.WithDefaults()
	player, err := engine.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer player.Close()
	report, err := player.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range report.Load.Endpoints {
		for when, samples := range map[string]map[string]float64{"middle": middle, "end": scrape(t, s.Address())} {
			get := func(format string, args ...any) int { return int(samples[fmt.Sprintf(format, args...)]) }
			scheduled, started := get(`loadgen_arrivals_scheduled_total{endpoint=%q}`, name), get(`loadgen_requests_started_total{endpoint=%q}`, name)
			dropped, inFlight := get(`loadgen_arrivals_dropped_total{endpoint=%q}`, name), get(`loadgen_requests_in_flight{endpoint=%q}`, name)
			outcomes := 0
			for _, outcome := range finished {
				outcomes += get(`loadgen_requests_total{endpoint=%q,outcome=%q}`, name, outcome)
			}
			if scheduled != started+dropped || started != outcomes+inFlight || scheduled == 0 {
				t.Errorf("%s, %s does not balance: %v", name, when, samples)
			}
			ok, failed := get(`loadgen_response_seconds_count{endpoint=%q,result="ok"}`, name), get(`loadgen_response_seconds_count{endpoint=%q,result="failed"}`, name)
			if all := get(`loadgen_response_seconds_bucket{endpoint=%q,result="ok",le="+Inf"}`, name); ok+failed != outcomes || all != ok {
				t.Errorf("%s, %s: responses of %d ok (%d up to any bound) and %d failed requests, want %d", name, when, ok, all, failed, outcomes)
			}
			if when == "middle" {
				continue
			}
			want := map[string]int{
				"planned": e.Planned, "scheduled": e.Scheduled, "started": e.Started, "dropped": e.Dropped, "in flight": 0,
				"ok": e.OK, "http_error": e.HTTPError, "connect_error": e.ConnectError, "lag": int(e.Lag.Count), "service": int(e.Service.Count),
			}
			got := map[string]int{
				"planned":   get(`loadgen_arrivals_planned_total{endpoint=%q}`, name),
				"scheduled": scheduled, "started": started, "dropped": dropped, "in flight": inFlight,
				"ok":            get(`loadgen_requests_total{endpoint=%q,outcome="ok"}`, name),
				"http_error":    get(`loadgen_requests_total{endpoint=%q,outcome="http_error"}`, name),
				"connect_error": get(`loadgen_requests_total{endpoint=%q,outcome="connect_error"}`, name),
				"lag":           get(`loadgen_lag_seconds_count{endpoint=%q}`, name),
				"service":       get(`loadgen_service_seconds_count{endpoint=%q}`, name),
			}
			for word, n := range want {
				if got[word] != n {
					t.Errorf("%s %s: %d scraped, %d in the ledger", name, word, got[word], n)
				}
			}
		}
	}
	if middle["loadgen_elapsed_seconds"] != 1 || middle["loadgen_window_seconds"] != 1.3 || middle["process_cpu_seconds_total"] <= 0 {
		t.Errorf("after a second: %v", middle)
	}
}

func TestMetricsAreNamedAsPrometheusAsks(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newLoad([]string{"fast"}))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("error %v, problems %v", err, problems)
	}
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{
		":9464": "127.0.0.1:9464", "127.0.0.1:0": "127.0.0.1:0", "0.0.0.0:9464": "0.0.0.0:9464", "[::1]:9464": "[::1]:9464", "localhost:1": "localhost:1",
		"9464": "", "host": "", ":": "", ":http": "", ":65536": "", "::1:9464": "",
	} {
		if got, err := ParseAddress(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q and %v, want %q", text, got, err, want)
		}
	}
}

func TestAnAddressInUse(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := Listen(other.Addr().String(), nil); err == nil || err.Error() != other.Addr().String()+" is in use; choose another port, or 0 for any that is free" {
		t.Errorf("error %v", err)
	}
	if _, err := Listen("192.0.2.1:9464", nil); err == nil || err.Error() != "cannot listen on 192.0.2.1:9464: cannot assign requested address; choose an address of this machine and a free port" {
		t.Errorf("error %v", err)
	}
}

func TestLingerEndsWithAScrape(t *testing.T) {
	s := listen(t, "fast")
	scrape(t, s.Address()) // before the end: that is not the last one
	lingered := make(chan struct{})
	go func() {
		defer close(lingered)
		s.Linger(t.Context(), time.Minute)
	}()
	for {
		scrape(t, s.Address())
		select {
		case <-lingered:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestLingerEndsWithoutAScrape(t *testing.T) {
	s := listen(t, "fast")
	s.Linger(t.Context(), time.Nanosecond)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Linger(ctx, time.Hour)
}
