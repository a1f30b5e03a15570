//go:build e2e

package e2e

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// lineWatch keeps what is written to it and can wait for a text to appear.
type lineWatch struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	written chan struct{}
}

func newLineWatch() *lineWatch { return &lineWatch{written: make(chan struct{}, 1)} }

func (w *lineWatch) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.buf.Write(p)
	w.mu.Unlock()
	select {
	case w.written <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (w *lineWatch) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// await waits until the text has appeared.
func (w *lineWatch) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !strings.Contains(w.text(), text) {
		select {
		case <-w.written:
		case <-deadline:
			t.Fatalf("%q has not appeared in a minute:\n%s", text, w.text())
		}
	}
}
