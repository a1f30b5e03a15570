package dumps

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"
)

const (
	reference = "../../../results/reference"
	recorded  = "../threads/testdata"
	goDumps   = "../goroutines/testdata"
)

func readFile(t testing.TB, file string, axis stacks.Axis) []Dump {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := Read(f, file, axis)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The dumps of every committed run give the figures of its summary, and so of its
// report.
func TestReferenceRuns(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(reference, "*", result.SummaryFile))
	if err != nil || len(files) < 2 {
		t.Fatalf("%d summaries, error %v", len(files), err)
	}
	read := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var summary result.Summary
		if err := json.Unmarshal(text, &summary); err != nil {
			t.Fatal(err)
		}
		for _, want := range summary.Dumps {
			raw := filepath.Join(filepath.Dir(file), filepath.FromSlash(want.File)) + ".gz"
			got := readFile(t, raw, stacks.ByPlace)
			if len(got) != 1 || got[0].Format != GoText || !got[0].Gzip {
				t.Fatalf("%s: %d dumps, the first %s, gzip %v", raw, len(got), got[0].Format, got[0].Gzip)
			}
			read++
			d := got[0]
			if d.Workers != want.Workers || d.Queued != want.Queued || d.Total != want.Goroutines {
				t.Errorf("%s: %d workers, %d queued of %d; the summary has %d, %d of %d", raw, d.Workers, d.Queued, d.Total, want.Workers, want.Queued, want.Goroutines)
			}
			// A place that is younger than the run is empty in its dumps.
			for place := range d.Where {
				if _, known := want.Where[place]; !known {
					want.Where[place] = 0
				}
			}
			if diff := cmp.Diff(want.Where, d.Where); diff != "" {
				t.Errorf("%s: where (-summary +dump):\n%s", raw, diff)
			}
			if diff := cmp.Diff(want.Groups, d.Result().Groups); diff != "" {
				t.Errorf("%s: groups (-summary +dump):\n%s", raw, diff)
			}
		}
	}
	if read < 8 {
		t.Errorf("only %d dumps", read)
	}
}

const panicLog = "2026/11/30 05:24:04 serving\npanic: boom\n\ngoroutine 7 [running]:\nmain.f(0x1)\n\t/a.go:1 +0x1\ncreated by main.g in goroutine 1\n\t/a.go:2 +0x1\n\ngoroutine 8 [select, 2 minutes]:\nmain.h()\n\t/a.go:3 +0x1\nexit status 2\n"

const debug1 = "goroutine profile: total 203\n200 @ 0x1 0x2\n#\t0x1\tinternal/poll.runtime_pollWait+0x84\t/go/netpoll.go:351\n#\t0x2\tmain.f+0x1f\t/src/a.go:7\n\n3 @ 0x9\n#\t0x9\tmain.g+0x1\t/src/a.go:9\n\n"

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.String()
}

func contents(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFormatsAreDetected(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		format     Format
		unit       string
		total      int
	}{
		{"a panic in a log", panicLog, GoText, "goroutines", 2},
		{"with a byte order mark", "\xef\xbb\xbf" + panicLog[strings.Index(panicLog, "goroutine"):], GoText, "goroutines", 2},
		{"SIGQUIT", contents(t, goDumps+"/quit-system-go1.27.txt"), GoText, "goroutines", 10},
		{"behind a line longer than any buffer", strings.Repeat("x", 3*bufferSize) + "\n" + panicLog, GoText, "goroutines", 2},
		{"in a log of JSON", "{\"level\":\"error\"}\n" + panicLog, GoText, "goroutines", 2},
		{"debug=1", debug1, GoCounts, "goroutines", 203},
		{"debug=1 of leaks", "goroutineleak" + strings.TrimPrefix(debug1, "goroutine"), GoCounts, "goroutines", 203},
		{"debug=1 of no leak", "goroutineleak profile: total 0\n", GoCounts, "goroutines", 0},
		{"jstack", contents(t, recorded+"/jstack-jdk.txt.gz"), JavaText, "threads", 296},
		{"Actuator", contents(t, recorded+"/actuator-jdk.json.gz"), ActuatorJSON, "threads", 290},
		{"Actuator with a byte order mark", "\xef\xbb\xbf" + `{"threads":[{"threadName":"a"}]}`, ActuatorJSON, "threads", 1},
		{"Actuator of Boot 1", `[{"threadName":"a"}]`, ActuatorJSON, "threads", 1},
		{"Actuator as text", contents(t, recorded+"/actuator-text.txt"), JavaText, "threads", 2},
		{"jcmd", contents(t, recorded+"/dumptofile-java25.json"), JcmdJSON, "threads", 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, text := range []string{tt.text, zipped(tt.text)} {
				if strings.HasPrefix(tt.text, "\x1f\x8b") && text != tt.text {
					continue // compressed already
				}
				all, err := Read(iotest.HalfReader(strings.NewReader(text)), "x", stacks.ByPlace)
				if err != nil || len(all) != 1 {
					t.Fatalf("%d dumps, error %v", len(all), err)
				}
				d := all[0]
				if d.Format != tt.format || d.Format.Unit() != tt.unit || d.Total != tt.total || d.Truncated || d.Gzip != strings.HasPrefix(text, "\x1f\x8b") {
					t.Errorf("%s, %d %s, gzip %v, truncated %v", d.Format, d.Total, d.Format.Unit(), d.Gzip, d.Truncated)
				}
			}
		})
	}
}

func TestSeveralDumpsInOneText(t *testing.T) {
	text := contents(t, recorded+"/actuator-text.txt")
	// The second was asked for, and did not come.
	log := text + "INFO between\nFull thread dump of a JVM that had no time:\n" + text + text
	all, err := Read(strings.NewReader(log), "log", stacks.ByName)
	if err != nil || len(all) != 3 || all[0].Name != "log#1" || all[2].Name != "log#3" {
		t.Fatalf("%d dumps, error %v", len(all), err)
	}
	rows, err := Timeline(all)
	if err != nil || len(rows) != 2 || cmp.Diff([]int{1, 1, 1}, rows[0].Counts) != "" {
		t.Errorf("rows %+v, error %v", rows, err)
	}
}

func TestGoAndJavaMakeNoTimeline(t *testing.T) {
	mixed := append(readFile(t, recorded+"/jstack-jdk.txt.gz", stacks.ByPlace), readFile(t, goDumps+"/quit-system-go1.26.txt", stacks.ByPlace)...)
	if _, err := Timeline(mixed); err == nil || !strings.Contains(err.Error(), "goroutines and threads make no timeline") {
		t.Errorf("error %v", err)
	}
}

// What is no dump is an error of one line that names the text.
func TestMalformed(t *testing.T) {
	utf16 := "\xff\xfeg\x00o\x00"
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "x: it is empty; want a goroutine dump"},
		{"a page", "<html>404</html>\n", `x: no dump in 17 bytes that begin with "<html>404</html>"; want a goroutine dump`},
		{"other JSON", `{"status":404}`, `x: no dump in 14 bytes that begin with "{\"status\":404}"`},
		{"a heap profile", "heap profile: 1: 2 [3: 4] @ heap/1048576\n", "x: no dump in 41 bytes"},
		{"a binary profile", zipped("\x0a\x04\x08\x01\x10\x00\x12\x00"), "x: it is binary; a pprof profile is read by go tool pprof"},
		{"a journal", "Nov 30 05:24:04 host svc[7]: panic: boom\nNov 30 05:24:04 host svc[7]: goroutine 7 [running]:\n", `x: its lines have a prefix, as in "Nov 30 05:24:04 host svc[7]: panic: boom"; take it off, in journalctl with -o cat`},
		{"a journal of Java", "host svc[7]: \"main\" #1 prio=5\nhost svc[7]:    java.lang.Thread.State: RUNNABLE\n", "x: its lines have a prefix, as in"},
		{"UTF-16", utf16, "x: it is in UTF-16"},
		{"no gzip", "\x1f\x8b\x08nope", "x: broken gzip: "},
		{"a gzip cut off before any text", zipped(panicLog)[:12], "x: broken gzip: unexpected EOF"},
		{"a gzip of another text", zipped(panicLog)[:len(zipped(panicLog))-8] + "checksum", "x: broken gzip: gzip: invalid checksum"},
		{"broken JSON", `{"threads":[{"threadName":1}]}`, "x: no thread dump in this JSON, at byte "},
		{"no thread", "Full thread dump OpenJDK:\n\n", "x: no thread: want a dump"},
		{"no goroutine", "goroutine profile: total 7\n", "x: no goroutine: want a profile"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(tt.text), "x", stacks.ByPlace)
			malformed := (*FormatError)(nil)
			if !errors.As(err, &malformed) || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
	broken := errors.New("connection reset")
	for _, text := range []string{"", panicLog, `{"threads":[`, "Full thread dump x\n", debug1} {
		_, err := Read(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), "x", stacks.ByPlace)
		malformed := (*FormatError)(nil)
		if !errors.Is(err, broken) || errors.As(err, &malformed) || err.Error() != "x: connection reset" {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

// What a compressed text has before it is cut off is read, as it is without compression;
// of several dumps only the last is cut off.
func TestATextThatIsCutOffIsReadAsFarAsItGoes(t *testing.T) {
	jstack := strings.Repeat("Full thread dump x:\n\n\"a\" #1 prio=5 os_prio=0 tid=0x1 nid=0x1 runnable\n   java.lang.Thread.State: RUNNABLE\n\tat a.b(c.java:1)\n\nJNI global refs: 1, weak refs: 0\n\n", 2)
	for _, tt := range []struct {
		name, text string
		cut        int // bytes of the compressed text
		totals     []int
	}{
		{"the checksum of a Go dump", panicLog, 8, []int{2}},
		{"the checksum of a profile", debug1, 1, []int{203}},
		{"the checksum of JSON", `{"threads":[{"threadName":"a"}]}`, 8, []int{1}},
		{"the checksum of two Java dumps", jstack, 8, []int{1, 1}},
		{"the end of a Go dump", panicLog, 60, []int{1}},
	} {
		text := zipped(tt.text)
		all, err := Read(strings.NewReader(text[:len(text)-tt.cut]), "x", stacks.ByPlace)
		if err != nil || len(all) != len(tt.totals) {
			t.Errorf("%s: %d dumps, error %v", tt.name, len(all), err)
			continue
		}
		for i, d := range all {
			last := i == len(all)-1
			if d.Total != tt.totals[i] || d.Truncated != last || d.Result().Truncated != last || !d.Gzip {
				t.Errorf("%s: dump %d of %d has %d, truncated %v and %v", tt.name, i+1, len(all), d.Total, d.Truncated, d.Result().Truncated)
			}
		}
	}
	// A source that breaks off is no text that is cut off: what is lost can be had.
	text := zipped(panicLog)
	_, err := Read(io.MultiReader(strings.NewReader(text[:len(text)-8]), iotest.ErrReader(io.ErrUnexpectedEOF)), "x", stacks.ByPlace)
	malformed := (*FormatError)(nil)
	if !errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &malformed) {
		t.Errorf("a connection that breaks off: error %v", err)
	}
}

// repeated is a text n times, without holding it.
type repeated struct {
	text string
	n    int
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.text[r.at:])
	if r.at += n; r.at == len(r.text) {
		r.at, r.n = 0, r.n-1
	}
	return n, nil
}

// goroutinesOf are n goroutines on eight different stacks, some 2 kB each.
func goroutinesOf(n int) io.Reader {
	var b strings.Builder
	for i := range 8 {
		fmt.Fprintf(&b, "goroutine %d [IO wait, %d minutes]:\n", i+1, i)
		for depth := range 20 {
			fmt.Fprintf(&b, "example.com/service/handlers.(*Handler%d).step%d(0xc000123456, {0xc000654321, 0x2a, 0x40})\n\t/src/service/handlers/handler.go:%d +0x1d\n", i, depth, 100+depth)
		}
		b.WriteString("created by net/http.(*Server).Serve in goroutine 1\n\t/go/src/net/http/server.go:3454 +0x4a5\n\n")
	}
	return &repeated{text: b.String(), n: n / 8}
}

// javaOf are n threads of the same stacks, as jstack prints them.
func javaOf(n int) io.Reader {
	var b strings.Builder
	for i := range 8 {
		fmt.Fprintf(&b, "\"exec-%d\" #%d daemon prio=5 os_prio=0 cpu=1.00ms elapsed=2.00s tid=0x00007f20 nid=0x1 waiting on condition  [0x00007f]\n   java.lang.Thread.State: WAITING (parking)\n", i, i)
		for depth := range 40 {
			fmt.Fprintf(&b, "\tat com.example.service.Handler%d.step%d(java.base@17.0.15/Handler.java:%d)\n", i, depth, 100+depth)
		}
		b.WriteByte('\n')
	}
	return &repeated{text: b.String(), n: n / 8}
}

// actuatorOf are n threads as Actuator has them.
func actuatorOf(n int) io.Reader {
	var b strings.Builder
	for i := range 8 {
		fmt.Fprintf(&b, `{"threadName":"exec-%d","threadState":"WAITING","stackTrace":[`, i)
		for depth := range 40 {
			fmt.Fprintf(&b, `{"className":"com.example.service.Handler%d","methodName":"step%d","fileName":"Handler.java","lineNumber":%d,"nativeMethod":false},`, i, depth, 100+depth)
		}
		b.WriteString(`{"className":"java.lang.Thread","methodName":"run","fileName":"Thread.java","lineNumber":840}]},`)
	}
	last := `{"threadName":"main","threadState":"RUNNABLE","stackTrace":[]}]}`
	return io.MultiReader(strings.NewReader(`{"threads":[`), &repeated{text: b.String(), n: n / 8}, strings.NewReader(last))
}

// sampling notes how much memory is in use after each tenth of a text.
type sampling struct {
	r          io.Reader
	size, read int64
	inUse      []uint64
}

func (s *sampling) Read(p []byte) (int, error) {
	n, err := s.r.Read(p[:min(len(p), 64<<10)])
	s.read += int64(n)
	for int64(len(s.inUse)) < s.read*10/s.size {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s.inUse = append(s.inUse, m.HeapAlloc)
	}
	return n, err
}

// TestMemoryDoesNotGrowWithTheText: what is in use at the end of a text of 8 to 16
// MB is what was at its beginning. See BenchmarkRead for the time of 100,000.
func TestMemoryDoesNotGrowWithTheText(t *testing.T) {
	for _, tt := range []struct {
		name string
		of   func(int) io.Reader
		more int // beside those asked for
	}{{"Go", goroutinesOf, 0}, {"Java", javaOf, 0}, {"Actuator", actuatorOf, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			const n = 3000
			size, err := io.Copy(io.Discard, tt.of(n))
			if err != nil {
				t.Fatal(err)
			}
			s := &sampling{r: tt.of(n), size: size}
			all, err := Read(s, "x", stacks.ByStack)
			if err != nil || len(all) != 1 || all[0].Total != n+tt.more || len(all[0].Groups) != 8+tt.more {
				t.Fatalf("error %v, %d dumps", err, len(all))
			}
			first, last := s.inUse[1], s.inUse[len(s.inUse)-1]
			if last > first+2<<20 {
				t.Errorf("of %d bytes of text, %d bytes were in use after a fifth, %d at the end", size, first, last)
			}
		})
	}
}

// BenchmarkRead reads 100,000 goroutines (200 MB of text) and as many threads. The
// aim is under 2 s for the goroutines.
func BenchmarkRead(b *testing.B) {
	const n = 100_000
	for _, bb := range []struct {
		name string
		of   func(int) io.Reader
	}{{"Go", goroutinesOf}, {"Java", javaOf}, {"Actuator", actuatorOf}} {
		b.Run(bb.name, func(b *testing.B) {
			size, err := io.Copy(io.Discard, bb.of(n))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				all, err := Read(bb.of(n), "x", stacks.ByStack)
				if err != nil || all[0].Total < n {
					b.Fatal(all, err)
				}
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(panicLog))
	f.Add([]byte(debug1))
	f.Add([]byte(zipped(debug1)))
	f.Add([]byte(`{"threads":[{"threadName":"a","stackTrace":[]}]}`))
	f.Add([]byte(contents(f, recorded+"/jstack-java21-virtual.txt")))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := Read(bytes.NewReader(text), "x", stacks.ByPlace)
		malformed := (*FormatError)(nil)
		if err != nil {
			if !errors.As(err, &malformed) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %v", err)
			}
			return
		}
		for _, d := range all {
			members, waits := 0, 0
			for _, g := range d.Groups {
				members += g.Count
			}
			for _, n := range d.Waits {
				waits += n
			}
			// A profile of leaks may be of none.
			if members != d.Total || waits != d.Total || (d.Total == 0 && d.Format != GoCounts) {
				t.Fatalf("%d in all, %d in groups, %d by what they wait for", d.Total, members, waits)
			}
		}
	})
}
