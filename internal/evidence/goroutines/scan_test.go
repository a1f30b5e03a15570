package goroutines

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// headerLine finds the headers of a text in another way than the parser does.
var headerLine = regexp.MustCompile(`(?m)^goroutine [0-9]{1,19} (?:gp=[^\[\n]* )?\[[^\n]*[\]}]:\r?$`)

// outline shows a dump in a few lines a goroutine.
func outline(d Dump) string {
	var b strings.Builder
	for _, g := range d.Goroutines {
		fmt.Fprintf(&b, "goroutine %d: %q, %d min, locked %v, leaked %v, durable %v, bubble %d, unavailable %v, truncated %v\n",
			g.ID, g.State, g.WaitMinutes, g.Locked, g.Leaked, g.Durable, g.Bubble, g.Unavailable, g.Truncated)
		for _, key := range slices.Sorted(maps.Keys(g.Labels)) {
			fmt.Fprintf(&b, "\tlabel %q = %q\n", key, g.Labels[key])
		}
		shown := g.Frames
		if len(shown) > 8 {
			fmt.Fprintf(&b, "\t%d frames, the innermost and the outermost 4:\n", len(shown))
			shown = slices.Concat(shown[:4], shown[len(shown)-4:])
		}
		for _, f := range shown {
			fmt.Fprintf(&b, "\t%s at %s:%d\n", f.Func, f.File, f.Line)
		}
		fmt.Fprintf(&b, "\telided %d; created by %s at %s:%d in goroutine %d\n", g.Elided, g.CreatedBy.Func, g.CreatedBy.File, g.CreatedBy.Line, g.CreatorID)
		for _, u := range g.Unknown {
			fmt.Fprintf(&b, "\tunknown %q\n", u)
		}
	}
	fmt.Fprintf(&b, "rest, %d bytes:\n%s", d.Rest.Bytes, d.Rest.Text)
	return b.String()
}

func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dumps in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			d, err := Parse(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if want := len(headerLine.FindAll(text, -1)); len(d.Goroutines) != want {
				t.Errorf("parsed %d goroutines of %d headers", len(d.Goroutines), want)
			}
			golden := strings.TrimSuffix(file, ".txt") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(outline(d)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), outline(d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}

			// Lines that end as on Windows make no difference.
			crlf, err := Parse(bytes.NewReader(bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(d, crlf); diff != "" {
				t.Errorf("with CRLF (-LF +CRLF):\n%s", diff)
			}
		})
	}
}

func TestHeaders(t *testing.T) {
	for _, tt := range []struct {
		header string
		want   Goroutine
	}{
		{`goroutine 1 [running]:`, Goroutine{ID: 1, State: "running"}},
		{`goroutine 1 [chan receive, 2 minutes]:`, Goroutine{ID: 1, State: "chan receive", WaitMinutes: 2}},
		{`goroutine 6 [select, locked to thread]:`, Goroutine{ID: 6, State: "select", Locked: true}},
		{`goroutine 6 [IO wait, 3 minutes, locked to thread]:`, Goroutine{ID: 6, State: "IO wait", WaitMinutes: 3, Locked: true}},
		{`goroutine 6 [IO wait, 300000 minutes]:`, Goroutine{ID: 6, State: "IO wait", WaitMinutes: 300000}},
		{`goroutine 9 [chan receive (nil chan)]:`, Goroutine{ID: 9, State: "chan receive (nil chan)"}},
		{`goroutine 9 [select (no cases), 1 minutes]:`, Goroutine{ID: 9, State: "select (no cases)", WaitMinutes: 1}},
		{`goroutine 9 [GC worker (idle)]:`, Goroutine{ID: 9, State: "GC worker (idle)"}},
		{`goroutine 9 [running (scan)]:`, Goroutine{ID: 9, State: "running"}},
		{`goroutine 9 [chan receive (scan), 4 minutes]:`, Goroutine{ID: 9, State: "chan receive", WaitMinutes: 4}},
		{`goroutine 9 [chan send (nil chan) (leaked) (scan)]:`, Goroutine{ID: 9, State: "chan send (nil chan)", Leaked: true}},
		{`goroutine 9 [chan receive (leaked)]:`, Goroutine{ID: 9, State: "chan receive", Leaked: true}},
		{`goroutine 9 [select (durable), synctest bubble 3]:`, Goroutine{ID: 9, State: "select", Durable: true, Bubble: 3}},
		{`goroutine 9 [sync.WaitGroup.Wait (durable), 2 minutes, locked to thread, synctest bubble 12]:`,
			Goroutine{ID: 9, State: "sync.WaitGroup.Wait", Durable: true, WaitMinutes: 2, Locked: true, Bubble: 12}},
		{`goroutine 9 [sleep, synctest group 3]:`, Goroutine{ID: 9, State: "sleep", Bubble: 3}},
		{`goroutine 7 gp=0xc000102380 m=3 mp=0xc000080008 [running]:`, Goroutine{ID: 7, State: "running"}},
		{`goroutine 0 gp=0x5a8a20 m=0 mp=0x5a9340 [idle]:`, Goroutine{ID: 0, State: "idle"}},
		{`goroutine 7 gp=0xc000102380 m=nil [IO wait, 2 minutes]:`, Goroutine{ID: 7, State: "IO wait", WaitMinutes: 2}},
		{`goroutine 7 gp=0xc000102380 m=nil [select labels:{"k": "v"}]:`,
			Goroutine{ID: 7, State: "select", Labels: map[string]string{"k": "v"}}},
		{`goroutine 7 [???]:`, Goroutine{ID: 7, State: "???"}},
		{`goroutine 9223372036854775807 [waiting]:`, Goroutine{ID: 9223372036854775807, State: "waiting"}},
		{`goroutine 2 [select, 2 minutes, locked to thread labels:{"endpoint": "/fast", "z": "a]: b, 2 minutes"}]:`,
			Goroutine{ID: 2, State: "select", WaitMinutes: 2, Locked: true, Labels: map[string]string{"endpoint": "/fast", "z": "a]: b, 2 minutes"}}},
		{`goroutine 2 [select labels:{"a\"]:": "\\", "n\nl": "\t\r\x1b\u1234\U00045678", "": ""}]:`,
			Goroutine{ID: 2, State: "select", Labels: map[string]string{`a"]:`: `\`, "n\nl": "\t\r\x1b\u1234\U00045678", "": ""}}},
		{`goroutine 2 [select labels:{"k": " labels:{"}]:`, Goroutine{ID: 2, State: "select", Labels: map[string]string{"k": " labels:{"}}},
		{`goroutine 2 [select] {endpoint: /fast, k.v_9: "a-b]:"}:`,
			Goroutine{ID: 2, State: "select", Labels: map[string]string{"endpoint": "/fast", "k.v_9": "a-b]:"}}},
		{`goroutine 2 [IO wait, 5 minutes, locked to thread] {empty: , "\xff": "} {"}:`,
			Goroutine{ID: 2, State: "IO wait", WaitMinutes: 5, Locked: true, Labels: map[string]string{"empty": "", "\xff": "} {"}}},
		// What the runtime does not print today is kept, and the goroutine still counted.
		{`goroutine 2 [select, on fire, 2 minutes]:`, Goroutine{ID: 2, State: "select", WaitMinutes: 2, Unknown: []string{"on fire"}}},
		{`goroutine 2 [select labels:{"k"="v"}]:`, Goroutine{ID: 2, State: "select", Unknown: []string{`"k"="v"}]`}}},
		{`goroutine 2 [select] {k=v}:`, Goroutine{ID: 2, State: "select", Unknown: []string{`k=v}`}}},
		{`goroutine 2 [select] P7]:`, Goroutine{ID: 2, State: "select", Unknown: []string{` P7]`}}},
		{`goroutine 2 [select, x minutes]:`, Goroutine{ID: 2, State: "select", Unknown: []string{"x minutes"}}},
	} {
		t.Run(tt.header, func(t *testing.T) {
			text := tt.header + "\nmain.f()\n\t/src/main.go:5 +0x1\n"
			d, err := Parse(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Frames = []Frame{{Func: "main.f", File: "/src/main.go", Line: 5}}
			if diff := cmp.Diff([]Goroutine{tt.want}, d.Goroutines); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !headerLine.MatchString(text) {
				t.Error("the test's own pattern does not match the header")
			}
		})
	}
}

func TestNotAHeader(t *testing.T) {
	for _, line := range []string{
		"goroutine profile: total 12",
		"goroutine running on other thread; stack unavailable",
		"goroutine [running]:",
		"goroutine x [running]:",
		"goroutine 1 running:",
		"goroutine 1 [running]",
		"goroutine 1 [running]: and more",
		"goroutine 1 gp=0x12[running]:",
		"goroutine 12345678901234567890 [running]:",
		" goroutine 1 [running]:",
		"2026/01/02 goroutine 1 [running]:",
		"[originating from goroutine 1]:",
		"runtime stack:",
		"goroutine 1 [run",
	} {
		t.Run(line, func(t *testing.T) {
			d, err := Parse(strings.NewReader(line + "\n"))
			if len(d.Goroutines) != 0 {
				t.Errorf("parsed as %+v", d.Goroutines)
			}
			if d.Rest.Text != line+"\n" {
				t.Errorf("rest is %q", d.Rest.Text)
			}
			want := fmt.Sprintf("no goroutine in %d bytes of text: want a dump as runtime.Stack or /debug/pprof/goroutine?debug=2 prints it", len(line)+1)
			if err == nil || err.Error() != want {
				t.Errorf("error %q, want %q", err, want)
			}
		})
	}
}

func TestBlocks(t *testing.T) {
	at := func(name, file string, line int) Frame { return Frame{Func: name, File: file, Line: line} }
	for _, tt := range []struct {
		name, body string
		want       Goroutine
	}{
		{"names", `main.plain(0x1, {0x2, 0x3}, _, ...)
	/src/a.go:1 +0x1d
main.(*T).method(0xc000010000?)
	/src/a.go:2 +0x1d
main.(*T).method-fm()
	<autogenerated>:1 +0x1d
main.F[...](...)
	/src/a.go:3
main.(*G[...]).m[...].func1.2({{0x1, 0x2}, 0x3})
	/src/a.go:4 +0x1d fp=0xc00004a7d0 sp=0xc00004a7a0 pc=0x4b2c2f
gopkg.in/tomb%2ev1.(*Tomb).run(0x1)
	/src/tomb.v1@v1.0.0/tomb.go:5 +0x2
panic({0x57b058?, 0x58f200?})
	/go/src/runtime/panic.go:859 +0x125
runtime.goexit({})
	/go/src/runtime/asm_amd64.s:1771 +0x1
created by main.F[...] in goroutine 7
	/src/a b/c:d.go:6 +0x2f
`, Goroutine{
			Frames: []Frame{
				at("main.plain", "/src/a.go", 1), at("main.(*T).method", "/src/a.go", 2), at("main.(*T).method-fm", "<autogenerated>", 1),
				at("main.F[...]", "/src/a.go", 3), at("main.(*G[...]).m[...].func1.2", "/src/a.go", 4),
				at("gopkg.in/tomb%2ev1.(*Tomb).run", "/src/tomb.v1@v1.0.0/tomb.go", 5),
				at("panic", "/go/src/runtime/panic.go", 859), at("runtime.goexit", "/go/src/runtime/asm_amd64.s", 1771),
			},
			CreatedBy: at("main.F[...]", "/src/a b/c:d.go", 6), CreatorID: 7,
		}},
		{"before Go 1.21", "main.f(0x1, 0x2)\n\tC:/src/a.go:12 +0x1d\n...additional frames elided...\ncreated by net/http.(*Server).Serve\n\tC:/go/server.go:3 +0x4\n",
			Goroutine{
				Frames: []Frame{at("main.f", "C:/src/a.go", 12)}, Elided: ElidedUnknown,
				CreatedBy: at("net/http.(*Server).Serve", "C:/go/server.go", 3),
			}},
		{"elided", "main.f()\n\t/a.go:1 +0x1\n...51 frames elided...\nmain.g()\n\t/a.go:2 +0x1\n",
			Goroutine{Frames: []Frame{at("main.f", "/a.go", 1), at("main.g", "/a.go", 2)}, Elided: 51}},
		{"cgo without a symbolizer", "non-Go function at pc=0x1234\nnon-Go function at pc=0x5678\nmain._Cfunc_sleep(0x1)\n\t_cgo_gotypes.go:42 +0x4\n",
			Goroutine{Frames: []Frame{{Func: "non-Go function"}, {Func: "non-Go function"}, at("main._Cfunc_sleep", "_cgo_gotypes.go", 42)}}},
		{"cgo with a symbolizer", "c_wait\n\t/src/wait.c:7 pc=0x1234\nns::wait(int)\n\t/src/wait.cc:8 pc=0x12\nnon-Go function\n\tpc=0x5678\nlost\n\tpc=0x9\nmain.f()\n\t/a.go:1 +0x1\n",
			Goroutine{Frames: []Frame{
				at("c_wait", "/src/wait.c", 7), at("ns::wait", "/src/wait.cc", 8), {Func: "non-Go function"}, {Func: "lost"}, at("main.f", "/a.go", 1),
			}}},
		{"ancestors", `main.f()
	/a.go:1 +0x1
created by main.g in goroutine 3
	/a.go:2 +0x1
[originating from goroutine 3]:
chokepoint/internal/service/pool.(*Pool).work(...)
	/a.go:3 +0x1
...additional frames elided...
created by main.h
	/a.go:4 +0x1
`, Goroutine{Frames: []Frame{at("main.f", "/a.go", 1)}, CreatedBy: at("main.g", "/a.go", 2), CreatorID: 3}},
		{"unavailable", "\tgoroutine running on other thread; stack unavailable\ncreated by main.g in goroutine 3\n\t/a.go:2 +0x1\n",
			Goroutine{Unavailable: true, CreatedBy: at("main.g", "/a.go", 2), CreatorID: 3}},
		{"no location", "main.f()\nmain.g()\n\t/a.go:2 +0x1\n",
			Goroutine{Frames: []Frame{{Func: "main.f"}, at("main.g", "/a.go", 2)}}},
		{"unknown lines", "main.f()\n\t/a.go:1 +0x1\n\tstack=[0x1-0x2]\nruntime: g 7: unexpected return pc\nmain.g()\n\t/a.go:two\n",
			Goroutine{Frames: []Frame{at("main.f", "/a.go", 1), {Func: "main.g"}}, Unknown: []string{"\tstack=[0x1-0x2]", "runtime: g 7: unexpected return pc", "\t/a.go:two"}}},
		{"created by no number", "main.f()\n\t/a.go:1 +0x1\ncreated by main.g in goroutine x\n\t/a.go:2 +0x1\n",
			Goroutine{Frames: []Frame{at("main.f", "/a.go", 1)}, CreatedBy: at("main.g in goroutine x", "/a.go", 2)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.ID, tt.want.State = 5, "running"
			// A second block, without a blank line between: nothing of the first may
			// leak into it.
			d, err := Parse(strings.NewReader("goroutine 5 [running]:\n" + tt.body + "goroutine 6 [select]:\nmain.last()\n\t/z.go:9\n"))
			if err != nil {
				t.Fatal(err)
			}
			want := []Goroutine{tt.want, {ID: 6, State: "select", Frames: []Frame{at("main.last", "/z.go", 9)}}}
			if diff := cmp.Diff(want, d.Goroutines); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTruncated(t *testing.T) {
	const whole = "goroutine 4 [running]:\nmain.f()\n\t/a.go:1 +0x1d\ncreated by main.g in goroutine 1\n\t/a.go:22 +0x1d\n"
	for _, tt := range []struct {
		text      string
		truncated bool
	}{
		{whole, false},
		{strings.TrimSuffix(whole, "\n"), false}, // pasted without its last newline
		{"goroutine 4 [runn", true},
		{"goroutine 4 [", true},
		{`goroutine 4 [running labels:{"a": "b`, true},
		{`goroutine 4 [running] {"a": "b`, true},
		{"goroutine 4 [running]:", true},
		{"goroutine 4 [running]:\n", true},
		{"goroutine 4 [running]:\nmain.f(0x", true},
		{"goroutine 4 [running]:\nmain.f()\n", true},
		{"goroutine 4 [running]:\nmain.f()\n\t/a.go:1", true},
		{"goroutine 4 [running]:\nmain.f()\n\t/a.go:1 +0x1d\ncreated by ma", true},
		{"goroutine 4 [running]:\nmain.f()\n\t/a.go:1 +0x1d\ncreated by main.g\n", true},
		{"goroutine 4 [running]:\nmain.f()\n\t/a.go:1 +0x1d\ncreated by main.g\n\t/a.go:2", true},
		{"goroutine 4 [running]:\nmain.f()\n\t/a.go:1 +0x1d\n\n", false},
		{"goroutine 4 [running]:\n\tgoroutine running on other thread; stack unavailable\n", false},
	} {
		t.Run(tt.text, func(t *testing.T) {
			d, err := Parse(strings.NewReader(whole + "\n" + tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Goroutines) != 2 || d.Goroutines[0].Truncated {
				t.Fatalf("parsed as %+v", d.Goroutines)
			}
			if g := d.Goroutines[1]; g.ID != 4 || g.Truncated != tt.truncated {
				t.Errorf("id %d, truncated %v, want 4, %v", g.ID, g.Truncated, tt.truncated)
			}
		})
	}
}

func TestReadError(t *testing.T) {
	broken := errors.New("broken pipe")
	r := io.MultiReader(strings.NewReader("goroutine 4 [running]:\nmain.f()\n\t/a.go:1 +0x1d\n"), iotest.ErrReader(broken))
	d, err := Parse(r)
	if !errors.Is(err, broken) || err.Error() != "read goroutine dump after 1 goroutines: broken pipe" {
		t.Errorf("error %v", err)
	}
	if len(d.Goroutines) != 1 || !d.Goroutines[0].Truncated {
		t.Errorf("parsed as %+v", d.Goroutines)
	}
}

func TestLimits(t *testing.T) {
	t.Run("long line", func(t *testing.T) {
		long := strings.Repeat("x", 3*maxLine)
		text := long + "\ngoroutine 1 [running labels:{\"k\": \"" + long + "\"}]:\nmain.f()\n\t/a.go:1 +0x1\n\ngoroutine 2 [select]:\nmain.g()\n\t/a.go:2 +0x1\n" + long + "\n"
		d, err := Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Goroutines) != 2 {
			t.Fatalf("%d goroutines", len(d.Goroutines))
		}
		if g := d.Goroutines[0]; g.ID != 1 || !g.Truncated || len(g.Frames) != 1 {
			t.Errorf("the goroutine whose header was cut: id %d, truncated %v, %d frames", g.ID, g.Truncated, len(g.Frames))
		}
		if g := d.Goroutines[1]; g.Truncated || len(g.Unknown) != 1 || len(g.Unknown[0]) != maxNote {
			t.Errorf("the goroutine with a long line: truncated %v, %d unknown", g.Truncated, len(g.Unknown))
		}
	})
	t.Run("frames", func(t *testing.T) {
		const extra = 10
		d, err := Parse(strings.NewReader("goroutine 1 [running]:\n" + strings.Repeat("main.f()\n\t/a.go:1 +0x1\n", maxFrames+extra)))
		if err != nil {
			t.Fatal(err)
		}
		if g := d.Goroutines[0]; len(g.Frames) != maxFrames || g.Elided != extra {
			t.Errorf("%d frames, %d elided", len(g.Frames), g.Elided)
		}
	})
	t.Run("text", func(t *testing.T) {
		s := NewScanner(strings.NewReader("goroutine 1 [running]:\n" + strings.Repeat("main.f()\n\t/a.go:1 +0x1\n", maxText)))
		if !s.Scan() || len(s.Text()) != maxText {
			t.Errorf("%d bytes of text", len(s.Text()))
		}
	})
	t.Run("unknown", func(t *testing.T) {
		d, err := Parse(strings.NewReader("goroutine 1 [running]:\n" + strings.Repeat("what\n", 100)))
		if err != nil {
			t.Fatal(err)
		}
		if g := d.Goroutines[0]; len(g.Unknown) != maxUnknown {
			t.Errorf("%d unknown", len(g.Unknown))
		}
	})
	t.Run("rest", func(t *testing.T) {
		const lines = 20_000
		d, err := Parse(strings.NewReader(strings.Repeat("noise\n", lines)))
		if err == nil {
			t.Error("no error")
		}
		if d.Rest.Bytes != 6*lines || len(d.Rest.Text) > maxRest || len(d.Rest.Text) < maxRest-6 {
			t.Errorf("rest has %d of %d bytes", len(d.Rest.Text), d.Rest.Bytes)
		}
	})
}
