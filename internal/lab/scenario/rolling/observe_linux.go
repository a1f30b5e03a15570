package rolling

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"time"
)

// moment is something that happened, beside the packets.
type moment struct {
	at                  time.Time
	where, what, detail string
}

// observer notes what happens to the servers, what the balancer's kernel has of the
// address of the one that goes, and what nginx says in its log, when it does.
type observer struct {
	w *world

	mu      sync.Mutex
	moments []moment
	err     error

	// out is closed when nginx has taken the server out.
	out   chan struct{}
	outAt time.Time
	why   string // of the error that it took it out for
}

// observed is how often kernel and log are looked at.
const observed = 20 * time.Millisecond

func newObserver(w *world) *observer { return &observer{w: w, out: make(chan struct{})} }

func (o *observer) told(where, what, detail string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.moments = append(o.moments, moment{time.Now(), where, what, detail})
}

// run observes until ctx ends.
func (o *observer) run(ctx context.Context) {
	tick := time.NewTicker(observed)
	defer tick.Stop()
	had, seen := "", 0
	for {
		now, err := o.w.n.lb.Neighbour(wasAddrs[0])
		if err == nil && now != had {
			detail := now
			if had != "" {
				detail = had + " to " + now
			}
			o.told("lb", "neighbour "+now, "was1's entry: "+detail)
			had = now
		}
		lines, logErr := o.w.lb.Log()
		for _, line := range lines[min(seen, len(lines)):] {
			o.logged(line)
		}
		seen = max(seen, len(lines))
		o.mu.Lock()
		if o.err == nil && (err != nil || logErr != nil) {
			o.err = err
			if err == nil {
				o.err = logErr
			}
		}
		o.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

var (
	// complaint is a line of nginx's log that is about a server: its level, and what it says.
	complaint = regexp.MustCompile(`\[(error|warn)\] [0-9#]+: (?:\*[0-9]+ )?(.*?)(?:, client: .*)?$`)
	cause     = regexp.MustCompile(`\(([0-9]+): [^)]+\)`)
)

// takenOutWords are nginx's when a server has failed as often as its max_fails.
const takenOutWords = "upstream server temporarily disabled"

// logged notes a line of nginx's log.
func (o *observer) logged(line string) {
	found := complaint.FindStringSubmatch(line)
	if found == nil {
		return
	}
	o.told("lb", "nginx "+found[1], found[2])
	select {
	case <-o.out:
		return
	default:
	}
	if strings.HasPrefix(found[2], takenOutWords) {
		o.outAt = time.Now()
		close(o.out)
		return
	}
	o.why = found[2]
	if c := cause.FindStringSubmatch(found[2]); c != nil {
		o.why = "error " + c[1]
	}
}
