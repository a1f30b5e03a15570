package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/load/engine"
	"chokepoint/internal/load/latency"
	"chokepoint/internal/load/ledger"
)

// secondOf is the second that ends at the given one, with planned arrivals of
// which as many were dropped, and answers of 2 ms to the others.
func secondOf(at, planned, dropped int) engine.Second {
	responses := latency.New()
	for range planned - dropped {
		responses.Record(2 * time.Millisecond)
	}
	to := time.Duration(at) * time.Second
	return engine.Second{From: to - time.Second, To: to, Window: 30 * time.Second, Endpoints: []engine.EndpointSecond{{
		Name: "fast", Planned: planned, Scheduled: planned, Started: planned - dropped, Dropped: dropped,
		Outcomes: ledger.Outcomes{ledger.OK: planned - dropped - 1, ledger.Timeout: 1}, InFlight: 3,
		Timings: engine.Timings{Response: responses},
	}}}
}

func TestProgress(t *testing.T) {
	const (
		first   = "1s/30s  20 of 20/s  1 failed  3 in flight  p50 2.0, p99 2.0 ms"
		quiet   = "7s/30s  20 of 20/s  2 failed  3 in flight  p50 2.0, p99 2.0 ms"
		loud    = "7s/30s  DROPPED 10  10 of 20/s  2 failed  3 in flight  p50 2.0, p99 2.0 ms"
		erase   = "\r\033[K"
		red     = "\033[1;31m"
		regular = "\033[0m"
	)
	for _, test := range []struct {
		name    string
		screen  screen
		dropped int
		want    string
	}{
		{"a file", screen{}, 0, quiet + "\n"},
		{"a file, drops", screen{color: true}, 10, loud + "\n"},
		{"a terminal", screen{redraw: true, color: true}, 0, erase + first + erase + quiet + erase},
		{"drops in color", screen{redraw: true, color: true}, 10, erase + first + erase + strings.Replace(loud, "DROPPED 10", red+"DROPPED 10"+regular, 1) + erase},
		{"drops without color", screen{redraw: true}, 10, erase + first + erase + loud + erase},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var text bytes.Buffer
				test.screen.w, test.screen.width = &text, func() int { return 120 }
				p := showProgress(test.screen, nil)
				short := secondOf(13, 20, 5)
				short.From += time.Millisecond
				for _, s := range []engine.Second{secondOf(1, 20, 0), secondOf(7, 20, test.dropped), short} {
					p.second(s)
					synctest.Wait()
				}
				p.end()
				if text.String() != test.want {
					t.Errorf("got\n%q\nwant\n%q", text.String(), test.want)
				}
			})
		})
	}
}

// TestANoteTakesTheLineOfTheTerminal: what was drawn does not stand beside it.
func TestANoteTakesTheLineOfTheTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		p := showProgress(screen{w: &text, redraw: true, width: func() int { return 120 }}, nil)
		p.second(secondOf(1, 20, 0))
		synctest.Wait()
		p.note("interrupted")
		synctest.Wait()
		p.end()
		const want = "\r\033[K1s/30s  20 of 20/s  1 failed  3 in flight  p50 2.0, p99 2.0 ms\r\033[Kloadgen: interrupted\n"
		if text.String() != want {
			t.Errorf("got\n%q\nwant\n%q", text.String(), want)
		}
	})
}

func TestProgressFitsTheTerminal(t *testing.T) {
	m := moment{at: time.Second, window: 30 * time.Second, dropped: 1234}
	for width, want := range map[int]string{0: "", 1: "", 10: "1s/30s  D", 22: "1s/30s  DROPPED 1234 "} {
		s := screen{redraw: true, width: func() int { return width }}
		if got := m.line(s); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
	over := moment{at: 40 * time.Second, window: 30 * time.Second, inFlight: 7}
	if got, want := over.line(screen{}), "40s/30s  waiting for answers  0 failed  7 in flight  no answers"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	over.started = 5
	if got, want := over.line(screen{}), "40s/30s  5/s  0 failed  7 in flight  no answers"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// stuck takes nothing until it is released.
type stuck struct{ released chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	<-s.released
	return len(b), nil
}

func TestAStderrThatNobodyReadsStallsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stuck{make(chan struct{})}
		began := time.Now()
		p := showProgress(screen{w: s, redraw: true, width: func() int { return 80 }}, []string{"a note"})
		for i := range 1000 {
			p.second(secondOf(i+1, 20, 0))
			synctest.Wait()
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("a thousand seconds took %v of the run's time, want none", waited)
		}
		p.end()
		if waited := time.Since(began); waited != lastLine {
			t.Errorf("the end took %v, want %v", waited, lastLine)
		}
		close(s.released)
	})
}

func TestAFullPipeStallsNoRun(t *testing.T) {
	var seen atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	defer server.Close()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	// Fill it: what can be written at once is written.
	if err := write.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = write.Write(make([]byte, 4096))
	}
	if err := write.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	code := run(t.Context(), []string{"-rate", "100", "-duration", "1500ms", "-max-lag", "1h", server.URL}, &stdout, write)
	if code != cli.ExitOK || seen.Load() != 150 || !strings.HasPrefix(stdout.String(), "valid\n") {
		t.Errorf("exit code %d, %d requests, stdout\n%s", code, seen.Load(), &stdout)
	}
	write.Close() // ends the goroutine that still writes
}
