package threads

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLocks(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string // "NAME: line"; a line of another name begins a thread
		notes []string
	}{
		{"of HotSpot", []string{"a: - locked <0x1> (a A)", "b: - waiting to lock <0x1> (a A)", "c: - waiting to lock <0x1> (a A)"},
			[]string{`2 wait for a lock that "a" holds (A)`}},
		{"told after those who wait", []string{"b: - parking to wait for  <0x1> (a R)", "a: - <0x1> (a R)"}, []string{`1 wait for a lock that "a" holds (R)`}},
		{"of Actuator's text", []string{"b: - waiting to lock <1f> (a A) owned by \"a\" t@3", "a: - Locked <1f> (an A)"}, []string{`1 wait for a lock that "a" holds (A)`}},
		{"of jcmd", []string{"b: - waiting to lock <x.A@1f>", "a: - locked <x.A@1f>"}, []string{`1 wait for a lock that "a" holds (x.A)`}},
		{"given up in Object.wait", []string{"a: - waiting on <0x1> (a A)", "a: - locked <0x1> (a A)", "b: - waiting to lock <0x1> (a A)"}, nil},
		{"held by the next thread, which does not wait", []string{"a: - waiting on <0x1> (a A)", "b: - waiting to lock <0x1> (a A)", "c: - locked <0x1> (a A)"},
			[]string{`1 wait for a lock that "c" holds (A)`}},
		{"without a holder", []string{"b: - parking to wait for  <0x1> (a Semaphore$FairSync)"}, nil},
		{"none", []string{"b: - None", "b: - lock is eliminated", "b: - locked"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l locks
			last := ""
			for _, line := range tt.lines {
				if line[:1] != last {
					l.begin()
					last = line[:1]
				}
				l.take([]byte(line[len("a: "):]), line[:1])
			}
			if diff := cmp.Diff(tt.notes, l.notes()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLocksAreBounded(t *testing.T) {
	var l locks
	for i := range 2 * maxLocks {
		lock := fmt.Sprint(i)
		l.wait(lock, "A", "a")
	}
	if len(l.waiting) > maxLocks || len(l.holder) > maxLocks || len(l.class) > maxLocks || len(l.notes()) != maxLockNotes+1 {
		t.Errorf("%d locks waited for, %d held, %d notes", len(l.waiting), len(l.holder), len(l.notes()))
	}
}
