package rolling

import (
	"encoding/json"
	"fmt"
	"time"

	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/result"
)

// how is how the server ends.
type how string

// The ways to end. The stub is told by its -shutdown what SIGTERM means.
const (
	graceful  how = "graceful"  // SIGTERM: nothing new, what was begun is answered
	immediate how = "immediate" // SIGTERM: what was begun is cut off
	killed    how = "SIGKILL"
)

// row is a case for up to two cells, GET and POST.
type row struct {
	id, group, title string
	why              string // the rule that the expectation follows from
	how              how
	gone             bool // its address goes when it has ended
	inFlight         bool // a request at each server
	defence          defence
	wants            map[string]func(Settings) expect // by method
	// untilOut sends a request every interval, whatever becomes of those before, until
	// nginx has taken the server out, and then so many more. The others send requests one
	// after the other.
	untilOut bool
}

// defence is what is done about it.
type defence struct {
	name       string
	directives string // of nginx, in the location
	drainFirst bool   // nginx is reloaded without the server before that is told to end
	flush      bool   // the balancer's neighbour entry is removed when the address has gone
}

// settings is the defence in the words of who applies it.
func (d defence) settings() string {
	switch {
	case d.drainFirst:
		return "server " + holdsWAS1 + " down; reload; then stop"
	case d.flush:
		return "ip neighbour flush to was1"
	}
	return d.directives
}

// against is the case with a defence, and what is then wanted.
func (r row) against(d defence, why string, wants map[string]func(Settings) expect) row {
	r.defence, r.why, r.wants = d, why, wants
	return r
}

const (
	methodGET  = "GET"
	methodPOST = "POST"
)

// always is an expectation that no setting changes.
func always(e expect) func(Settings) expect { return func(Settings) expect { return e } }

func both(want func(Settings) expect) map[string]func(Settings) expect {
	return map[string]func(Settings) expect{methodGET: want, methodPOST: want}
}

func each(get, post expect) map[string]func(Settings) expect {
	return map[string]func(Settings) expect{methodGET: always(get), methodPOST: always(post)}
}

// Build is the matrix with so many settings, as matrix.Builder wants it.
func Build(settings json.RawMessage) ([]matrix.Case, error) {
	var s Settings
	if err := json.Unmarshal(settings, &s); err != nil {
		return nil, fmt.Errorf("read the settings of %s: %w", Name, err)
	}
	return Cases(s), nil
}

// Cases are the cells of the matrix, in the order of a report. Of a reader's configuration
// it is wanted that no request is lost; what a defence would put into the lab's own is in
// it or is not, so that those cases are left out.
func Cases(s Settings) []matrix.Case {
	gate := matrix.NewGate()
	var cases []matrix.Case
	for _, r := range rows {
		readers := s.ConfigFile != ""
		if readers {
			if r.defence.directives != "" || r.defence.flush {
				continue
			}
			r.untilOut, r.why = false, whyReaders
		}
		for _, method := range []string{methodGET, methodPOST} {
			wants, ok := r.wants[method]
			if !ok {
				continue
			}
			want := wants(s)
			if readers {
				want = r.nothingLost(method)
			}
			cases = append(cases, matrix.Case{
				Case: result.Case{
					ID: r.id, Group: r.group, Title: r.title, Client: result.ClientNginx, Method: method,
					Defence: r.defence.name, Settings: r.defence.settings(), Fault: r.befalls(),
					Want: want.want(), Why: r.why,
				},
				Length: r.length(s, want),
				Run:    cell{s, r, method, want, gate}.run,
			})
		}
	}
	return cases
}

// befalls is what happens to the server, whatever is done about it.
func (r row) befalls() string {
	words := "was1 ends: " + string(r.how)
	if r.gone {
		words += "; its address goes with it"
	}
	if r.inFlight {
		words += "; a request is in flight at each server"
	}
	return words
}

// endsLate says whether the server lives on, and closes its listener at once, until it has
// answered what is in flight.
func (r row) endsLate() bool { return r.inFlight && r.how == graceful }

// length is about how long the case takes.
func (r row) length(s Settings, want expect) time.Duration {
	if want.out != nil {
		return want.out.to
	}
	return requests*interval + time.Duration(want.timedOut.most)*s.Timeout
}

// cell is one case of the matrix with all that it takes to carry it out.
type cell struct {
	s      Settings
	row    row
	method string
	want   expect
	gate   matrix.Gate
}
