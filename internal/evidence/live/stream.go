package live

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	// retryMS is how long a viewer waits before it comes back.
	retryMS = 1000
	// keepAlive is the longest silence: a client that has gone without a word is
	// found out by the next write.
	keepAlive = 5 * time.Second
	// writeWait is how long a message may take to be written; a viewer that takes
	// no more is gone, or as good as.
	writeWait = 5 * time.Second
)

// serveEvents streams the view to one viewer as server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
func (v *View) serveEvents(w http.ResponseWriter, r *http.Request) {
	viewer := v.watch()
	defer viewer.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	s := &stream{w: w, control: http.NewResponseController(w)}
	first, err := json.Marshal(viewer.first)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if s.write("retry: %d\nevent: %s\ndata: %s\n\n", retryMS, messageState, first) != nil {
		return
	}
	silence := time.NewTicker(keepAlive)
	defer silence.Stop()
	for {
		select {
		case m, ok := <-viewer.messages:
			if !ok || s.write("event: %s\ndata: %s\n\n", m.name, m.data) != nil {
				return
			}
		case <-silence.C:
			if s.write(": still here\n\n") != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// stream is the answer to one viewer.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (s *stream) write(format string, args ...any) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.w, format, args...); err != nil {
		return err
	}
	return s.control.Flush()
}
