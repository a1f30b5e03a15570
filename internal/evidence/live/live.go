// Package live shows a run while it goes: a page of the loopback, fed by
// server-sent events, and the same as text for a terminal.
//
// A View is told what happens and tells it on to whoever watches. Telling never
// waits: a viewer that does not keep up is let go, and when it comes back it gets
// the whole state, as every new viewer does. So a page may be reloaded in the
// middle, and several may watch, and the run is the same as with none.
//
// The package refuses to measure and to judge. What a worker says of itself is
// shown as it comes; the dumps remain the evidence, and the report the judgement.
package live

import (
	"encoding/json"
	"slices"
	"sync"
)

// Run is what a viewer is told of a run before it begins.
type Run struct {
	Number   int     `json:"number"` // from 1; Begin sets it
	Of       int     `json:"of"`     // how many runs there will be; Begin sets it
	Scenario string  `json:"scenario"`
	Profile  string  `json:"profile"`
	Summary  string  `json:"summary"` // of the profile, in words
	Scale    float64 `json:"scale"`
	Workers  int     `json:"workers"` // of the pool at most; 0: unbounded
	Permits  int     `json:"permits"` // of the bulkhead; 0: none
}

// Sample is the victim at one moment of a run.
type Sample struct {
	AtS float64 `json:"at_s"` // real seconds since the run began
	// Where has a letter for each worker, as adminapi.PoolStats has it.
	Where       string  `json:"where,omitempty"`
	Busy        int     `json:"busy"`
	Queued      int     `json:"queued"`
	Permits     int     `json:"permits"`      // held
	AcceptQueue int     `json:"accept_queue"` // connections that the kernel holds
	CPUPercent  float64 `json:"cpu_percent"`  // since the sample before; 100 is one core
	// Fast and Upstream are the requests of each endpoint.
	Fast     Answers `json:"fast"`
	Upstream Answers `json:"upstream"`
}

// Answers are those of one endpoint, as the victim gave them.
type Answers struct {
	Count int `json:"count"` // since the sample before
	// P50MS and MaxMS are of these, from the request read to its answer; 0 where
	// there are none.
	P50MS float64 `json:"p50_ms"`
	MaxMS float64 `json:"max_ms"`
	// Waiting are the requests that were read and have no answer yet.
	Waiting int `json:"waiting"`
	// Status counts the answers of the load so far.
	Status map[string]int `json:"status,omitempty"`
	// Gone counts those of them whose client had left before their worker began.
	Gone int `json:"gone"`
}

// Event is something that happened.
type Event struct {
	AtS  float64 `json:"at_s"` // real seconds since the run began
	Name string  `json:"name"` // load_on, dump, first_queued, pool_full, load_off, recovered, ...
	Text string  `json:"text"` // for people
	Mark string  `json:"mark"` // in a word or two, for the chart; empty for a line without
	// Where are the workers by place, and those queued, if it was a dump.
	Where map[string]int `json:"where,omitempty"`
}

// Phase says in a sentence what is about to happen, and why.
type Phase struct {
	Name     string `json:"name"`
	Sentence string `json:"sentence"`
}

// Report is what came of a run or, in the end, of all.
type Report struct {
	Title   string `json:"title"`
	Outcome string `json:"outcome"`
	Path    string `json:"path"` // of the report on this server; empty where there is none
}

// State is all that a viewer needs to know.
type State struct {
	Run     Run      `json:"run"`
	Phase   Phase    `json:"phase"`
	Events  []Event  `json:"events"`
	History []Sample `json:"history"` // without Where
	Last    *Sample  `json:"last"`    // the newest; nil before the first
	Reports []Report `json:"reports"` // of the runs that are over
	End     *Report  `json:"end"`     // all is over, and this is what came of it
}

// Names of the messages to a viewer. The first is always a state.
const (
	messageState  = "state"
	messageSample = "sample"
	messageEvent  = "event"
	messagePhase  = "phase"
	messageEnd    = "end"
)

const (
	// viewerBacklog is how many messages may wait for one viewer: some seconds of
	// samples.
	viewerBacklog = 64
	// maxEvents bounds the event log of a run; the oldest go first.
	maxEvents = 500
)

// View is what happens, for whoever watches. Its methods may be called from any
// goroutine, and on a nil View, which is nobody's and keeps nothing.
type View struct {
	mu      sync.Mutex
	planned int
	state   State
	history history
	viewers map[*Viewer]struct{}
}

// NewView makes a view of so many runs to come.
func NewView(runs int) *View {
	return &View{planned: runs, viewers: map[*Viewer]struct{}{}}
}

// message is what a viewer is sent.
type message struct {
	name string
	data []byte
}

// Viewer is one who watches.
type Viewer struct {
	view     *View
	messages chan message
	first    State
}

// watch adds a viewer, whose first message is the state as it is now. Its
// messages end when it does not keep up; it must be told to leave.
func (v *View) watch() *Viewer {
	v.mu.Lock()
	defer v.mu.Unlock()
	w := &Viewer{view: v, messages: make(chan message, viewerBacklog), first: v.copyState()}
	v.viewers[w] = struct{}{}
	return w
}

// leave ends a viewer's messages.
func (w *Viewer) leave() {
	w.view.mu.Lock()
	defer w.view.mu.Unlock()
	w.view.drop(w)
}

// drop takes a viewer off the list. The caller holds the lock.
func (v *View) drop(w *Viewer) {
	if _, there := v.viewers[w]; there {
		delete(v.viewers, w)
		close(w.messages)
	}
}

// State is the state as it is now.
func (v *View) State() State {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.copyState()
}

// copyState shares nothing that changes. The caller holds the lock.
func (v *View) copyState() State {
	s := v.state
	s.Events, s.Reports = slices.Clone(s.Events), slices.Clone(s.Reports)
	s.History = slices.Clone(v.history.samples)
	return s
}

// send sends a message to every viewer that has room for it, and lets the others
// go. The caller holds the lock.
func (v *View) send(name string, body any) {
	if len(v.viewers) == 0 {
		return
	}
	data, err := json.Marshal(body)
	if err != nil {
		panic("live: " + err.Error()) // a type of this package that has no JSON
	}
	for w := range v.viewers {
		select {
		case w.messages <- message{name, data}:
		default:
			v.drop(w)
		}
	}
}

// sendState sends all of it. The caller holds the lock.
func (v *View) sendState() {
	if len(v.viewers) > 0 {
		v.send(messageState, v.copyState())
	}
}

// Begin begins a run: what was shown of the one before gives way.
func (v *View) Begin(r Run) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	r.Number, r.Of = v.state.Run.Number+1, v.planned
	v.state = State{Run: r, Reports: v.state.Reports}
	v.history = history{}
	v.sendState()
}

// Say names the phase that comes now.
func (v *View) Say(p Phase) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.state.Phase = p
	v.send(messagePhase, p)
}

// Sample adds a sample.
func (v *View) Sample(s Sample) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.state.Last = &s
	if v.history.add(s) {
		// Older samples have been thinned: a viewer's own copy would grow on.
		v.sendState()
		return
	}
	v.send(messageSample, s)
}

// Event adds an event.
func (v *View) Event(e Event) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.state.Events) == maxEvents {
		v.state.Events = slices.Delete(v.state.Events, 0, 1)
	}
	v.state.Events = append(v.state.Events, e)
	v.send(messageEvent, e)
}

// Report adds what came of a run.
func (v *View) Report(r Report) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.state.Reports = append(v.state.Reports, r)
	v.sendState()
}

// End says that all is over.
func (v *View) End(r Report) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.state.End = &r
	v.send(messageEnd, r)
}
