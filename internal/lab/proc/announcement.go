package proc

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"

	"chokepoint/internal/adminapi"
)

// maxAnnouncement bounds a line that is looked at for the announcement, in
// bytes; longer ones go to the log only.
const maxAnnouncement = 64 << 10

// announcement is the stdout of a child that says where it listens. Everything
// goes on to the log; the first line that is an adminapi.Listening is kept.
type announcement struct {
	log   io.Writer
	found chan struct{}

	mu        sync.Mutex
	line      []byte
	listening adminapi.Listening
	seen      bool
}

func newAnnouncement(log io.Writer) *announcement {
	return &announcement{log: log, found: make(chan struct{})}
}

// Write implements io.Writer. A log that cannot be written to does not stop the
// child from being heard.
func (a *announcement) Write(p []byte) (int, error) {
	_, _ = a.log.Write(p)
	a.mu.Lock()
	defer a.mu.Unlock()
	for rest := p; !a.seen && len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte{'\n'})
		rest = after
		if len(a.line) <= maxAnnouncement {
			a.line = append(a.line, part...)
		}
		if whole {
			a.parse()
			a.line = nil
		}
	}
	return len(p), nil
}

// parse looks at one whole line. A line of other JSON has no program in it.
func (a *announcement) parse() {
	var l adminapi.Listening
	if len(a.line) > maxAnnouncement || json.Unmarshal(a.line, &l) != nil || l.Program == "" {
		return
	}
	a.listening, a.seen = l, true
	close(a.found)
}
