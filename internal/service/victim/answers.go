package victim

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
)

// keptAnswers is how many answers are kept for a reader who asks for them: a
// second's worth at 1,000 a second, at 48 bytes each.
const keptAnswers = 1000

// answers are the newest answers, for a view that follows a run. They are kept
// whether anyone asks or not, so that being watched changes nothing.
type answers struct {
	mu    sync.Mutex
	count int // since the start
	ring  [keptAnswers]answered
}

type answered struct {
	took                    time.Duration
	endpoint, phase, status int
	gone                    bool
}

func (a *answers) add(r *request, status int) {
	now := answered{time.Since(r.received), r.endpoint, r.phase, status, r.gone}
	a.mu.Lock()
	a.ring[a.count%keptAnswers] = now
	a.count++
	a.mu.Unlock()
}

// after are the answers after number n that are still kept, oldest first.
func (a *answers) after(n int) []adminapi.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	from := max(n, a.count-keptAnswers)
	if from >= a.count {
		return nil
	}
	kept := make([]adminapi.Answer, 0, a.count-from)
	for i := from; i < a.count; i++ {
		one := a.ring[i%keptAnswers]
		kept = append(kept, adminapi.Answer{
			Number: i + 1, Endpoint: endpointNames[one.endpoint], Phase: phases[one.phase],
			Status: one.status, MS: one.took.Seconds() * 1000, Gone: one.gone,
		})
	}
	return kept
}

// answersAfter reads the number that a question for the state names; asked is
// false where it names none.
func answersAfter(r *http.Request) (n int, asked bool, err error) {
	text := r.FormValue(adminapi.ParamAnswersAfter)
	if text == "" {
		return 0, false, nil
	}
	if n, err = strconv.Atoi(text); err != nil || n < 0 {
		return 0, false, fmt.Errorf("%s=%q: want the number of an answer, or 0 for all that are kept", adminapi.ParamAnswersAfter, text)
	}
	return n, true, nil
}
