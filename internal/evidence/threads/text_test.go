package threads

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/evidence/stacks"
)

// dump is what a Text made of one dump.
type dump struct {
	Threads []stacks.Stack
	End     stacks.End
}

func readText(t testing.TB, r io.Reader) (all []dump, err error) {
	t.Helper()
	text := NewText(r)
	for more := true; more && (err == nil || errors.Is(err, ErrNoThread)); {
		var d dump
		d.End, more, err = text.Next(func(s stacks.Stack, _ []byte) { d.Threads = append(d.Threads, s) })
		all = append(all, d)
	}
	return all, err
}

func TestHeaders(t *testing.T) {
	const tail = " cpu=1.00ms elapsed=2.00s tid=0x00007f20 nid=0x1 runnable  [0x00007f]"
	for _, tt := range []struct {
		line, name, state string
	}{
		{`"main" #1 prio=5 os_prio=0` + tail, "main", ""},
		{`"main" #1 [4243] prio=5 os_prio=0` + tail, "main", ""},
		{`"exec-1" #31 daemon prio=5 os_prio=31` + tail, "exec-1", ""},
		{`"VM Thread" os_prio=0` + tail, "VM Thread", ""},
		{`"main" prio=10 tid=0x00007f20 nid=0x1 waiting on condition [0x0]`, "main", ""}, // Java 7
		{`"a "quoted" #7" #8 prio=5 os_prio=0` + tail, `a "quoted" #7`, ""},
		{`"" #8 prio=5 os_prio=0` + tail, "", ""},
		{`"exec-1" - Thread t@31`, "exec-1", ""},
		{`"exec-1" daemon prio=5 Id=31 WAITING on java.lang.Object@1 owned by "main" Id=1`, "exec-1", "WAITING"},
		{`"exec-1" Id=31 RUNNABLE`, "exec-1", "RUNNABLE"}, // before Java 9
		{`#22 "" virtual`, "", ""},
		{`#1 "main"`, "main", ""},
		{`#22 "a" virtual" virtual WAITING 2026-11-30T05:50:00.123456Z`, `a" virtual`, "WAITING"},
	} {
		h, ok := headerOf([]byte(tt.line))
		if !ok || h.name != tt.name || h.state != tt.state || !IsTextHeader([]byte(tt.line)) {
			t.Errorf("%s: %+v, %v", tt.line, h, ok)
		}
	}
	for _, line := range []string{``, `"`, `"main"`, `"main":`, `"key": "value"`, `"main" #1`, `main #1 prio=5` + tail, `  which is held by "main"`, `# "main"`, `#1 main`, `#1 "main" and more`} {
		if _, ok := headerOf([]byte(line)); ok {
			t.Errorf("%q is no header", line)
		}
	}
}

func TestFrames(t *testing.T) {
	at := func(name, file string, line int) stacks.Frame {
		return stacks.Frame{Func: name, File: file, Line: line}
	}
	for _, tt := range []struct {
		text string
		want stacks.Frame
	}{
		{"java.lang.Thread.run(Thread.java:840)", at("java.lang.Thread.run", "Thread.java", 840)},
		{"java.lang.Thread.run(java.base@17.0.15/Thread.java:840)", at("java.lang.Thread.run", "Thread.java", 840)},
		{"java.base@17.0.15/java.lang.Thread.run(Thread.java:840)", at("java.lang.Thread.run", "Thread.java", 840)},
		{"java.base/java.lang.Thread.run(Thread.java:840)", at("java.lang.Thread.run", "Thread.java", 840)},
		{"app//com.x.Y.z(Y.java:3)", at("com.x.Y.z", "Y.java", 3)},
		{"loader/mod@1/com.x.Y.<init>(Y.java)", at("com.x.Y.<init>", "Y.java", 0)},
		{"jdk.internal.misc.Unsafe.park(java.base@17.0.15/Native Method)", at("jdk.internal.misc.Unsafe.park", "", 0)},
		{"Main$$Lambda$14/0x00007f205c003228.run(Unknown Source)", at("Main$$Lambda.run", "", 0)},
		{"app//com.x.Main$$Lambda/0x00007f205c00ABCD.run(Unknown Source)", at("com.x.Main$$Lambda.run", "", 0)},
		{"com.x.Main$$Lambda$14.run(Unknown Source)", at("com.x.Main$$Lambda.run", "", 0)},
		{"jdk.internal.reflect.GeneratedMethodAccessor123.invoke(Unknown Source)", at("jdk.internal.reflect.GeneratedMethodAccessor.invoke", "", 0)},
		{"com.x.Main.lambda$run$2(Main.java:7)", at("com.x.Main.lambda$run$2", "Main.java", 7)},
	} {
		if got, ok := frame(tt.text); !ok || got != tt.want {
			t.Errorf("%s: %+v, %v", tt.text, got, ok)
		}
	}
	for _, text := range []string{"", "(", ")", "(A.java:1)", "run", "java.lang.Thread.run", "java.lang.Thread.run(Thr"} {
		if f, ok := frame(text); ok {
			t.Errorf("%q is no frame, read as %+v", text, f)
		}
	}
}

func TestFamily(t *testing.T) {
	for name, want := range map[string]string{"http-nio-8080-exec-17": "http-nio-8080-exec-*", "main": "main", "42": "42", "": "", "a1b": "a1b"} {
		if got := family(name); got != want {
			t.Errorf("%q is of %q, want %q", name, got, want)
		}
	}
}

func TestMountedVirtualThreads(t *testing.T) {
	text, err := os.ReadFile("testdata/jstack-java21-virtual.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := readText(t, bytes.NewReader(text))
	if err != nil || len(all) != 1 {
		t.Fatalf("%d dumps, error %v", len(all), err)
	}
	var got []string
	for _, s := range all[0].Threads {
		got = append(got, fmt.Sprintf("%s %s %d", s.Name, s.State, len(s.Frames)))
	}
	want := []string{"main TIMED_WAITING 3", "ForkJoinPool-1-worker-* RUNNABLE 4", "virtual  5", "Signal Dispatcher RUNNABLE 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if end := all[0].End; end.Truncated || len(end.Notes) != 2 {
		t.Errorf("end %+v", end)
	}
}

func TestActuatorText(t *testing.T) {
	text, err := os.ReadFile("testdata/actuator-text.txt")
	if err != nil {
		t.Fatal(err)
	}
	tally, _ := tallied(t, "actuator-text.txt", text, stacks.ByPlace)
	if tally.Total() != 2 || tally.Workers() != 1 || tally.Where()[stacks.PermitWait] != 1 || tally.Truncated() {
		t.Errorf("%d threads, %d workers, %v, truncated %v", tally.Total(), tally.Workers(), tally.Where(), tally.Truncated())
	}
}

// The text of jcmd Thread.dump_to_file has what its JSON has.
func TestDumpToFileText(t *testing.T) {
	for _, name := range []string{"dumptofile-java21", "dumptofile-java25"} {
		text, err := os.ReadFile("testdata/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		asJSON, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		all, err := readText(t, bytes.NewReader(text))
		_, want, jsonErr := readJSON(bytes.NewReader(asJSON))
		if err != nil || jsonErr != nil || len(all) != 1 || all[0].End.Truncated || all[0].End.Notes[0] != want.End.Notes[0] {
			t.Fatalf("%s: %d dumps, errors %v and %v, end %+v", name, len(all), err, jsonErr, all[0].End)
		}
		if diff := cmp.Diff(want.Threads, all[0].Threads); diff != "" {
			t.Errorf("%s (-JSON +text):\n%s", name, diff)
		}
	}
}

// One file may hold several dumps, as the log of a JVM that got SIGQUIT.
func TestSeveralDumps(t *testing.T) {
	idle, busy := fixture(t, "jcmd-idle.txt.gz"), fixture(t, "jcmd-urlconnection.txt.gz")
	log := bytes.Join([][]byte{[]byte("INFO started\n"), idle, []byte("INFO something\n\"quoted\" words\n"), busy, busy}, nil)
	all, err := readText(t, bytes.NewReader(log))
	if err != nil || len(all) != 3 {
		t.Fatalf("%d dumps, error %v", len(all), err)
	}
	for i, d := range all {
		if len(d.Threads) != 217 || d.End.Truncated {
			t.Errorf("dump %d has %d threads, end %+v", i+1, len(d.Threads), d.End)
		}
	}
	crlf, err := readText(t, bytes.NewReader(bytes.ReplaceAll(log, []byte("\n"), []byte("\r\n"))))
	if diff := cmp.Diff(all, crlf); diff != "" || err != nil {
		t.Errorf("with CRLF, error %v (-LF +CRLF):\n%s", err, diff)
	}
}

func TestTruncatedText(t *testing.T) {
	whole := string(fixture(t, "jcmd-jdk.txt.gz"))
	jni := strings.Index(whole, jniPrefix)
	locker := strings.Index(whole, `"locker-3"`)
	pasted := whole[locker:jni]
	for _, tt := range []struct {
		name, text string
		truncated  bool
	}{
		{"whole", whole, false},
		{"without the end", whole[:jni], true},
		{"half", whole[:jni/2], true},
		{"without its middle", whole[:locker] + whole[strings.Index(whole, `"locker-7"`):], true},
		{"a part, pasted", pasted, false},
		{"a part, cut within a frame", pasted[:strings.Index(pasted, "ReentrantLock.lock")], true},
		{"a part, cut within a state", pasted[:strings.Index(pasted, "(parking)")], true},
		{"a part without its last newline", pasted[:strings.Index(pasted, "\n\n")], false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all, err := readText(t, strings.NewReader(tt.text))
			if err != nil || len(all) != 1 || all[0].End.Truncated != tt.truncated {
				t.Errorf("%d dumps, error %v, end %+v", len(all), err, all[len(all)-1].End)
			}
		})
	}
}

func TestTextErrors(t *testing.T) {
	for _, text := range []string{"", "hello\n", "Full thread dump OpenJDK:\n", "\"main\":\n\tat a.b(C.java:1)\n"} {
		if _, err := readText(t, strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), "no thread: want a dump") {
			t.Errorf("%q: error %v", text, err)
		}
	}
	broken := errors.New("broken pipe")
	_, err := readText(t, io.MultiReader(bytes.NewReader(fixture(t, "jcmd-idle.txt.gz")), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "read thread dump after 217 threads: ") {
		t.Errorf("error %v", err)
	}
}

func FuzzText(f *testing.F) {
	for _, name := range []string{"jstack-java21-virtual.txt", "actuator-text.txt"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("\"a\" daemon prio=5 Id=3 WAITING on x\n\tat a.b(Native Method)\n\tat c$$Lambda$1/0xz.d(E.java:-1)\nFull thread dump\nFull thread dump\n"))
	f.Add([]byte("Found one Java-level deadlock:\n\"a\":\n\tat b.c(D.java:1)\n_java_thread_list=0x1, length=9999999999999999999999, elements={\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, err := readText(t, bytes.NewReader(text))
		bytewise, byteErr := readText(t, iotest.OneByteReader(bytes.NewReader(text)))
		if diff := cmp.Diff(whole, bytewise); diff != "" || (err == nil) != (byteErr == nil) {
			t.Fatalf("read byte by byte, error %v (-whole +bytes):\n%s", byteErr, diff)
		}
		for _, d := range whole {
			for _, s := range d.Threads {
				Rules().Locate(s)
			}
		}
	})
}
