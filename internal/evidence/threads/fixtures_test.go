package threads

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/evidence/stacks"
)

// fixture is the text of a recorded dump; see testdata/README.md.
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// tallied counts the one dump of a text.
func tallied(t testing.TB, name string, text []byte, axis stacks.Axis) (*stacks.Tally, stacks.End) {
	t.Helper()
	tally := stacks.NewTally(Rules(), axis)
	var end stacks.End
	var err error
	if strings.Contains(name, ".json") {
		_, end, err = ScanJSON(bytes.NewReader(text), tally.Add)
	} else {
		var more bool
		if end, more, err = NewText(bytes.NewReader(text)).Next(tally.Add); more {
			t.Error("a second dump")
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	tally.End(end)
	return tally, end
}

func nonzero(m map[string]int) map[string]int {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(_ string, n int) bool { return n == 0 })
	return m
}

// Who holds what most threads wait for, in every format.
func TestLockHolders(t *testing.T) {
	for _, name := range []string{"jcmd-jdk.txt.gz", "jstack-jdk.txt.gz", "actuator-jdk.json.gz"} {
		_, end := tallied(t, name, fixture(t, name), stacks.ByPlace)
		var got []string
		for _, note := range end.Notes {
			if strings.Contains(note, " wait for a lock") || strings.Contains(note, "waited for") {
				got = append(got, note)
			}
		}
		want := []string{
			`20 wait for a lock that "holder" holds (java.lang.Object)`,
			`20 wait for a lock that "main" holds (java.util.concurrent.locks.ReentrantLock$NonfairSync)`,
			`1 wait for a lock that "deadlocked-1" holds (java.lang.Object)`, "and 1 more locks are waited for",
		}
		if strings.HasPrefix(name, "jstack") { // jstack without -l does not tell who has a ReentrantLock
			want = []string{want[0], want[2], `1 wait for a lock that "deadlocked-2" holds (java.lang.Object)`}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Each dump of a real JVM with 200 blocked threads, in every format, gives the
// counts that its program made.
func TestRecordedDumps(t *testing.T) {
	for _, tt := range []struct {
		mode         string
		workers      int
		where, waits map[string]int // of waits, those that the program made
	}{
		{"httpclient5", 200, map[string]int{stacks.UpstreamRead: 180, stacks.Other: 20},
			map[string]int{stacks.WaitHTTP: 180, stacks.WaitConnection: 20}},
		{"httpclient4", 200, map[string]int{stacks.UpstreamRead: 180, stacks.Other: 20},
			map[string]int{stacks.WaitHTTP: 180, stacks.WaitConnection: 20}},
		{"urlconnection", 200, map[string]int{stacks.UpstreamRead: 200}, map[string]int{stacks.WaitHTTP: 200}},
		{"bulkhead", 200, map[string]int{stacks.UpstreamRead: 20, stacks.PermitWait: 180},
			map[string]int{stacks.WaitHTTP: 20, stacks.WaitSemaphore: 180}},
		{"hikari", 200, map[string]int{stacks.Database: 200}, map[string]int{stacks.WaitDatabase: 10, stacks.WaitConnection: 190}},
		{"idle", 200, map[string]int{stacks.Idle: 200}, map[string]int{stacks.WaitIdle: 202}}, // and two of Catalina-utility
		// 20 locker and 20 blocked threads, and 2 in a deadlock.
		{"jdk", 0, map[string]int{stacks.Idle: 20, stacks.PermitWait: 20},
			map[string]int{stacks.WaitRead: 200, stacks.WaitSemaphore: 20, stacks.WaitLock: 42, stacks.WaitIdle: 20}},
	} {
		for _, name := range []string{"jcmd-" + tt.mode + ".txt.gz", "jstack-" + tt.mode + ".txt.gz", "actuator-" + tt.mode + ".json.gz"} {
			if _, err := os.Stat(filepath.Join("testdata", name)); err != nil && strings.HasPrefix(name, "jstack-") {
				continue // recorded of one program only
			}
			t.Run(name, func(t *testing.T) {
				tally, end := tallied(t, name, fixture(t, name), stacks.ByPlace)
				if tally.Workers() != tt.workers || tally.Truncated() {
					t.Errorf("%d workers, truncated %v, notes %q", tally.Workers(), tally.Truncated(), end.Notes)
				}
				where := nonzero(tally.Where())
				if tt.workers == 0 {
					delete(where, stacks.Other)
				}
				if diff := cmp.Diff(tt.where, where); diff != "" {
					t.Errorf("where (-want +got):\n%s", diff)
				}
				for wait, n := range tt.waits {
					if got := tally.Waits()[wait]; got != n {
						t.Errorf("%d wait for %s, want %d", got, wait, n)
					}
				}
				if n := tally.Waits()[stacks.WaitUnknown]; n > 0 {
					t.Errorf("%d threads wait for what no rule names", n)
				}
			})
		}
	}
}
