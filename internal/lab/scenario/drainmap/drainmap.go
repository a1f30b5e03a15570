// Package drainmap is the map of pre-stop and drain: a gateway is ended under load with
// each combination of the two, in a world of package drain, and what becomes of the
// requests stands beside what package draining predicts. Beside the map stands the
// smallest setting with which nothing fails: searched with the model, derived by the
// rule, and the smallest of those that were measured.
//
// Every request has a connection of its own, so that a cell has one cause for each class:
// new connections that come after the pre-stop are refused, and requests that outlast
// the drain are cut off though the application goes on with them. Connections that are
// kept are the scenario drain's.
package drainmap

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"chokepoint/internal/evidence/draining"
	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/scenario/drain"
	"chokepoint/internal/result"
)

// Name is what the scenario is called.
const Name = result.ScenarioDrainMap

const (
	gateways = 2
	// slack is by how much anything in a run may be late: a request, its answer, the
	// balancer, the end of the gateway.
	slack = 150 * time.Millisecond
	// settle is for how long the load goes on, once as many requests are in flight as
	// there will be, before the gateway is told to end.
	settle = 500 * time.Millisecond
)

// world is what all cells have in common.
type world struct {
	settings Settings
	takes    []time.Duration // of each request
	before   time.Duration   // how long the load goes on before the gateway is told to end
	traffic  draining.Traffic
}

func newWorld(s Settings) (world, error) {
	response, err := s.response()
	if err != nil {
		return world{}, err
	}
	w := world{settings: s, before: response.Slowest + settle, traffic: draining.Traffic{
		Response: response, Rate: 1 / s.Every.Seconds() / gateways, Propagation: s.Propagation,
	}}
	random := rand.New(rand.NewPCG(s.Seed, 0))
	for range s.Requests {
		w.takes = append(w.takes, response.Quantile(random.Float64()))
	}
	return w, nil
}

// load are the requests as the model sees them.
func (w world) load() []draining.Request {
	var load []draining.Request
	for i, takes := range w.takes {
		load = append(load, draining.Request{At: time.Duration(i)*w.settings.Every - w.before, Takes: takes})
	}
	return load
}

// predicted is what becomes of the load with a setting.
func (w world) predicted(s draining.Stop) draining.Counts {
	return s.Replay(w.settings.Propagation, draining.CloseIdle, w.load(), gateways, slack)
}

// smallest is the smallest setting with which nothing fails, as it is searched.
func (w world) smallest() draining.Stop {
	return draining.Smallest(w.traffic, draining.CloseIdle, time.Millisecond)
}

// setup is the world of one cell.
func (w world) setup(s draining.Stop) drain.Setup {
	return drain.Setup{
		Gateway: drain.Gateway(w.settings.Gateway), Gateways: gateways, Protocol: drain.HTTP1,
		Balancer: drain.Balancer{Propagation: w.settings.Propagation, DeregistrationDelay: s.PreStop + s.Drain},
		End:      drain.End{PreStop: s.PreStop, Drain: s.Drain},
		Load: drain.Load{
			Requests: w.settings.Requests, Every: w.settings.Every, Before: w.before, NewConnections: true,
			Work: func(i int) time.Duration { return w.takes[i] },
		},
	}
}

// id names a cell.
func id(s draining.Stop) string { return fmt.Sprintf("%s+%s", s.PreStop, s.Drain) }

// Cases are the cells of the map, row by row. They share one PostgreSQL.
func Cases(s Settings) ([]matrix.Case, error) {
	w, err := newWorld(s)
	if err != nil {
		return nil, err
	}
	database := &drain.Database{}
	var cases []matrix.Case
	for _, stop := range s.grid(w.traffic.Response.Slowest) {
		want := w.predicted(stop)
		cases = append(cases, matrix.Case{
			Case: result.Case{
				ID: id(stop), Group: fmt.Sprintf("pre-stop %s", stop.PreStop), Title: fmt.Sprintf("pre-stop %s, drain %s", stop.PreStop, stop.Drain),
				Client: fmt.Sprintf("%s %s", drain.HTTP1, s.Gateway), Method: "POST", Defence: result.DefenceNone,
				Want: inWords(want), Why: w.why(stop),
				Ending: &result.CaseEnding{PreStopS: stop.PreStop.Seconds(), DrainS: stop.Drain.Seconds(), Predicted: result.PredictedCounts{
					OK: result.CountRange(want.OK), NeverReached: result.CountRange(want.NeverReached), FailedButExecuted: result.CountRange(want.FailedButExecuted),
				}},
			},
			Length: stop.PreStop + stop.Drain,
			Run: func(ctx context.Context, folder string, into *result.Case) error {
				out, err := drain.Carry(ctx, s.Programs, database, w.setup(stop), folder)
				if err != nil {
					return err
				}
				strange, err := w.unexplained(stop, out)
				judge(want, strange, out, into)
				return err
			},
		})
	}
	return cases, nil
}

// Build makes the cells from settings as JSON.
func Build(settings json.RawMessage) ([]matrix.Case, error) {
	var s Settings
	if err := json.Unmarshal(settings, &s); err != nil {
		return nil, fmt.Errorf("the settings of %s: %w", Name, err)
	}
	return Cases(s)
}

// why is the rule as it applies to a cell.
func (w world) why(s draining.Stop) string {
	slowest := w.traffic.Response.Slowest
	reach := fmt.Sprintf("new connections come for %s, and after the pre-stop they are refused", w.settings.Propagation)
	if s.PreStop >= w.settings.Propagation {
		reach = fmt.Sprintf("the pre-stop covers the propagation of %s, so that none is refused", w.settings.Propagation)
	}
	last := min(s.PreStop, w.settings.Propagation)
	left := s.PreStop + s.Drain - last
	cut := fmt.Sprintf("the last request begins at %s and the gateway cuts it off %s later; the slowest takes %s", last, left, slowest)
	if left >= slowest {
		cut = fmt.Sprintf("%s are left for the last request, which covers the slowest of %s", left, slowest)
	}
	return reach + "; " + cut
}

// judge holds what came out against what was predicted; strange are the requests that
// the model does not explain.
func judge(want draining.Counts, strange []string, out drain.Outcome, into *result.Case) {
	n := out.Counts
	exactly := func(n int) draining.Span { return draining.Span{Low: n, High: n} }
	into.Counts, into.Requests, into.Events, into.Files = n, kept(out.Requests), out.Events, out.Files
	into.Got = inWords(draining.Counts{OK: exactly(n.OK), NeverReached: exactly(n.NeverReached), FailedButExecuted: exactly(n.FailedButExecuted)})
	into.OK = want.OK.Has(n.OK) && want.NeverReached.Has(n.NeverReached) && want.FailedButExecuted.Has(n.FailedButExecuted)
	if n.ExecutedTwice > 0 {
		into.Got, into.OK = fmt.Sprintf("%s, %d executed twice", into.Got, n.ExecutedTwice), false
	}
	if len(strange) > 0 {
		into.Got, into.OK = fmt.Sprintf("%s, %d not as the model says of the moment at which they were sent, the first %s", into.Got, len(strange), strange[0]), false
	}
	for _, r := range out.Requests {
		into.HandlerRuns += r.Runs
	}
	if len(out.Ended) > 0 {
		into.Seconds = out.Ended[0].At.Seconds()
	}
}

// inWords are counts in the order in which they matter.
func inWords(c draining.Counts) string {
	span := func(s draining.Span) string {
		if s.Low == s.High {
			return fmt.Sprint(s.Low)
		}
		return fmt.Sprintf("%d to %d", s.Low, s.High)
	}
	return fmt.Sprintf("%s ok, %s never reached, %s failed but executed", span(c.OK), span(c.NeverReached), span(c.FailedButExecuted))
}
