package upstream

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
)

// requests keeps every run of the handler, to be joined with what the clients saw, and
// writes it to a file if there is one.
type requests struct {
	server string

	mu      sync.Mutex
	total   int
	kept    []adminapi.StubRequest // by number - 1
	runs    map[string]int
	file    *os.File // nil: none
	fileErr error    // the first; nothing is written after it
}

// newRequests opens the file, if path is not empty, and adds to what it holds.
func newRequests(server, path string) (*requests, error) {
	r := &requests{server: server, runs: map[string]int{}}
	if path == "" {
		return r, nil
	}
	var err error
	if r.file, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("request log: %w", err)
	}
	return r, nil
}

// begin notes that a request was read whole, and returns it with its number and run.
func (r *requests) begin(run adminapi.StubRequest) adminapi.StubRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total++
	run.Server, run.Number = r.server, r.total
	if _, known := r.runs[run.ID]; run.ID != "" && (known || len(r.runs) < adminapi.MaxStubRequests) {
		r.runs[run.ID]++
		run.Run = r.runs[run.ID]
	}
	if len(r.kept) < adminapi.MaxStubRequests {
		r.kept = append(r.kept, run)
	}
	r.write(run)
	return run
}

// end notes how a run ended.
func (r *requests) end(run adminapi.StubRequest) {
	run.EndedAt = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if run.Number <= len(r.kept) {
		r.kept[run.Number-1] = run
	}
	r.write(run)
}

// write adds a line to the file before it returns: whoever kills the stub must find
// what had begun.
func (r *requests) write(run adminapi.StubRequest) {
	if r.file == nil || r.fileErr != nil {
		return
	}
	if err := json.NewEncoder(r.file).Encode(run); err != nil {
		r.fileErr = fmt.Errorf("request log: %w; what ended after %s is not in it", err, run.BeganAt.Format(time.RFC3339Nano))
	}
}

// snapshot copies what is kept: of one id, or of all if id is empty.
func (r *requests) snapshot(id string) adminapi.StubRequests {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := adminapi.StubRequests{Server: r.server, Total: r.total, Requests: []adminapi.StubRequest{}, Runs: map[string]int{}}
	for _, run := range r.kept {
		if id == "" || run.ID == id {
			s.Requests = append(s.Requests, run)
		}
	}
	for known, n := range r.runs {
		if id == "" || known == id {
			s.Runs[known] = n
		}
	}
	return s
}

// close closes the file and returns the first error that it gave.
func (r *requests) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	if r.fileErr != nil {
		return r.fileErr
	}
	return err
}
