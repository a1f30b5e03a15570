// Package goroutines reads the text of Go goroutine dumps (runtime.Stack, the
// goroutine profile with debug=2, the output of a crash or of SIGQUIT) and says
// where each goroutine stands: which request workers are idle, which wait for
// the upstream, a permit or the database, and which connections wait for a
// worker.
//
// The text is the evidence and stays as it is: the parser takes only what the
// runtime prints, hands text that it does not know back as unknown, and never
// repairs a line. It refuses to guess: a goroutine is a worker by its stack,
// never by its pprof labels (every goroutine that a library starts from a
// labelled one inherits them), and a block that the text cuts off is marked
// Truncated.
//
// The text of debug=1, which has counted equal stacks already and has lost their
// states, creators and wait times, is read by ScanCounts. The binary profile
// (debug=0) is not read: go tool pprof does.
package goroutines

import "chokepoint/internal/evidence/stacks"

// Goroutine is one block of a dump.
type Goroutine struct {
	ID uint64
	// State is the wait reason or status that the runtime prints, for example
	// "chan receive" or "select (no cases)", without the marks below and without
	// "(scan)", which says only that the garbage collector was at this stack.
	State string
	// WaitMinutes is how long the goroutine has been blocked, in whole minutes; 0
	// under one minute.
	WaitMinutes int
	Locked      bool   // locked to its thread
	Leaked      bool   // the garbage collector found that nothing can wake it
	Durable     bool   // durably blocked, within a synctest bubble
	Bubble      uint64 // the synctest bubble; 0 for none
	// Labels are the pprof labels, printed with GODEBUG=tracebacklabels=1 (the
	// default from Go 1.27 on); nil if the header has none.
	Labels map[string]string
	// Frames is the stack, innermost first. Frames of ancestors
	// (GODEBUG=tracebackancestors=N) are not part of it.
	Frames []Frame
	// Elided is how many frames the runtime, or this package's own limit, left out
	// of the middle; ElidedUnknown where the text does not say.
	Elided int
	// CreatedBy is the go statement that started the goroutine, and CreatorID the
	// goroutine that ran it; zero where the text has neither.
	CreatedBy Frame
	CreatorID uint64
	// Unavailable says that the goroutine was running on another thread, so that
	// the runtime could not print its stack.
	Unavailable bool
	// Unknown holds the parts of the block that are none of the above, at most 16.
	Unknown []string
	// Truncated says that the text stopped within this block. A text cut exactly
	// after a line of a stack cannot be told from a whole one.
	Truncated bool
}

// ElidedUnknown is the Elided of a stack that lost frames without saying how many.
const ElidedUnknown = -1

// Frame is one call of a stack.
type Frame = stacks.Frame

// Stack is g as the groups and the rules see it.
func (g Goroutine) Stack() stacks.Stack {
	return stacks.Stack{State: g.State, Frames: g.Frames, CreatedBy: g.CreatedBy, Count: 1, Truncated: g.Truncated}
}

// Dump is a whole dump in memory.
type Dump struct {
	Goroutines []Goroutine
	// Rest is the text that belongs to no goroutine, such as the panic before the
	// first or the registers after the last; see Scanner.Rest.
	Rest Rest
}

// Rest is text of a dump outside of all goroutines.
type Rest struct {
	Text  string // without blank lines, at most 64 KiB
	Bytes int64  // how long it was before that limit
	// Truncated says that the text stopped in the header of another goroutine,
	// before its id was known.
	Truncated bool
}
