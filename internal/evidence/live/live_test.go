package live

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// received reads what has been sent to a viewer, as "name: first field".
func received(w *Viewer) (names []string, open bool) {
	for {
		select {
		case m, ok := <-w.messages:
			if !ok {
				return names, false
			}
			names = append(names, m.name)
		default:
			return names, true
		}
	}
}

func TestAViewerThatComesInTheMiddleGetsAllOfIt(t *testing.T) {
	v := NewView(2)
	early := v.watch()
	v.Begin(Run{Profile: "anti"})
	v.Say(Phase{Name: "load", Sentence: "It begins."})
	for i := range 3 {
		v.Sample(Sample{AtS: float64(i), Where: "ui", Busy: i})
	}
	v.Event(Event{Name: "load_on"})

	late := v.watch()
	s := late.first
	if s.Run.Number != 1 || s.Run.Of != 2 || s.Run.Profile != "anti" || s.Phase.Name != "load" ||
		len(s.History) != 3 || s.History[2].Busy != 2 || len(s.Events) != 1 || s.Last.Where != "ui" {
		t.Errorf("the first that a late viewer sees: %+v", s)
	}
	if s.History[0].Where != "" {
		t.Errorf("the history has the places of each worker: %+v", s.History[0])
	}
	v.Sample(Sample{AtS: 3})
	if len(s.History) != 3 {
		t.Error("a viewer's history grows by itself")
	}
	if got, open := received(late); !open || !slices.Equal(got, []string{"sample"}) {
		t.Errorf("after it: %q, open %v", got, open)
	}
	if got, _ := received(early); !slices.Equal(got, []string{"state", "phase", "sample", "sample", "sample", "event", "sample"}) {
		t.Errorf("who watched from the beginning: %q", got)
	}

	// The next run begins with nothing but what came of the one before.
	v.Report(Report{Title: "Profile anti", Outcome: "reproduced"})
	v.Begin(Run{Profile: "fixed"})
	if s := v.State(); s.Run.Number != 2 || len(s.History) != 0 || s.Last != nil || len(s.Events) != 0 || len(s.Reports) != 1 {
		t.Errorf("as the second run begins: %+v", s)
	}
	v.End(Report{Title: "all", Path: "/results/x/report.html"})
	if got, _ := received(late); !slices.Equal(got, []string{"state", "state", "end"}) {
		t.Errorf("the end: %q", got)
	}
	if again := v.watch(); again.first.End == nil || again.first.End.Title != "all" {
		t.Errorf("a viewer after the end: %+v", again.first.End)
	}
}

// Telling never waits: a viewer that takes nothing is let go, and the others and
// the run do not notice.
func TestASlowViewerIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := NewView(1)
		v.Begin(Run{})
		slow, quick := v.watch(), v.watch()
		start := time.Now()
		for range 10 * viewerBacklog {
			v.Sample(Sample{})
			if _, open := received(quick); !open {
				t.Fatal("a viewer that keeps up was let go")
			}
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("telling took %v", waited)
		}
		if got, open := received(slow); open || len(got) != viewerBacklog {
			t.Errorf("%d messages, open %v; want %d and an end", len(got), open, viewerBacklog)
		}
		slow.leave() // once more does nothing
		if len(v.viewers) != 1 {
			t.Errorf("%d viewers, want one", len(v.viewers))
		}
		quick.leave()
		if len(v.viewers) != 0 {
			t.Errorf("%d viewers, want none", len(v.viewers))
		}
	})
}

func TestHistoryIsBoundedAndKeepsThePeaks(t *testing.T) {
	v := NewView(1)
	v.Begin(Run{})
	w := v.watch()
	const n = 5 * maxHistory
	states, peaks := 0, map[int]bool{1: true, 1000: true, maxHistory: true, n - 2: true}
	for i := range n {
		s := Sample{AtS: float64(i), Fast: Answers{Count: 1, P50MS: 1, MaxMS: 2}}
		if peaks[i] {
			s.Queued = i
		}
		v.Sample(s)
		names, _ := received(w)
		for _, name := range names {
			if name == messageState {
				states++
			}
		}
	}
	// Full at 2400 samples, and again whenever half as many places are free and filled.
	h := v.State().History
	if len(h) > maxHistory || len(h) < maxHistory/2 {
		t.Errorf("%d samples are kept, want %d to %d", len(h), maxHistory/2, maxHistory)
	}
	if states != 3 {
		t.Errorf("thinned %d times, want 3: at 1, 2 and 4 times %d", states, maxHistory)
	}
	answers := 0
	for i, s := range h {
		answers += s.Fast.Count
		if i > 0 && s.AtS <= h[i-1].AtS {
			t.Fatalf("sample %d is at %v, after one at %v", i, s.AtS, h[i-1].AtS)
		}
		delete(peaks, s.Queued)
	}
	if len(peaks) > 0 || answers != n || h[len(h)-1].AtS != n-1 {
		t.Errorf("lost peaks %v; %d of %d answers; the last at %v", peaks, answers, n, h[len(h)-1].AtS)
	}
}

func TestEventsAreBounded(t *testing.T) {
	v := NewView(1)
	for i := range maxEvents + 10 {
		v.Event(Event{AtS: float64(i)})
	}
	if e := v.State().Events; len(e) != maxEvents || e[0].AtS != 10 {
		t.Errorf("%d events from %v on", len(e), e[0].AtS)
	}
}

// A run that nobody watches has a view all the same: none.
func TestNobodyWatches(t *testing.T) {
	var v *View
	v.Begin(Run{})
	v.Say(Phase{})
	v.Sample(Sample{})
	v.Event(Event{})
	v.Report(Report{})
	v.End(Report{})
}

func TestText(t *testing.T) {
	v := NewView(2)
	v.Begin(Run{Scenario: "exhaustion", Profile: "anti", Workers: 8})
	v.Say(Phase{Sentence: "Nothing bounds the calls, so all of the workers should soon be busy."})
	for i, queued := range []int{0, 3, 7} {
		s := Sample{AtS: float64(i), Where: "uuuudrip", Busy: 7, Queued: queued, CPUPercent: 1.25}
		s.Fast = Answers{Waiting: queued}
		if i == 0 {
			s.Fast = Answers{Count: 2, P50MS: 1.5, MaxMS: 4}
		}
		v.Sample(s)
	}
	v.Event(Event{AtS: 1.04, Name: "pool_full", Text: "the pool is exhausted"})
	plain := Text(v.Glance(100), 40, false)
	want := []string{
		"exhaustion, profile anti: run 1 of 2",
		"uuuudrip",
		"u upstream read 4  p permit wait 1  d da",
		"busy 7 of 8  queued 7  no bulkhead  CPU ",
		"/fast p50 1.5 ms, slowest 4.0 ms, 7 wait",
		"queue, at most 7: ▁▄█",
	}
	if !slices.Equal(plain, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(plain, "\n"), strings.Join(want, "\n"))
	}
	for i := range 3 {
		v.Sample(Sample{AtS: 3 + float64(i), Fast: Answers{Waiting: 7}})
	}
	if text := strings.Join(Text(v.Glance(100), 40, false), "\n"); !strings.Contains(text, "/fast no answer for 4.0 s, 7 wait") {
		t.Errorf("got\n%s", text)
	}
	v.Sample(Sample{AtS: 6, Where: "uuuudrip"})
	if text := strings.Join(Text(v.Glance(100), 40, false), "\n"); !strings.Contains(text, "/fast p50 1.5 ms, slowest 4.0 ms, 0 wait") {
		t.Errorf("nobody waits, got\n%s", text)
	}
	coloured := strings.Join(Text(v.Glance(100), 40, true), "\n")
	if !strings.Contains(coloured, "\033[31m■■■■\033[34m■\033[32m■\033[90m■\033[33m■\033[0m") {
		t.Errorf("no cells in %q", coloured)
	}
	for _, columns := range []int{-1, 0, 1, 3} { // a window that somebody has made small
		Text(v.Glance(100), columns, true)
	}
	if lines := Text(NewView(1).Glance(1), 80, false); len(lines) != 0 {
		t.Errorf("before anything has begun: %q", lines)
	}
}

// More workers than fit are counted, not drawn.
func TestTextOfManyWorkers(t *testing.T) {
	v := NewView(1)
	v.Begin(Run{Profile: "unbounded"})
	v.Sample(Sample{Where: strings.Repeat("u", 1000), Busy: 1000})
	lines := strings.Join(Text(v.Glance(1), 100, false), "\n")
	if strings.Count(lines, strings.Repeat("u", 100)+"\n") != 3 || !strings.Contains(lines, "and 700 more\n") || !strings.Contains(lines, "u upstream read 1000") {
		t.Errorf("got\n%s", lines)
	}
}

// The page reads what the types say: a field that is renamed here is one that the
// page does not find.
func TestTheStateHasTheFieldsOfThePage(t *testing.T) {
	v := NewView(1)
	v.Begin(Run{})
	v.Sample(Sample{Where: "u"})
	v.Event(Event{Where: map[string]int{"idle": 1}})
	v.Report(Report{})
	v.End(Report{})
	data, err := json.Marshal(v.State())
	if err != nil {
		t.Fatal(err)
	}
	script, err := assets.ReadFile("assets/live.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{
		"run", "phase", "sentence", "events", "history", "last", "reports", "end", "number", "of", "profile", "summary", "scale", "workers", "permits",
		"at_s", "where", "busy", "queued", "accept_queue", "cpu_percent", "fast", "upstream", "count", "mark", "p50_ms", "max_ms", "waiting", "gone", "title", "outcome", "path",
	} {
		if !strings.Contains(string(data), `"`+field+`":`) {
			t.Errorf("the state has no %q", field)
		}
		if !strings.Contains(string(script), field) {
			t.Errorf("the page does not read %q", field)
		}
	}
}
