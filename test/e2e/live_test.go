//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/live"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/test/browser"
)

// liveURL waits until the lab has said where its live view is.
func (b *bench) liveURL() string {
	b.t.Helper()
	const before = "live view: "
	b.stderr.await(b.t, before)
	_, rest, _ := strings.Cut(b.stderr.text(), before)
	url, _, _ := strings.Cut(rest, "\n")
	return url
}

// follower reads the live view of a lab to its end.
type follower struct {
	done chan struct{} // closed when the stream has ended

	mu      sync.Mutex
	runs    []string
	samples map[string][]live.Sample // by profile
	events  map[string][]live.Event
	phases  map[string][]string
	end     *live.Report
}

func follow(t *testing.T, url string) *follower {
	t.Helper()
	f := &follower{
		done: make(chan struct{}), samples: map[string][]live.Sample{}, events: map[string][]live.Event{}, phases: map[string][]string{},
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url + "events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close(); <-f.done })
	go func() {
		defer close(f.done)
		in := bufio.NewScanner(resp.Body)
		in.Buffer(nil, 16<<20)
		name := ""
		for in.Scan() {
			field, value, _ := strings.Cut(in.Text(), ": ")
			switch field {
			case "event":
				name = value
			case "data":
				f.take(t, name, []byte(value))
			}
		}
	}()
	return f
}

func (f *follower) take(t *testing.T, name string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	read := func(v any) {
		if err := json.Unmarshal(data, v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	now := ""
	if len(f.runs) > 0 {
		now = f.runs[len(f.runs)-1]
	}
	switch name {
	case "state":
		var s live.State
		read(&s)
		if s.Run.Number > len(f.runs) {
			f.runs = append(f.runs, s.Run.Profile)
		}
	case "sample":
		var s live.Sample
		read(&s)
		f.samples[now] = append(f.samples[now], s)
	case "event":
		var e live.Event
		read(&e)
		f.events[now] = append(f.events[now], e)
	case "phase":
		var p live.Phase
		read(&p)
		f.phases[now] = append(f.phases[now], p.Name)
	case "end":
		f.end = &live.Report{}
		read(f.end)
	}
}

// event is the first of that name, and of a dump of that point.
func (f *follower) event(profile, name, point string) (live.Event, bool) {
	for _, e := range f.events[profile] {
		if e.Name == name && strings.HasPrefix(e.Text, "dump "+point) == (name == "dump") {
			return e, true
		}
	}
	return live.Event{}, false
}

// around are the least and the most cells of a place in the samples around a moment.
// The calls of a bulkhead end in bursts, so that one sample is not like the next.
func (f *follower) around(profile string, at float64, letter rune) (least, most, samples int) {
	const window = 0.5 // real seconds
	for _, s := range f.samples[profile] {
		if s.AtS < at-window || s.AtS > at+window {
			continue
		}
		n := strings.Count(s.Where, string(letter))
		if samples == 0 {
			least = n
		}
		least, most = min(least, n), max(most, n)
		samples++
	}
	return least, most, samples
}

// handOvers is how many workers a dump or a sample can catch between two requests.
const handOvers = 5

// TestLive watches an outage and then the fix in a real browser, and holds what it
// shows against the dumps.
func TestLive(t *testing.T) {
	b := newBench(t, "compare", "exhaustion", "-scale="+scale, "-max-lag=10s", "-profiles=anti,fixed", "-runs=1", "-recovery-wait=10s", "-live")
	b.start()
	url := b.liveURL()
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("the live view is at %q, want the loopback", url)
	}
	f := follow(t, url)
	tab := browser.Start(t).Open(t, url)
	cells := func(where string) int {
		return browser.Eval[int](tab, "document.querySelectorAll('#cells .f-"+where+"').length")
	}

	tab.Until("document.querySelectorAll('#cells .f-upstream_read').length === 200")
	before := browser.Eval[int](tab, "Live.state.history.length")
	browser.Eval[any](tab, "window.isOld = true; location.reload()") // which goes away later
	tab.Until("!window.isOld && typeof Live === 'object' && Live.state !== null && Live.state.last !== null && document.querySelectorAll('canvas').length === 3")
	if after := browser.Eval[int](tab, "Live.state.history.length"); after < before {
		t.Errorf("a reload lost samples: %d before it, %d after", before, after)
	}
	if n := cells(stacks.UpstreamRead); n != 200 {
		t.Errorf("%d red cells after a reload, want 200", n)
	}
	if n := browser.Eval[int](tab, "document.querySelectorAll('#log li[data-name=pool_full]').length"); n != 1 {
		t.Errorf("the event log after a reload has the exhausted pool %d times", n)
	}

	tab.Until("Live.state.run.profile === 'fixed' && document.querySelectorAll('#cells .f-upstream_read').length === 20")
	if n := browser.Eval[int](tab, "Live.state.last.busy"); n >= 100 {
		t.Errorf("%d workers are busy with the fix, want few", n)
	}
	tab.Until("location.pathname.startsWith('/results/') && document.readyState === 'complete'")
	if path := browser.Eval[string](tab, "location.pathname"); !strings.HasSuffix(path, "-compare-1/report.html") {
		t.Errorf("it ends at %s, want the report of the comparison", path)
	}
	b.wait()
	<-f.done
	b.checkNothingLeft()
	if errors := tab.Errors(); len(errors) != 0 {
		t.Errorf("the console says %q", errors)
	}
	for _, request := range tab.Requests() {
		if !strings.HasPrefix(request, url) {
			t.Errorf("a request to %s", request)
		}
	}
	f.check(t)
}

// check holds what was shown against the dumps.
func (f *follower) check(t *testing.T) {
	if strings.Join(f.runs, " ") != "anti fixed" || f.end == nil {
		t.Fatalf("runs %q, end %+v", f.runs, f.end)
	}
	for profile, want := range map[string]string{
		"anti":  "dump load_on pool_full first_queued dump dump load_off dump",
		"fixed": "dump load_on dump dump load_off dump recovered",
	} {
		var names []string
		for _, e := range f.events[profile] {
			if profile == "fixed" && (e.Name == "pool_full" || e.Name == "first_queued") {
				continue // a stall of the machine may fill the pool for a moment
			}
			names = append(names, e.Name)
		}
		got := strings.Join(names, " ")
		if profile == "fixed" {
			got = strings.Replace(got, "recovered dump", "dump recovered", 1) // whichever was first
		}
		if got != want {
			t.Errorf("%s: events %q, want %q", profile, got, want)
		}
		if got := strings.Join(f.phases[profile], " "); got != "start baseline load recovery" {
			t.Errorf("%s: phases %q", profile, got)
		}
	}
	for _, point := range []string{"before", "load_15s", "load_40s"} {
		for _, profile := range f.runs {
			dump, ok := f.event(profile, "dump", point)
			if !ok {
				t.Errorf("%s: no dump %s", profile, point)
				continue
			}
			read := dump.Where[stacks.UpstreamRead]
			least, most, samples := f.around(profile, dump.AtS, adminapi.WhereUpstreamRead)
			if samples == 0 || read < least-handOvers || read > most+handOvers {
				t.Errorf("%s, dump %s at %.2f s: %d workers in the upstream read, and %d to %d cells in %d samples", profile, point, dump.AtS, read, least, most, samples)
			}
		}
	}
}

// TestLiveLabKilled: the page goes with the lab, and so does everything else.
func TestLiveLabKilled(t *testing.T) {
	t.Parallel()
	b := short(t, "-live")
	b.start()
	f := follow(t, b.liveURL())
	b.stderr.await(t, "dump load_15s")
	b.cmd.Process.Signal(syscall.SIGKILL)
	b.wait()
	b.noResult()
	b.checkNothingLeft()
	select {
	case <-f.done:
	case <-time.After(10 * time.Second):
		t.Error("the stream has not ended")
	}
	if f.end != nil {
		t.Errorf("a killed lab said that all is over: %+v", f.end)
	}
}
