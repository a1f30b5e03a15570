package goroutines

import (
	"bytes"
	"errors"
	"io"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/evidence/stacks"
)

func scanCounts(t *testing.T, text string) ([]stacks.Stack, stacks.End, error) {
	t.Helper()
	var all []stacks.Stack
	end, err := ScanCounts(strings.NewReader(text), func(s stacks.Stack, _ []byte) { all = append(all, s) })
	return all, end, err
}

const twoStacks = "goroutine profile: total 203\n" +
	"200 @ 0x1 0x2\n# labels: {\"a\":\"1 @ 0x2\"}\n#\t0x1\tinternal/poll.runtime_pollWait+0x84\t/go/netpoll.go:351\n#\t0x2\tmain.(*T).f.func1+0x1f\t/src/a b/c:d.go:7\n\n" +
	"3 @ 0x9\n#\t0x9\n\n"

func TestScanCounts(t *testing.T) {
	all, end, err := scanCounts(t, "some log line\n"+twoStacks)
	if err != nil || end.Truncated || len(end.Notes) != 1 {
		t.Fatalf("end %+v, error %v", end, err)
	}
	want := []stacks.Stack{
		{Count: 200, Frames: []Frame{
			{Func: "internal/poll.runtime_pollWait", File: "/go/netpoll.go", Line: 351}, {Func: "main.(*T).f.func1", File: "/src/a b/c:d.go", Line: 7},
		}},
		{Count: 3, Frames: []Frame{{Func: "0x9"}}},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestScanCountsTruncated(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		truncated  bool
	}{
		{"whole", twoStacks, false},
		{"pasted without its last lines", strings.TrimRight(strings.Replace(twoStacks, "#\t0x9\n", "#\t0x9\tmain.g+0x1\t/a.go:9\n", 1), "\n"), false},
		{"a stack is missing", twoStacks[:strings.Index(twoStacks, "3 @")], true},
		{"within a frame", strings.TrimRight(twoStacks, "\n"), true},
		{"within a function", twoStacks[:len(twoStacks)-2] + "\tmain.", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, end, err := scanCounts(t, tt.text); err != nil || end.Truncated != tt.truncated {
				t.Errorf("end %+v, error %v", end, err)
			}
		})
	}
}

func TestScanCountsErrors(t *testing.T) {
	for _, text := range []string{"", "heap profile: 1: 2 [3: 4] @ heap/1048576\n", "goroutine profile: total x\n", "goroutine profile: total 3\n"} {
		if _, _, err := scanCounts(t, text); err == nil || !strings.HasPrefix(err.Error(), "no goroutine: want") {
			t.Errorf("%q: error %v", text, err)
		}
	}
	broken := errors.New("broken pipe")
	end, err := ScanCounts(io.MultiReader(strings.NewReader(twoStacks), iotest.ErrReader(broken)), func(stacks.Stack, []byte) {})
	if !errors.Is(err, broken) || !end.Truncated || !strings.Contains(err.Error(), "after 203 goroutines") {
		t.Errorf("end %+v, error %v", end, err)
	}
}

// The profile of this very process agrees with its dump.
func TestScanCountsOfThisProcess(t *testing.T) {
	release := make(chan struct{})
	var ready, done sync.WaitGroup
	ready.Add(50)
	for range 50 {
		done.Go(func() { ready.Done(); countedWait(release) })
	}
	ready.Wait()
	defer done.Wait()
	defer close(release)
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		t.Fatal(err)
	}
	found := 0
	if _, err := ScanCounts(&text, func(s stacks.Stack, _ []byte) {
		if slices.ContainsFunc(s.Frames, func(f Frame) bool { return f.Func == thisPackage+"countedWait" }) {
			found += s.Count
		}
	}); err != nil || found != 50 {
		t.Errorf("%d of 50 goroutines, error %v", found, err)
	}
}

//go:noinline
func countedWait(release chan struct{}) { <-release }

func FuzzScanCounts(f *testing.F) {
	f.Add([]byte(twoStacks))
	f.Add([]byte("goroutineleak profile: total 1\r\n1 @\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		scan := func(r io.Reader) (all []stacks.Stack, failed bool) {
			_, err := ScanCounts(r, func(s stacks.Stack, _ []byte) {
				if s.Count < 1 {
					t.Fatalf("count %d", s.Count)
				}
				all = append(all, s)
			})
			return all, err != nil
		}
		whole, failed := scan(bytes.NewReader(text))
		bytewise, alsoFailed := scan(iotest.OneByteReader(bytes.NewReader(text)))
		if diff := cmp.Diff(whole, bytewise); diff != "" || failed != alsoFailed {
			t.Fatalf("read byte by byte (-whole +bytes):\n%s", diff)
		}
	})
}
