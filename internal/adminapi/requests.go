package adminapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// StubRequest is one run of the stub's handler. A run begins when the whole request
// was read, before any work: from then on a retry would do the work twice.
//
// The stub's -request-log has two lines of JSON for each run, one when it begins (End
// is empty) and one when it ends, so that a stub that is killed has left what it had
// begun. Of two lines with the same Server, Number and BeganAt the later one counts.
type StubRequest struct {
	Server     string `json:"server"`     // the stub's -name
	Number     int    `json:"number"`     // of the run, from 1, over all requests of the server
	Connection string `json:"connection"` // as HeaderConnection has it
	ID         string `json:"id"`         // HeaderID, empty if there was none
	// Run is which run of its id this is, from 1; 0 without an id.
	Run            int       `json:"run"`
	IdempotencyKey string    `json:"idempotency_key,omitempty"`
	Phase          string    `json:"phase"`
	Method         string    `json:"method"`
	Path           string    `json:"path"`
	BodyBytes      int       `json:"body_bytes"` // received
	BeganAt        time.Time `json:"began_at"`
	EndedAt        time.Time `json:"ended_at,omitzero"`
	// End is how it ended: one of the End constants, empty while it runs.
	End string `json:"end,omitempty"`
	// Fault is what befell it, empty for a good answer.
	Fault  Fault `json:"fault,omitempty"`
	Status int   `json:"status,omitempty"` // of the answer, if one was written whole
}

// ParseRequestLog reads a stub's -request-log: its runs in the order in which they
// began. A last line that is being written is left out.
func ParseRequestLog(text []byte) ([]StubRequest, error) {
	var runs []StubRequest
	place := map[int]int{}
	for line := range bytes.Lines(text) {
		var r StubRequest
		if err := json.Unmarshal(line, &r); err != nil {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break
			}
			return nil, fmt.Errorf("the stub's log: %w", err)
		}
		at, known := place[r.Number]
		if !known {
			at = len(runs)
			place[r.Number] = at
			runs = append(runs, r)
		}
		runs[at] = r
	}
	return runs, nil
}

// How a run of the stub's handler, or a request through lab gateway, ended.
const (
	EndAnswered   = "answered"    // the answer was written whole
	EndClientGone = "client_gone" // the caller had left before the answer was written
	EndDied       = "died"        // the server broke off before the answer was whole
	EndCut        = "cut"         // the server ended with the request in flight
)

// StubRequests is the stub's /requests: the runs of its handler in the order in which
// they began. It holds the first MaxStubRequests, and Runs those of as many ids.
type StubRequests struct {
	Server   string        `json:"server"`
	Total    int           `json:"total"` // runs since the start
	Requests []StubRequest `json:"requests"`
	// Runs is how often the handler ran for each id.
	Runs map[string]int `json:"runs"`
}

// MaxStubRequests bounds the memory of StubRequests.
const MaxStubRequests = 50_000

// RequestFault is a fault that a request brings with it, in HeaderFault.
type RequestFault struct {
	Fault  Fault
	First  int  // only the first that many runs of the request's id; 0: all
	Status int  // of FaultStatus
	Close  bool // "Connection: close" with the answer
}

// ParseRequestFault reads HeaderFault: the name of a fault of requests, "none" for a
// good answer, and after semicolons any of first=N, status=CODE and close, such as
// "close;first=1" or "status;status=503;close".
func ParseRequestFault(text string) (RequestFault, error) {
	parts := strings.Split(text, ";")
	f := RequestFault{Fault: Fault(strings.TrimSpace(parts[0]))}
	if f.Fault == "none" {
		f.Fault = FaultNone
	}
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(value)
		switch {
		case name == "close" && value == "":
			f.Close = true
		case name == "first" && err == nil && n > 0:
			f.First = n
		case name == "status" && err == nil:
			f.Status = n
		default:
			return RequestFault{}, fmt.Errorf("%s %q: %q is none of first=N, status=CODE and close", HeaderFault, text, part)
		}
	}
	return f, nil
}

// String is the header's value.
func (f RequestFault) String() string {
	text := string(f.Fault)
	if f.Fault == FaultNone {
		text = "none"
	}
	if f.First > 0 {
		text += ";first=" + strconv.Itoa(f.First)
	}
	if f.Status > 0 {
		text += ";status=" + strconv.Itoa(f.Status)
	}
	if f.Close {
		text += ";close"
	}
	return text
}
