package drainmap

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/evidence/draining"
	"chokepoint/internal/lab/scenario/drain"
	"chokepoint/internal/result"
)

// maxKept bounds the requests of a cell of which summary.json has all; of more it has
// those that failed. The file requests.jsonl has all.
const maxKept = 200

// fateOf is what became of a request, by its row in PostgreSQL.
func fateOf(r result.CaseRequest) draining.Fate {
	switch {
	case r.Got == "200":
		return draining.OK
	case r.Runs > 0:
		return draining.FailedButExecuted
	}
	return draining.NeverReached
}

// unexplained are the requests of a cell that fared otherwise than the model says of the
// moment at which each was sent. A band of counts can be met by chance; this can not.
func (w world) unexplained(s draining.Stop, out drain.Outcome) ([]string, error) {
	ended := ""
	if len(out.Ended) > 0 {
		ended = out.Ended[0].Name
	}
	var strange []string
	for _, r := range out.Requests {
		i, err := strconv.Atoi(strings.TrimPrefix(r.ID, "r"))
		if err != nil || i < 0 || i >= len(w.takes) {
			return nil, fmt.Errorf("a request has the id %q, and the load's are r0 to r%d", r.ID, len(w.takes)-1)
		}
		fate := fateOf(r)
		explained := fate == draining.OK // of a gateway that stays nothing else is
		if r.Server == ended || r.Server == "" {
			at := time.Duration(r.AtS * float64(time.Second))
			explained = s.Explains(w.settings.Propagation, draining.CloseIdle, draining.Request{At: at, Takes: w.takes[i]}, fate, slack)
		}
		if !explained {
			strange = append(strange, fmt.Sprintf("%s of %.3f s at %q: %s", r.ID, r.AtS, r.Server, r.Got))
		}
	}
	return strange, nil
}

// kept are the requests that summary.json has.
func kept(all []result.CaseRequest) []result.CaseRequest {
	if len(all) <= maxKept {
		return all
	}
	var failed []result.CaseRequest
	for _, r := range all {
		if fateOf(r) != draining.OK {
			failed = append(failed, r)
		}
	}
	return failed
}
