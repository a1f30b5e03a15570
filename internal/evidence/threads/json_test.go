package threads

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/evidence/stacks"
)

func readJSON(r io.Reader) (Kind, dump, error) {
	var d dump
	kind, end, err := ScanJSON(r, func(s stacks.Stack, _ []byte) { d.Threads = append(d.Threads, s) })
	d.End = end
	return kind, d, err
}

// Both versions of jcmd's format have the same threads.
func TestJcmdJSON(t *testing.T) {
	for _, tt := range []struct {
		name                  string
		total                 int
		read, permit, waiting int
		notes                 []string
	}{
		{"dumptofile-java21.json", 8, 5, 1, 0, []string{"6 of them are virtual", "the JVM left out 200 virtual threads", "this format tells no states (from Java 25 on it does)"}},
		{"dumptofile-java25.json", 9, 5, 1, 7, []string{"7 of them are virtual"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/" + tt.name)
			if err != nil {
				t.Fatal(err)
			}
			kind, d, err := readJSON(bytes.NewReader(text))
			if err != nil || kind != Jcmd || len(d.Threads) != tt.total || d.End.Truncated {
				t.Fatalf("%s, %d threads, end %+v, error %v", kind, len(d.Threads), d.End, err)
			}
			if diff := cmp.Diff(tt.notes, d.End.Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			tally, _ := tallied(t, tt.name, text, stacks.ByState)
			if where := tally.Where(); where[stacks.UpstreamRead] != tt.read || where[stacks.PermitWait] != tt.permit {
				t.Errorf("where %v", where)
			}
			waiting := 0
			for _, g := range tally.Groups() {
				if g.State == "WAITING" {
					waiting += g.Count
				}
			}
			if waiting != tt.waiting {
				t.Errorf("%d waiting, want %d", waiting, tt.waiting)
			}
		})
	}
}

// Spring Boot 1 gave the array alone, and Boot's own names of members may come in
// any order, beside others.
func TestActuatorForms(t *testing.T) {
	const one = `{"stackTrace":[{"className":"a.B$$Lambda$1/0x12","methodName":"run","fileName":null,"lineNumber":-1},
		{"nativeMethod":false,"className":"java.lang.Thread","methodName":"run","fileName":"Thread.java","lineNumber":840,"moduleName":"java.base"}],
		"threadName":"exec-7","threadState":"RUNNABLE","lockInfo":{"className":"x","identityHashCode":1}}`
	want := []stacks.Stack{{Name: "exec-*", State: "RUNNABLE", Count: 1, Frames: []stacks.Frame{
		{Func: "a.B$$Lambda.run"}, {Func: "java.lang.Thread.run", File: "Thread.java", Line: 840},
	}}}
	for _, text := range []string{"[" + one + "]", " \n{\"x\": [{}], \"threads\":[" + one + "], \"y\": 1}"} {
		kind, d, err := readJSON(strings.NewReader(text))
		if err != nil || kind != Actuator {
			t.Errorf("%s: %s, error %v", text, kind, err)
		}
		if diff := cmp.Diff(want, d.Threads); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestLocksInJSON(t *testing.T) {
	const want = `2 wait for a lock that "a" holds (x.A)`
	for _, text := range []string{
		`{"threads":[{"threadName":"b","lockName":"x.A@1f","lockOwnerName":"a"},{"threadName":"c","lockName":"x.A@1f","lockOwnerName":"a"},{"threadName":"d","lockName":"x.S@2","lockOwnerName":null}]}`,
		`{"threadDump":{"threadContainers":[{"threads":[{"name":"b","state":"BLOCKED","blockedOn":"x.A@1f","stack":[]},{"name":"c","state":"BLOCKED","blockedOn":"x.A@1f","stack":[]},
			{"name":"w","state":"WAITING","waitingOn":"x.A@1f","stack":[],"monitorsOwned":[{"depth":1,"locks":["x.A@1f",null]}]},
			{"name":"a","state":"RUNNABLE","stack":[],"monitorsOwned":[{"depth":1,"locks":[null,"x.A@1f"]}]},{"name":"d","state":"WAITING","parkBlocker":{"object":"x.S@2"},"stack":[]}]}]}}`,
	} {
		_, d, err := readJSON(strings.NewReader(text))
		if err != nil || len(d.End.Notes) != 1 && len(d.End.Notes) != 2 || d.End.Notes[len(d.End.Notes)-1] != want {
			t.Errorf("notes %q, error %v", d.End.Notes, err)
		}
	}
}

// A text that stops early is truncated, once it has a thread; before, it is none.
func TestTruncatedJSON(t *testing.T) {
	for _, name := range []string{"actuator-jdk.json.gz", "actuator-idle.json.gz"} {
		text := fixture(t, name)
		_, whole, err := readJSON(bytes.NewReader(text))
		if err != nil || whole.End.Truncated {
			t.Fatalf("whole: %+v, error %v", whole.End, err)
		}
		_, half, err := readJSON(bytes.NewReader(text[:len(text)/2]))
		if err != nil || !half.End.Truncated || len(half.Threads) == 0 || len(half.Threads) >= len(whole.Threads) {
			t.Errorf("half: %d threads, %+v, error %v", len(half.Threads), half.End, err)
		}
		if diff := cmp.Diff(whole.Threads[:len(half.Threads)], half.Threads); diff != "" {
			t.Errorf("(-whole +half):\n%s", diff)
		}
	}
}

func TestJSONErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{``, "no thread dump in this JSON, at byte 0: the text ends"},
		{`{"threads":`, "no thread dump in this JSON, at byte 11: the text ends"},
		{`{"threads":[]}`, `no thread in this JSON: want {"threads": ...}`},
		{`{"status":404,"error":"Not Found"}`, `no thread in this JSON: want {"threads": ...}`},
		{`{"threads":{"a":1}}`, `no thread dump in this JSON, at byte 12: "{" in place of "["`},
		{`{"threads":[{"name":"x"}]}`, "no thread dump in this JSON, at byte 24: an element of the threads is no thread"},
		{`{"threadDump":[]}`, `no thread dump in this JSON, at byte 15: "[" in place of "{"`},
		{`"text"`, "no thread dump in this JSON, at byte 6: text is neither an object nor an array"},
		{`[1]`, "no thread dump in this JSON, at byte "},
		{`{nope`, "no thread dump in this JSON, at byte "},
	} {
		if _, _, err := readJSON(strings.NewReader(tt.text)); err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %s", tt.text, err, tt.want)
		}
	}
	broken := errors.New("broken pipe")
	_, _, err := readJSON(io.MultiReader(strings.NewReader(`{"threads":[`), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	endless := io.MultiReader(strings.NewReader(`{"threads":[{"threadName":"`), io.LimitReader(zeros{}, 64<<20))
	if _, _, err := readJSON(endless); err == nil || !strings.Contains(err.Error(), "more than 16 MB") {
		t.Errorf("error %v", err)
	}
}

// zeros is text without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func FuzzJSON(f *testing.F) {
	for _, name := range []string{"dumptofile-java21.json", "dumptofile-java25.json"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"threads":[{"threadName":"a","threadState":"RUNNABLE","stackTrace":[{"className":"a.B","methodName":"c","fileName":"d","lineNumber":-2}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		kind, whole, err := readJSON(bytes.NewReader(text))
		byteKind, bytewise, byteErr := readJSON(iotest.OneByteReader(bytes.NewReader(text)))
		if diff := cmp.Diff(whole, bytewise); diff != "" || kind != byteKind || (err == nil) != (byteErr == nil) {
			t.Fatalf("read byte by byte, error %v and %v (-whole +bytes):\n%s", err, byteErr, diff)
		}
		if err == nil && len(whole.Threads) == 0 {
			t.Fatal("neither a thread nor an error")
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatalf("an error of more than a line: %q", err)
		}
	})
}

// What is not read is not lost in silence.
func TestTextBehindAJSONDumpIsNoted(t *testing.T) {
	const one = `{"threads":[{"threadName":"a","threadState":"RUNNABLE","stackTrace":[]}]}` + "\n"
	for _, tt := range []struct {
		text  string
		notes []string
	}{
		{one + "\n \n", nil},
		{one + one, []string{"text follows the end of the dump and was not read; give each dump by itself"}},
		{one + "bye", []string{"text follows the end of the dump and was not read; give each dump by itself"}},
	} {
		_, d, err := readJSON(strings.NewReader(tt.text))
		if err != nil || len(d.Threads) != 1 || d.End.Truncated {
			t.Errorf("%q: %d threads, end %+v, error %v", tt.text, len(d.Threads), d.End, err)
		}
		if diff := cmp.Diff(tt.notes, d.End.Notes); diff != "" {
			t.Errorf("%q: notes (-want +got):\n%s", tt.text, diff)
		}
	}
}
