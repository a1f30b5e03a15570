package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhatNobodyReadsIsNotWaitedForAfterASignal: a pipe is read from some moment on,
// or never, and the signal comes after 10 s.
func TestWhatNobodyReadsIsNotWaitedForAfterASignal(t *testing.T) {
	const signal, never = 10 * time.Second, time.Hour
	const unread = "program: stdout: nobody has read it 3s after the signal to end\n"
	for _, tt := range []struct {
		name        string
		read, ended time.Duration
		code        int
		stderr      string
	}{
		{"before the signal", 5 * time.Second, 5 * time.Second, ExitThreshold, ""},
		{"in time", signal + unreadGrace - time.Millisecond, signal + unreadGrace - time.Millisecond, ExitThreshold, ""},
		{"never", never, signal + unreadGrace, ExitFailure, unread},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), signal)
				defer cancel()
				r, w := io.Pipe()
				var seen bytes.Buffer
				closed := make(chan struct{})
				time.AfterFunc(tt.read, func() {
					defer close(closed)
					io.Copy(&seen, r)
				})
				begin := time.Now()
				var stderr bytes.Buffer
				code := CheckStdout(ctx, "program", w, &stderr, func(stdout io.Writer) int {
					for i := range 3 {
						fmt.Fprint(stdout, i)
					}
					return ExitThreshold
				})
				if took := time.Since(begin); took != tt.ended || code != tt.code || stderr.String() != tt.stderr {
					t.Errorf("code %d after %v, stderr %q, want %d after %v, %q", code, took, &stderr, tt.code, tt.ended, tt.stderr)
				}
				// What was begun still goes on, alone.
				if tt.code == ExitFailure {
					<-closedAfter(w, tt.read)
				} else {
					w.Close()
				}
				<-closed
				if want := map[int]string{ExitThreshold: "012", ExitFailure: "0"}[code]; seen.String() != want {
					t.Errorf("the reader has %q, want %q", &seen, want)
				}
			})
		})
	}
}

// closedAfter closes w a second after d.
func closedAfter(w io.Closer, d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(d+time.Second, func() { w.Close(); close(done) })
	return done
}

func TestAwaitedWritesNoMoreAfterAnError(t *testing.T) {
	stdout := &full{left: 1}
	w := Awaited(t.Context(), stdout)
	for i, want := range []int{1, 0, 0} {
		n, err := w.Write([]byte("x"))
		if n != want || (err == nil) != (want == 1) || errors.Is(err, ErrUnread) {
			t.Errorf("write %d: %d, %v", i, n, err)
		}
	}
	if stdout.seen.String() != "x" {
		t.Errorf("written %q", &stdout.seen)
	}
}
