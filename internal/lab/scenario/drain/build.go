package drain

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/result"
)

// Cases are the cases, in the order of a report. They share one PostgreSQL.
func Cases(s Settings) []matrix.Case {
	database := &Database{}
	var cases []matrix.Case
	for _, r := range rows {
		scale := max(s.Scale, r.leastScale)
		r.setup, r.want = r.setup.in(scale), r.want.in(scale)
		r.want.repeats = r.setup.Load.Attempts > 1
		defence := r.defence
		if defence == "" {
			defence = result.DefenceNone
		}
		cases = append(cases, matrix.Case{
			Case: result.Case{
				ID: r.id, Group: r.group, Title: r.title, Method: "POST", Defence: defence,
				Client: fmt.Sprintf("%s %s", r.setup.Protocol, r.setup.Gateway), Settings: r.setup.inWords(),
				Want: r.want.inWords(), Why: r.why, Predicted: r.predicted,
			},
			Length: r.setup.length(),
			Run: func(ctx context.Context, folder string, into *result.Case) error {
				out, err := Carry(ctx, s.Programs, database, r.setup, folder)
				if err != nil {
					return err
				}
				into.Got, into.OK = r.want.judge(out)
				into.Counts, into.Events, into.Files = out.Counts, out.Events, out.Files
				into.Requests = shown(out.Requests)
				for _, q := range out.Requests {
					into.HandlerRuns += q.Runs
				}
				if len(out.Ended) > 0 {
					into.Seconds = out.Ended[len(out.Ended)-1].At.Seconds()
				}
				return nil
			},
		})
	}
	return cases
}

// Build makes the cases from settings as JSON.
func Build(settings json.RawMessage) ([]matrix.Case, error) {
	var s Settings
	if err := json.Unmarshal(settings, &s); err != nil {
		return nil, fmt.Errorf("the settings of %s: %w", Name, err)
	}
	return Cases(s), nil
}

// length is about how long a setup takes.
func (s Setup) length() time.Duration {
	one := max(s.End.PreStop+s.End.Drain, s.Balancer.Propagation, s.End.Grace)
	if s.Rolling {
		one *= time.Duration(s.Gateways)
	}
	return s.Load.Before + one
}

// inWords are the times of a setup.
func (s Setup) inWords() string {
	drain := fmt.Sprintf("drain %v", s.End.Drain)
	if s.End.OnZero {
		drain = "exit at zero connections"
	}
	text := fmt.Sprintf("preStop %v, %s, propagation %v", s.End.PreStop, drain, s.Balancer.Propagation)
	if s.End.KeepIdle {
		text += ", idle-close-on-response"
	}
	if s.Edge > 0 {
		text += fmt.Sprintf(", edge idle %v", s.Edge)
	}
	if s.Balancer.Terminate {
		text += fmt.Sprintf(", terminated after %v", s.Balancer.DeregistrationDelay)
	}
	if s.Load.IdleTimeout > 0 {
		text += fmt.Sprintf(", clients close what rests for %v", s.Load.IdleTimeout)
	}
	return text
}

// maxShown bounds the requests of a case that were answered and done once, in its
// summary; requests.jsonl has all.
const maxShown = 200

// shown are the requests that a summary has: all that failed or were done twice, and of
// the others as many as there is room for, evenly.
func shown(all []result.CaseRequest) []result.CaseRequest {
	plain := func(r result.CaseRequest) bool { return r.Got == "200" && r.Runs == 1 }
	n := 0
	for _, r := range all {
		if plain(r) {
			n++
		}
	}
	step := (n + maxShown - 1) / maxShown
	i := 0
	return slices.DeleteFunc(slices.Clone(all), func(r result.CaseRequest) bool {
		if !plain(r) {
			return false
		}
		i++
		return step > 1 && i%step != 0
	})
}
