package scenario

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/live"
	"chokepoint/internal/result"
)

// liveEvery is the real time between two samples of the live view: eight a second.
const liveEvery = 125 * time.Millisecond

// feed tells a view what happens in a run. Its questions are its own: the samples
// that a run is judged by are taken without it as with it. A feed without a view
// asks and tells nothing.
type feed struct {
	view     *live.View
	observer *observer
	began    time.Time
	progress func(format string, args ...any)

	before   adminapi.VictimStats
	answered int // the number of the newest answer that is known
	gone     map[string]int
	told     map[string]bool // events that happen once
}

// newFeed begins a run in the view.
func newFeed(view *live.View, o *observer, s *Settings, progress func(format string, args ...any)) *feed {
	f := &feed{view: view, observer: o, began: time.Now(), progress: progress, gone: map[string]int{}, told: map[string]bool{}}
	p, _ := s.Profile.Profile() // Validate has resolved it
	workers := s.MaxWorkers
	if p.Unbounded {
		workers = 0
	}
	view.Begin(live.Run{
		Scenario: Exhaustion, Profile: p.Name, Summary: p.Summary, Scale: s.Scale, Workers: workers, Permits: p.Permits,
	})
	return f
}

// at is a moment in real seconds since the run began.
func (f *feed) at(t time.Time) float64 { return t.Sub(f.began).Seconds() }

// tell tells of an event that happens now. The mark is its label in the chart.
func (f *feed) tell(name, mark, text string) {
	f.view.Event(live.Event{AtS: f.at(time.Now()), Name: name, Mark: mark, Text: text})
}

// tellDump tells of a dump, and where the workers stood in it.
func (f *feed) tellDump(d result.Dump, taken time.Time) {
	f.view.Event(live.Event{
		AtS: f.at(taken), Name: "dump", Mark: d.Point, Where: d.Where,
		Text: fmt.Sprintf("dump %s: of %d workers %s, %d queued", d.Point, d.Workers, inCalls(d), d.Queued),
	})
}

// run asks the victim until ctx is done. A question that gets no answer is asked
// again: what is wrong with the victim is for the run to find out.
func (f *feed) run(ctx context.Context, admin string) {
	if f.view == nil {
		return
	}
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for {
		var stats adminapi.VictimStats
		url := admin + adminapi.PathStats + "?" + adminapi.ParamAnswersAfter + "=" + strconv.Itoa(f.answered)
		if err := f.observer.getJSON(ctx, url, &stats); err == nil {
			f.sample(stats, time.Now())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// start runs the feed beside the run until stop is called, which waits for it.
func (f *feed) start(ctx context.Context, admin string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { f.run(ctx, admin) })
	return func() {
		cancel()
		running.Wait()
	}
}

// sample tells what the victim has said.
func (f *feed) sample(stats adminapi.VictimStats, at time.Time) {
	s := live.Sample{
		AtS: f.at(at), Where: stats.Pool.Where, Busy: stats.Pool.Busy, Queued: stats.Pool.Queued,
		Permits: stats.PermitsHeld, AcceptQueue: stats.Listener.AcceptQueue,
	}
	if passed := stats.Now.Sub(f.before.Now).Seconds(); !f.before.Now.IsZero() && passed > 0 {
		s.CPUPercent = 100 * (stats.Process.CPUSeconds - f.before.Process.CPUSeconds) / passed
	}
	for _, a := range stats.Answers {
		f.answered = a.Number
		if a.Gone && a.Phase == adminapi.PhaseLoad {
			f.gone[a.Endpoint]++
		}
	}
	s.Fast, s.Upstream = f.answers(stats, "fast"), f.answers(stats, "upstream")
	f.before = stats
	f.view.Sample(s)

	// The reset before the load makes the extremes those of the load.
	if stats.Endpoints["fast"][adminapi.PhaseLoad].Received == 0 {
		return
	}
	// In this order: only a full pool has a queue.
	if stats.Pool.Limit > 0 && stats.Pool.MaxBusy >= stats.Pool.Limit && f.once("pool_full") {
		f.found("pool_full", "full", fmt.Sprintf("the pool is exhausted: all %d workers are busy", stats.Pool.Limit))
	}
	if stats.Pool.MaxQueued > 0 && f.once("first_queued") {
		f.found("first_queued", "", "the first request waits for a worker")
	}
}

// found tells of an event that only the feed knows of.
func (f *feed) found(name, mark, text string) {
	f.tell(name, mark, text)
	f.progress("%s", text)
}

// once reports whether the event has not happened before.
func (f *feed) once(name string) bool {
	first := !f.told[name]
	f.told[name] = true
	return first
}

// answers sums up those of one endpoint.
func (f *feed) answers(stats adminapi.VictimStats, endpoint string) live.Answers {
	var took []float64
	for _, a := range stats.Answers {
		if a.Endpoint == endpoint {
			took = append(took, a.MS)
		}
	}
	a := live.Answers{Count: len(took), Status: stats.Endpoints[endpoint][adminapi.PhaseLoad].Status, Gone: f.gone[endpoint]}
	if len(took) > 0 {
		slices.Sort(took)
		a.P50MS, a.MaxMS = took[(len(took)-1)/2], took[len(took)-1]
	}
	for _, phase := range stats.Endpoints[endpoint] {
		a.Waiting += phase.Received
		for _, n := range phase.Status {
			a.Waiting -= n
		}
	}
	return a
}
