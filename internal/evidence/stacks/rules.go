package stacks

import (
	"slices"
	"strings"
)

// Pattern is a set of alternatives for a function's name as a dump prints it; one
// that ends in '*' stands for every name that begins so.
type Pattern []string

// Matches says whether name is one of the alternatives.
func (p Pattern) Matches(name string) bool {
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

// PlaceRule assigns a place to the stacks that have all its frames.
type PlaceRule struct {
	Where  string
	Worker bool // it is a worker of the pool
	// Frames must be in the stack in this order, the outermost (the caller) first;
	// others may stand between them.
	Frames []Pattern
	// States narrows the rule to these; nil means any. A format that tells no state
	// fits them all.
	States []string
}

// Fits says whether the rule is one for s.
func (r *PlaceRule) Fits(s Stack) bool {
	return (r.States == nil || s.State == "" || slices.Contains(r.States, s.State)) && inOrder(r.Frames, s.Frames)
}

// WaitRule says what the stacks wait for that meet all its conditions; a nil one
// is none.
type WaitRule struct {
	Wait    string
	Frames  []Pattern // as in PlaceRule
	Telling Pattern   // for the nearest telling frame
	States  []string  // as in PlaceRule; a rule of states alone needs a format that tells them
}

func (r *WaitRule) fits(s Stack, telling Frame) bool {
	if r.States != nil && !slices.Contains(r.States, s.State) && (s.State != "" || r.Frames == nil) {
		return false
	}
	return (r.Telling == nil || r.Telling.Matches(telling.Func)) && inOrder(r.Frames, s.Frames)
}

// inOrder says whether frames, the innermost first, hold want, the outermost first.
func inOrder(want []Pattern, frames []Frame) bool {
	for i := len(frames) - 1; i >= 0 && len(want) > 0; i-- {
		if want[0].Matches(frames[i].Func) {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// Rules are the rules of one language. Of each list the first that fits decides.
type Rules struct {
	Places []PlaceRule
	Waits  []WaitRule
	// Plumbing are the frames in which a wait ends and which say nothing about what
	// is waited for.
	Plumbing Pattern
	// Entry are the frames in which every stack begins.
	Entry Pattern
	// Own are frames that only a service with a pool of its own kind has: where one
	// is found, no worker means none, and not that the workers are unknown.
	Own Pattern
}

// Locate says where s stands, by its stack and state alone.
func (r *Rules) Locate(s Stack) Place {
	p := Place{Where: Other, Frame: r.telling(s.Frames), Wait: WaitUnknown}
	for i := range r.Places {
		if rule := &r.Places[i]; rule.Fits(s) {
			p.Where, p.Worker = rule.Where, rule.Worker
			break
		}
	}
	for i := range r.Waits {
		if rule := &r.Waits[i]; rule.fits(s, p.Frame) {
			p.Wait = rule.Wait
			break
		}
	}
	return p
}

func (r *Rules) telling(frames []Frame) Frame {
	for _, f := range frames {
		if !r.Plumbing.Matches(f.Func) {
			return f
		}
	}
	for _, f := range slices.Backward(frames) {
		if !r.Entry.Matches(f.Func) {
			return f
		}
	}
	return Frame{}
}

func (r *Rules) owns(frames []Frame) bool {
	return slices.ContainsFunc(frames, func(f Frame) bool { return r.Own.Matches(f.Func) })
}
