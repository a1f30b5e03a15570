package report

import (
	"fmt"
	"slices"
	"strings"

	"chokepoint/internal/result"
)

// Events that date an outage.
const (
	eventPoolFull = "pool_full"
	// Between them is the name of the endpoint that must survive.
	eventFirst, eventLast, eventFailed = "first_", "last_", "_failed"
)

// moment is an instant of a run in scenario seconds. The sampled one is a row of
// the timeline, so that the thing itself happened at some time since the row before.
type moment struct {
	at      float64
	sampled bool
}

func (m moment) String() string {
	if m.sampled {
		return "by " + instant(m.at)
	}
	return "at " + instant(m.at)
}

// instant prints a time with its sign, since the load begins at 0.
func instant(at float64) string {
	if at < 0 {
		return number(at, 1) + " s"
	}
	return "+" + number(at, 1) + " s"
}

// whenItBroke says in a paragraph when the pool was full, when /fast failed, where
// the workers stood and whether it was over in the end. There is none for a run
// that neither filled the pool nor failed a /fast.
func whenItBroke(r runFolder) (block, bool) {
	s := r.summary
	full, isFull := r.firstMoment(eventPoolFull, func(row result.TimelineRow) bool {
		return s.Pool.WorkerLimit > 0 && row.Busy >= s.Pool.WorkerLimit
	})
	name := protected(s)
	failed, hasFailed := r.firstMoment(eventFirst+name+eventFailed, func(row result.TimelineRow) bool { return row.FastFailed > 0 })
	var parts []string
	if isFull {
		parts = append(parts, fmt.Sprintf("the pool was full %s", full))
	}
	if hasFailed {
		part := fmt.Sprintf("the first /%s failed %s%s", name, failed, dueOf(s, failed))
		if last, ok := r.event(eventLast + name + eventFailed); ok && last.AtS > failed.at {
			part += ", the last at " + instant(last.AtS)
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return nil, false
	}
	if stood := stoodAt(s); isFull && stood != "" {
		parts = append(parts, stood)
	}
	if rec := s.Recovery; rec.Recovered && rec.Seconds != nil {
		parts = append(parts, fmt.Sprintf("it had recovered %s s after the load", number(*rec.Seconds, 1)))
	} else {
		parts = append(parts, fmt.Sprintf("%s s after the load it had not recovered", number(rec.WaitedS, 1)))
	}
	return paragraph{plain(capitalised(strings.Join(parts, "; ")) + ".")}, true
}

func (r runFolder) event(name string) (result.Event, bool) {
	i := slices.IndexFunc(r.events, func(e result.Event) bool { return e.Name == name })
	if i < 0 {
		return result.Event{}, false
	}
	return r.events[i], true
}

// firstMoment is that of the event, or else of the first row under or after load
// in which it shows.
func (r runFolder) firstMoment(name string, shows func(result.TimelineRow) bool) (moment, bool) {
	if e, ok := r.event(name); ok {
		return moment{at: e.AtS}, true
	}
	for _, row := range r.timeline {
		if row.AtS >= 0 && shows(row) {
			return moment{row.AtS, true}, true
		}
	}
	return moment{}, false
}

// dueOf tells when a failed /fast fell due, where all that failed were timeouts:
// those failed as long after it as the client waits.
func dueOf(s result.Summary, failed moment) string {
	fast, ok := s.Endpoints[protected(s)]
	due := failed.at - fast.ClientTimeoutMS/1000/s.Run.Scale
	if !ok || failed.sampled || fast.Timeout == 0 || fast.Timeout != fast.Scheduled-fast.OK || due < 0 {
		return ""
	}
	return " (due at " + instant(due) + ")"
}

// stoodAt lists the dumps that show workers in the place that holds most of them.
func stoodAt(s result.Summary) string {
	if !whoStoodIn(s).workers {
		return mostHeld(s)
	}
	place, most := heldMost(s)
	if most == 0 || s.Pool.WorkerLimit == 0 {
		return ""
	}
	var points []string
	for _, d := range s.Dumps {
		if n := d.Where[place]; d.Point != pointBefore && n > 0 {
			points = append(points, fmt.Sprintf("%s of %s at %s", count(n), count(s.Pool.WorkerLimit), instant(d.AtS)))
		}
	}
	return fmt.Sprintf("workers in %s: %s", whereInWords(place), enumerate(points))
}

// enumerate joins items as a sentence does.
func enumerate(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:len(items)-1], ", ") + " and " + items[len(items)-1]
}
