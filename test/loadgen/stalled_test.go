package loadgen

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/cli"
)

// stall answers no request before the client has given it up.
func stall(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(20 * time.Second):
	}
}

// TestStalledServer: no answer comes before the generator stops waiting. k6 discards
// these requests without a word, and wrk2 and h2load count them nowhere.
func TestStalledServer(t *testing.T) {
	onBothEngines(t, func(t *testing.T, engine string) {
		url, seen := serve(t, stall)
		o := play(t, engine, url, "-rate=200", "-duration=500ms", "-graceful-stop=500ms", anyLag)
		o.checkIdentities(t, 100, seen)
		e := o.endpoint()
		if e.Interrupted != 100 || e.FailedRatio != 1 || e.Response.Count != 0 {
			t.Errorf("interrupted %d, failed ratio %v, %d response times; want 100, 1, 0", e.Interrupted, e.FailedRatio, e.Response.Count)
		}
		if n := len(seen.reads()); n != 100 {
			t.Errorf("the server read %d requests, want 100", n)
		}
		// Interrupted requests are a warning, and never a silent one.
		if want := "url: 100 of 100 requests were interrupted"; o.code != cli.ExitOK || !strings.Contains(o.stdout, want) {
			t.Errorf("exit code %d, want %d and %q in\n%s", o.code, cli.ExitOK, want, o.stdout)
		}
	})
}

// TestStalledServerWithATimeout: the same server, waited for until the client's timeout,
// which counts from the due time and is recorded as what the client waited.
func TestStalledServerWithATimeout(t *testing.T) {
	const timeout = 400 * time.Millisecond
	onBothEngines(t, func(t *testing.T, engine string) {
		url, seen := serve(t, stall)
		o := play(t, engine, url, "-rate=200", "-duration=500ms", "-timeout="+timeout.String(), anyLag)
		o.checkIdentities(t, 100, seen)
		e := o.endpoint()
		if e.Timeout != 100 || e.Interrupted != 0 || e.FailedResponse.Count != 100 || e.OKResponse.Count != 0 {
			t.Errorf("%d timeouts, %d interrupted, %d failed and %d good times; want 100, 0, 100, 0",
				e.Timeout, e.Interrupted, e.FailedResponse.Count, e.OKResponse.Count)
		}
		for _, r := range o.requests {
			// Not the timeout as it was set, and not less: what the clock says.
			if r.Response < timeout || r.Response > 5*timeout {
				t.Errorf("%s, due at %v, waited %v, want %v or a little more", r.ID, r.Due, r.Response, timeout)
			}
		}
		if least := float64(timeout.Milliseconds()); e.Response.Min < least || e.Response.P50 < least {
			t.Errorf("response %+v, want nothing under %v ms", e.Response, least)
		}
	})
}

// TestTenRuns: a plan has the same count every time, also where its interval is no
// whole number of nanoseconds.
func TestTenRuns(t *testing.T) {
	const planned = 30
	onBothEngines(t, func(t *testing.T, engine string) {
		var runs [10]struct {
			seen *ids
			wait func() outcome
		}
		for i := range runs {
			var url string
			url, runs[i].seen = serve(t, func(http.ResponseWriter, *http.Request) {})
			runs[i].wait = start(t, engine, url, "-rate=30/s", "-duration=1s", "-workers=30", anyLag)
		}
		for i, run := range runs {
			o := run.wait()
			o.checkIdentities(t, planned, run.seen)
			if e := o.endpoint(); e.OK != planned || len(run.seen.reads()) != planned || o.code != cli.ExitOK {
				t.Errorf("run %d: %d ok, %d read by the server, exit code %d; want %d, %d, %d", i, e.OK, len(run.seen.reads()), o.code, planned, planned, cli.ExitOK)
			}
		}
	})
}
