package threads

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Limits of what is kept of locks.
const (
	maxLocks     = 1 << 14
	maxLockNotes = 3
)

// locks are the locks of a dump that threads wait for and that a thread holds. A
// condition or a semaphore has no holder and is none of them.
type locks struct {
	waiting map[string]int // threads, by lock
	class   map[string]string
	holder  map[string]string // the name of a thread, by lock
	// released are those that the current thread has given up while it waits in
	// Object.wait; they stand among its locked ones all the same.
	released map[string]bool
}

// lockLine is a line below a frame, or among the ownable synchronizers, after its
// indent. The lock is ADDRESS (a CLASS) of HotSpot and Actuator, or CLASS@HASH of
// jcmd Thread.dump_to_file.
var lockLine = regexp.MustCompile(`^- (waiting to lock |waiting to re-lock in wait\(\) |waiting on |parking to wait for +|[Ll]ocked )?<([^>]+)>(?: \(an? ([^)]+)\))?`)

// begin forgets what was of the thread before.
func (l *locks) begin() { clear(l.released) }

// take reads a line of the thread called name.
func (l *locks) take(line []byte, name string) {
	m := lockLine.FindSubmatch(line)
	if m == nil {
		return
	}
	lock, class := string(m[2]), string(m[3])
	if class == "" {
		class, _, _ = strings.Cut(lock, "@")
	}
	switch strings.TrimSpace(string(m[1])) {
	case "waiting on":
		if l.released == nil {
			l.released = make(map[string]bool)
		}
		l.released[lock] = true
	case "waiting to lock", "waiting to re-lock in wait()", "parking to wait for":
		l.wait(lock, class, "")
	default:
		if !l.released[lock] {
			l.hold(lock, name)
		}
	}
}

// wait counts a thread that waits for lock; holder is empty where only the thread
// that holds it tells.
func (l *locks) wait(lock, class, holder string) {
	if l.waiting == nil {
		l.waiting, l.class = make(map[string]int), make(map[string]string)
	}
	if _, known := l.waiting[lock]; !known && len(l.waiting) >= maxLocks {
		return
	}
	l.waiting[lock]++
	l.class[lock] = class
	if holder != "" {
		l.hold(lock, holder)
	}
}

func (l *locks) hold(lock, name string) {
	if l.holder == nil {
		l.holder = make(map[string]string)
	}
	if _, known := l.holder[lock]; known || len(l.holder) < maxLocks {
		l.holder[lock] = name
	}
}

// notes say who holds the locks that most threads wait for.
func (l *locks) notes() []string {
	var held []string
	for lock := range l.waiting {
		if l.holder[lock] != "" {
			held = append(held, lock)
		}
	}
	slices.SortFunc(held, func(a, b string) int {
		return cmp.Or(cmp.Compare(l.waiting[b], l.waiting[a]), cmp.Compare(l.holder[a], l.holder[b]), cmp.Compare(a, b))
	})
	var notes []string
	for _, lock := range held[:min(len(held), maxLockNotes)] {
		notes = append(notes, fmt.Sprintf("%d wait for a lock that %q holds (%s)", l.waiting[lock], l.holder[lock], l.class[lock]))
	}
	if more := len(held) - maxLockNotes; more > 0 {
		notes = append(notes, fmt.Sprintf("and %d more locks are waited for", more))
	}
	return notes
}
