package goroutines

import (
	"bytes"
	"context"
	"net"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/evidence/stacks"
)

const thisPackage = "chokepoint/internal/evidence/goroutines."

// capture returns the goroutines of this process and checks that the parser
// found each header of the text and understood each line.
func capture(t *testing.T, c *Capturer) []Goroutine {
	t.Helper()
	text, pause := c.Capture()
	if pause <= 0 {
		t.Errorf("pause is %v", pause)
	}
	d, err := Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if want := len(headerLine.FindAll(text, -1)); len(d.Goroutines) != want {
		t.Errorf("parsed %d goroutines of %d headers", len(d.Goroutines), want)
	}
	if d.Rest.Text != "" {
		t.Errorf("text of no goroutine: %q", d.Rest.Text)
	}
	for _, g := range d.Goroutines {
		if g.Truncated || len(g.Unknown) > 0 {
			t.Errorf("goroutine %d: truncated %v, unknown %q", g.ID, g.Truncated, g.Unknown)
		}
	}
	return d.Goroutines
}

// eventually captures until the goroutine that runs the function name (of this package) is in the
// state, and fails after a bounded number of tries.
func eventually(t *testing.T, name, state string) Goroutine {
	t.Helper()
	var c Capturer
	var last []Goroutine
	for range 200 {
		last = capture(t, &c)
		for _, g := range last {
			if g.State == state && slices.ContainsFunc(g.Frames, func(f Frame) bool { return f.Func == thisPackage+name }) {
				return g
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("no goroutine in %s is in state %q: %+v", name, state, last)
	return Goroutine{}
}

type live struct{ release chan struct{} }

func (l *live) chanReceive() { <-l.release }
func (l *live) selects() {
	select {
	case <-l.release:
	case <-make(chan int):
	}
}
func (l *live) locked() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	<-l.release
}
func (l *live) deep(n int) {
	if n > 0 {
		l.deep(n - 1)
		return
	}
	<-l.release
}
func generic[T any](release chan T) { <-release }
func mutexWait(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
}
func connRead(c net.Conn) { c.Read(make([]byte, 1)) }
func waitGroupWait(wg *sync.WaitGroup) {
	wg.Wait()
}
func sleeps(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
}

func TestLiveStates(t *testing.T) {
	l := &live{release: make(chan struct{})}
	var mu sync.Mutex
	mu.Lock()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var held, all sync.WaitGroup
	held.Add(1)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		close(l.release)
		mu.Unlock()
		held.Done()
		cancel()
		conn.Close()
		listener.Close()
		all.Wait()
	})
	for _, run := range []func(){
		l.chanReceive, l.selects, l.locked,
		func() { l.deep(120) },
		func() { generic(l.release) },
		func() { mutexWait(&mu) },
		func() { connRead(conn) },
		func() { waitGroupWait(&held) },
		func() { sleeps(ctx) },
	} {
		all.Go(run)
	}

	for _, tt := range []struct {
		name, state, wait string
		check             func(g Goroutine) bool
	}{
		{name: "(*live).chanReceive", state: "chan receive", wait: stacks.WaitChannel},
		{name: "(*live).selects", state: "select", wait: stacks.WaitChannel},
		{name: "(*live).locked", state: "chan receive", wait: stacks.WaitChannel, check: func(g Goroutine) bool { return g.Locked }},
		// 122 calls of deep and those around it, of which 100 are printed.
		{name: "(*live).deep", state: "chan receive", wait: stacks.WaitChannel, check: func(g Goroutine) bool { return g.Elided > 20 && len(g.Frames) == 100 }},
		{name: "generic[...]", state: "chan receive", wait: stacks.WaitChannel},
		{name: "mutexWait", state: "sync.Mutex.Lock", wait: stacks.WaitLock},
		{name: "connRead", state: "IO wait", wait: stacks.WaitRead, check: func(g Goroutine) bool {
			return g.Frames[0].Func == "internal/poll.runtime_pollWait" && Locate(g).Frame.Func == thisPackage+"connRead"
		}},
		{name: "waitGroupWait", state: "sync.WaitGroup.Wait", wait: stacks.WaitCondition},
		{name: "sleeps", state: "sleep", wait: stacks.WaitTimer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := eventually(t, tt.name, tt.state)
			if tt.check != nil && !tt.check(g) {
				t.Errorf("not as expected: %+v", g)
			}
			p := Locate(g)
			if got, want := p.Frame.Func, thisPackage+tt.name; got != want {
				t.Errorf("telling frame is %s, want %s", got, want)
			}
			if p.Wait != tt.wait {
				t.Errorf("waits for %s, want %s", p.Wait, tt.wait)
			}
			if g.CreatedBy.Func != "sync.(*WaitGroup).Go" || g.CreatedBy.Line == 0 || g.CreatorID == 0 {
				t.Errorf("created by %+v in goroutine %d", g.CreatedBy, g.CreatorID)
			}
			for _, f := range g.Frames {
				if f.File == "" || f.Line == 0 {
					t.Errorf("frame without a location: %+v", f)
				}
			}
		})
	}
}

func TestLiveLabels(t *testing.T) {
	t.Setenv("GODEBUG", "tracebacklabels=1")
	l := &live{release: make(chan struct{})}
	want := map[string]string{
		"endpoint":      "/upstream",
		"a]:\nb":        `}]: {"k": "v"}, labels:{`,
		"tab\t, comma":  "\\ é \U00045678 \x00\x7f",
		"empty":         "",
		"minutes":       "chan receive, 2 minutes, locked to thread]:",
		"goroutine 1 [": "\r\n\r\ngoroutine 2 [running]:\n",
	}
	var pairs []string
	for k, v := range want {
		pairs = append(pairs, k, v)
	}
	var wg sync.WaitGroup
	pprof.Do(t.Context(), pprof.Labels(pairs...), func(context.Context) { wg.Go(l.chanReceive) })
	defer wg.Wait()
	defer close(l.release)
	g := eventually(t, "(*live).chanReceive", "chan receive")
	if diff := cmp.Diff(want, g.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestLiveBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &live{release: make(chan struct{})}
		var wg sync.WaitGroup
		wg.Go(l.selects)
		synctest.Wait()
		var c Capturer
		text, _ := c.Capture()
		d, err := Parse(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, g := range d.Goroutines {
			if slices.ContainsFunc(g.Frames, func(f Frame) bool { return f.Func == thisPackage+"(*live).selects" }) {
				found++
				if g.State != "select" || !g.Durable || g.Bubble == 0 || len(g.Unknown) > 0 {
					t.Errorf("state %q, durable %v, bubble %d, unknown %q", g.State, g.Durable, g.Bubble, g.Unknown)
				}
			}
		}
		if found != 1 {
			t.Errorf("%d goroutines in selects", found)
		}
		close(l.release)
		wg.Wait()
	})
}

// crowd starts goroutines that wait depth calls deep, and returns when they all
// do; stop ends them.
func crowd(count, depth int) (stop func()) {
	release := make(chan struct{})
	var ready, all sync.WaitGroup
	var descend func(n int)
	descend = func(n int) {
		if n > 0 {
			descend(n - 1)
			return
		}
		ready.Done()
		<-release
	}
	ready.Add(count)
	for range count {
		all.Go(func() { descend(depth) })
	}
	ready.Wait()
	return func() {
		close(release)
		all.Wait()
	}
}

func TestCaptureKeepsItsBuffer(t *testing.T) {
	const count = 500
	defer crowd(count, 80)()
	var c Capturer
	if first := capture(t, &c); len(first) < count {
		t.Errorf("%d goroutines, want at least %d", len(first), count)
	}
	size := len(c.buf)
	if again := capture(t, &c); len(again) < count {
		t.Errorf("%d goroutines, want at least %d", len(again), count)
	}
	if len(c.buf) > size*5/4+slack {
		t.Errorf("the buffer grew from %d to %d bytes for the same goroutines", size, len(c.buf))
	}
}

func TestCaptureIsCutAtItsLimit(t *testing.T) {
	defer crowd(500, 80)()
	c := Capturer{MaxBytes: 100_000}
	text, _ := c.Capture()
	if len(text) != c.MaxBytes {
		t.Fatalf("%d bytes, want the limit", len(text))
	}
	d, err := Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range d.Goroutines[:len(d.Goroutines)-1] {
		if g.Truncated {
			t.Errorf("goroutine %d of %d is truncated", i+1, len(d.Goroutines))
		}
	}
	// One cut in some 50 falls on the end of a line, and cannot be seen.
	cut := d.Rest.Truncated || d.Goroutines[len(d.Goroutines)-1].Truncated
	if !cut && !bytes.HasSuffix(text, []byte("\n")) {
		t.Errorf("nothing is truncated in a text that ends in %q", text[len(text)-40:])
	}
}

func BenchmarkCapture(b *testing.B) {
	defer crowd(4000, 10)()
	var c Capturer
	var size int
	var pauses time.Duration
	for b.Loop() {
		text, pause := c.Capture()
		size, pauses = len(text), pauses+pause
	}
	b.ReportMetric(float64(pauses.Microseconds())/1000/float64(b.N), "pause-ms/op")
	b.ReportMetric(float64(size), "bytes")
}
