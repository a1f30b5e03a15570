package goroutines

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"

	"github.com/google/go-cmp/cmp"
)

// block prints a goroutine with these functions, innermost first.
func block(id int, header string, functions ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "goroutine %d [%s]:\n", id, header)
	for i, f := range functions {
		fmt.Fprintf(&b, "%s(0x%x)\n\t/src/a.go:%d +0x1d\n", f, id, i+1)
	}
	fmt.Fprintf(&b, "created by main.start in goroutine 1\n\t/src/a.go:99 +0x1d\n")
	return b.String()
}

var reading = []string{pollWait, fdRead, "github.com/valyala/fasthttp.(*ResponseHeader).tryRead", do, handle, work}

func exhausted(workers, queued int) string {
	var blocks []string
	id := 1
	for ; id <= workers; id++ {
		blocks = append(blocks, block(id, fmt.Sprintf("IO wait, %d minutes", id%3+1), reading...))
	}
	for ; id <= workers+queued; id++ {
		blocks = append(blocks, block(id, `select labels:{"phase": "load"}`, "chokepoint/internal/service/pool.(*task).awaitWorker", "github.com/valyala/fasthttp.(*Server).serveConn"))
	}
	blocks = append(blocks, block(id, "running", "runtime/pprof.writeGoroutineStacks", "chokepoint/internal/service/victim.dump", "net/http.(*conn).serve"))
	return strings.Join(blocks, "\n")
}

func TestSummarize(t *testing.T) {
	dial := block(900, "IO wait", pollWait, "net.(*netFD).connect", "net.(*Dialer).DialContext", "chokepoint/internal/service/outbound.dial", do, handle, work)
	text := exhausted(200, 300) + "\n" + dial
	d, err := Summarize(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := result.Dump{
		Goroutines: 502, Workers: 201, Queued: 300,
		Where: map[string]int{stacks.Idle: 0, stacks.UpstreamConnect: 1, stacks.UpstreamRead: 200, stacks.PermitWait: 0, stacks.Database: 0, stacks.Queued: 300, stacks.Running: 0, stacks.Other: 0},
		Groups: []result.Group{
			{Where: stacks.Queued, State: "select", Frame: "chokepoint/internal/service/pool.(*task).awaitWorker", Count: 300, Stacks: 1,
				Stack: block(201, `select labels:{"phase": "load"}`, "chokepoint/internal/service/pool.(*task).awaitWorker", "github.com/valyala/fasthttp.(*Server).serveConn")},
			{Where: stacks.UpstreamRead, State: "IO wait", Frame: "github.com/valyala/fasthttp.(*ResponseHeader).tryRead", Count: 200, Stacks: 1,
				Stack: block(1, "IO wait, 2 minutes", reading...)},
			{Where: stacks.Other, State: "running", Frame: "chokepoint/internal/service/victim.dump", Count: 1, Stacks: 1,
				Stack: block(501, "running", "runtime/pprof.writeGoroutineStacks", "chokepoint/internal/service/victim.dump", "net/http.(*conn).serve")},
			{Where: stacks.UpstreamConnect, State: "IO wait", Frame: "chokepoint/internal/service/outbound.dial", Count: 1, Stacks: 1, Stack: dial},
		},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSummarizeTellsStacksApart(t *testing.T) {
	other := strings.Replace(block(3, "IO wait", reading...), "/src/a.go:5", "/src/a.go:55", 1)
	d, err := Summarize(strings.NewReader(block(1, "IO wait", reading...) + "\n" + block(2, "IO wait, 9 minutes", reading...) + "\n" + other))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Groups) != 1 || d.Groups[0].Count != 3 || d.Groups[0].Stacks != 2 {
		t.Errorf("groups %+v", d.Groups)
	}
}

func TestSummarizeTruncated(t *testing.T) {
	whole := exhausted(2, 2)
	for _, tt := range []struct {
		name, text string
		goroutines int
		truncated  bool
	}{
		{"whole", whole, 5, false},
		{"within a stack", whole[:len(whole)-90], 5, true},
		{"within a header", whole + "\ngoroutine 6 [sel", 6, true},
		{"within an id", whole + "\ngoroutine 1", 5, true},
		{"within gp", whole + "\ngoroutine 17 gp=0x12", 5, true},
		{"within the word", whole + "\ngorout", 5, true},
		{"before another line", whole + "\ngorout\n", 5, false},
		{"other text", whole + "\nexit status 2", 5, false},
		{"no id", whole + "\ngoroutine x", 5, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Summarize(strings.NewReader(tt.text))
			if err != nil || d.Truncated != tt.truncated || d.Goroutines != tt.goroutines {
				t.Errorf("%d goroutines, truncated %v, error %v", d.Goroutines, d.Truncated, err)
			}
		})
	}
}

func TestSummarizeErrors(t *testing.T) {
	if _, err := Summarize(strings.NewReader("<html>404</html>\n")); err == nil || !strings.HasPrefix(err.Error(), "no goroutine in 17 bytes") {
		t.Errorf("error %v", err)
	}
	if _, err := Summarize(strings.NewReader("")); err == nil || !strings.HasPrefix(err.Error(), "no goroutine in 0 bytes") {
		t.Errorf("error %v", err)
	}
	broken := errors.New("broken pipe")
	d, err := Summarize(io.MultiReader(strings.NewReader(exhausted(3, 1)), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || d.Goroutines != 5 || d.Workers != 3 || !d.Truncated {
		t.Errorf("%d goroutines, %d workers, truncated %v, error %v", d.Goroutines, d.Workers, d.Truncated, err)
	}
}

func BenchmarkSummarize(b *testing.B) {
	text := exhausted(80_000, 20_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		d, err := Summarize(strings.NewReader(text))
		if err != nil || d.Goroutines != 100_001 {
			b.Fatal(d.Goroutines, err)
		}
	}
}

// A log with two SIGQUITs doubles every count: the reader is told.
func TestSeveralDumpsInOneTextAreNoted(t *testing.T) {
	const dump = "goroutine 1 [running]:\nmain.main()\n\t/a.go:1\n\ngoroutine 7 [select]:\nmain.f()\n\t/a.go:2\n\n"
	for _, tt := range []struct {
		text  string
		notes []string
	}{
		{dump, nil},
		{dump + "SIGQUIT: quit\n\n" + dump, []string{"goroutine 1 is in it 2 times: it holds several dumps, which are counted together; split it"}},
	} {
		end, err := Scan(strings.NewReader(tt.text), func(stacks.Stack, []byte) {})
		if err != nil || !slices.Equal(end.Notes, tt.notes) {
			t.Errorf("notes %q, error %v, want %q", end.Notes, err, tt.notes)
		}
	}
}
