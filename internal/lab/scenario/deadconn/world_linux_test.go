package deadconn

import (
	"strings"
	"testing"

	"chokepoint/internal/lab/proc"
)

// A program that somebody else has ended makes a case of no worth; the stub may have
// been killed by the case itself.
func TestEndedByItself(t *testing.T) {
	l := proc.NewLauncher(nil)
	defer l.Close()
	start := func(script string) *proc.Child {
		child, err := l.Start(t.Context(), proc.Spec{Name: script, Path: "/bin/sh", Args: []string{"-c", script}, LogPath: t.TempDir() + "/log"})
		if err != nil {
			t.Fatal(err)
		}
		return child
	}
	lives, ended, endedToo := start("exec sleep 60"), start("exit 7"), start("exit 8")
	<-ended.Done()
	<-endedToo.Done()
	for _, tc := range []struct {
		w          world
		stubKilled bool
		want       string // empty: none has
	}{
		{world{victim: lives, stub: lives}, false, ""},
		{world{}, false, ""},
		{world{victim: lives, stub: ended}, true, ""},
		{world{victim: lives, stub: ended}, false, "exit 7 ended in the middle: exit status 7"},
		{world{victim: ended, stub: endedToo}, true, "exit 7 ended in the middle: exit status 7"},
	} {
		err := tc.w.ended(tc.stubKilled)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
}
