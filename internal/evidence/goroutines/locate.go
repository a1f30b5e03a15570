package goroutines

import (
	"slices"
	"strings"
)

// Place is where a goroutine stands.
type Place struct {
	Where string // one of the constants of this package
	// Worker says that the goroutine runs requests for the victim's pool.
	Worker bool
	// Frame is the nearest telling frame: the innermost outside the runtime, the
	// poller and the libraries in which any wait ends. Where all of the stack is of
	// those, it is the outermost but for runtime.goexit.
	Frame Frame
}

// Locate says where g stands, by its stack and state alone.
func Locate(g Goroutine) Place {
	p := Place{Where: Other, Frame: telling(g.Frames)}
	for i := range rules {
		r := &rules[i]
		if r.fits(g) {
			p.Where, p.Worker = r.where, r.worker
			break
		}
	}
	return p
}

func (r *rule) fits(g Goroutine) bool {
	if r.states != nil && !slices.Contains(r.states, g.State) {
		return false
	}
	want := r.frames
	for i := len(g.Frames) - 1; i >= 0 && len(want) > 0; i-- {
		if want[0].matches(g.Frames[i].Func) {
			want = want[1:]
		}
	}
	return len(want) == 0
}

func (p pattern) matches(name string) bool {
	for _, alternative := range p {
		if prefix, ok := strings.CutSuffix(alternative, "*"); ok {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		} else if name == alternative {
			return true
		}
	}
	return false
}

func telling(frames []Frame) Frame {
	for _, f := range frames {
		if !plumbing.matches(f.Func) {
			return f
		}
	}
	for _, f := range slices.Backward(frames) {
		if f.Func != "runtime.goexit" {
			return f
		}
	}
	return Frame{}
}
