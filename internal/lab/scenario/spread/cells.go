package spread

import (
	"fmt"
	"time"

	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/result"
)

// The experiment, in scenario time: the exhaustion scenario's, with twice its load for
// two victims.
const (
	fastRate        = 40 // requests per second, both victims together
	upstreamRate    = 40
	loadFor         = 60 * time.Second
	fastTimeout     = 30 * time.Second // how long a client waits
	upstreamTimeout = 60 * time.Second
	slowDelay       = 30 * time.Second // of a stub that is slow
	dumpAt          = 15 * time.Second
	watchFor        = 20 * time.Second // for idle pools, after the load
	minWorkers      = 10
	maxWorkers      = 200
)

// cell is one cell, as data. What is wanted of it was written down before the run.
type cell struct {
	id       string
	bothSlow bool // else victim one's stub alone
	choice   choice
	handling handling
	profile  string
	want     expect
	// predicted is the arithmetic, in scenario time; why is the rule behind it.
	predicted, why string
}

// Bounds that several cells have.
var (
	fullOne  = bound{readOne, 195, 200}
	fullTwo  = bound{readTwo, 195, 200}
	permits1 = bound{readOne, 17, 20} // a permit is in a hand-over now and then
	permits2 = bound{readTwo, 17, 20}
	wellTwo  = bound{readTwo, 0, 10}
	idle1    = bound{idleOne, 0, 5}
	idle2    = bound{idleTwo, 0, 5}
	// What is sent again is sent until patience is over, and then takes its time.
	later1   = bound{idleOne, 0, 9}
	later2   = bound{idleTwo, 0, 9}
	stuck1   = bound{idleOne, never, never}
	stuck2   = bound{idleTwo, never, never}
	noneFail = bound{fastFailed, 0, 1}
	noneLate = bound{fastLate, 0, 2}
)

// The rules that several cells follow.
const (
	whyTurns = "round robin does not look at what a victim holds: the one that hangs gets every second request, and the other nothing of it"
	whyLeast = "nginx sends a request to the victim with the fewest in flight: one that hangs holds the most, and is asked again only when the other has as many at that moment"
	whySame  = "both hold the same, so that there is nothing to choose"
	whyFixed = "20 permits for 2 s each: a victim is never exhausted, and /fast finds a worker"
	whyAgain = "a victim of the profile anti does not notice that nginx has given up: its workers stay where they are"
	whyOut   = "one failure takes a victim out of the choice, whatever was asked of it: /fast pays for /upstream"
)

// cells are all, in the order of a report.
var cells = []cell{
	{
		id: "rr-one", choice: roundRobin, handling: waits, profile: "anti",
		want:      expect{stays, []bound{{fastFailed, 30, 37}, {fastFailedOne, 60, 73}, {fastFailedTwo, 0, 1}, {upstreamFailed, 28, 39}, {shareOne, 49, 51}, fullOne, wellTwo, stuck1, idle2}},
		predicted: "one gets 20 + 20 a second, the published load: full at 10 s, 66.7 % of its /fast and of its /upstream fail; half of that is 33.3 % of all",
		why:       whyTurns,
	},
	{
		id: "rr-one", choice: roundRobin, handling: waits, profile: "fixed",
		want:      expect{unharmed, []bound{noneFail, {upstreamFailed, 46, 55}, {shareOne, 49, 51}, permits1, wellTwo, idle1, idle2}},
		predicted: "every /upstream of one's share ends as 503 or 504, which is 50 % of all; /fast does not fail",
		why:       whyFixed + "; the half of /upstream that comes to it fails, by whichever limit",
	},
	{
		id: "lc-one", choice: leastConn, handling: waits, profile: "anti",
		want:      expect{unharmed, []bound{noneFail, {upstreamFailed, 0, 2}, {shareOne, 0, 10}, {readOne, 1, 60}, wellTwo, idle2}},
		predicted: "one holds as many as the other ever had at a time, a few of 200; those are answered after 30 s, before their clients give up",
		why:       whyLeast,
	},
	{
		id: "lc-one", choice: leastConn, handling: waits, profile: "fixed",
		want:      expect{unharmed, []bound{noneFail, {upstreamFailed, 0, 20}, {shareOne, 0, 20}, {readOne, 0, 20}, wellTwo, idle1, idle2}},
		predicted: "one is given a few calls every 2 s, when those before have ended as 504; how few is the time that the other takes to answer",
		why:       whyLeast + "; a victim that gives up early is asked more often than one that hangs",
	},
	{
		id: "lc-one", choice: leastConn, handling: waits, profile: "breaker",
		want:      expect{unharmed, []bound{noneFail, {upstreamFailed, 35, 65}, {shareOne, 35, 65}, {readOne, 0, 5}, wellTwo, idle1, idle2}},
		predicted: "after 2 s the breaker is open, and one answers 503 at once: it holds no more than the other, gets about half, and fails all of /upstream in it",
		why:       "least_conn takes who has the fewest in flight for the fittest, and nobody is quicker than one that refuses",
	},
	{
		id: "rr-one-resend", choice: roundRobin, handling: resends, profile: "anti",
		want:      expect{unharmed, []bound{noneFail, {fastLate, 37, 46}, {upstreamFailed, 0, 2}, fullOne, wellTwo, stuck1, later2}},
		predicted: "one is full at 10 s as before, and nginx sends its share to the other 5 s later: nothing fails, and 50 s of 60 of half of /fast, 41.7 % of all, are 5 s late",
		why:       whyAgain + "; the other has workers for all, since its upstream answers at once",
	},
	{
		id: "rr-one-resend", choice: roundRobin, handling: resends, profile: "fixed",
		want:      expect{unharmed, []bound{noneFail, noneLate, {upstreamFailed, 0, 5}, permits1, wellTwo, later1, later2}},
		predicted: "each 503 and 504 of one is answered by the other: the 50 % of /upstream that failed are saved, after 0.1 to 2 s",
		why:       "the failures are quick, and the other victim's upstream is well",
	},
	{
		id: "rr-one-eject", choice: roundRobin, handling: ejects, profile: "anti",
		want:      expect{unharmed, []bound{noneFail, noneLate, {upstreamFailed, 0, 2}, {readOne, 60, 140}, wellTwo, later2}},
		predicted: "the first timeout, at 5 s, takes one out: it then holds 100 of 200, is tried again with a request at a time, and is never full",
		why:       "while it is out nothing is sent to it; /upstream that it held is sent to the other",
	},
	{
		id: "rr-one-eject", choice: roundRobin, handling: ejects, profile: "fixed",
		want:      expect{unharmed, []bound{noneFail, noneLate, {upstreamFailed, 0, 5}, {readOne, 0, 20}, wellTwo, later1, later2}},
		predicted: "the first 503, after 1.1 s, takes one out; the other serves all",
		why:       "as re-sent, and one is hardly asked",
	},
	{
		id: "rr-both", bothSlow: true, choice: roundRobin, handling: waits, profile: "anti",
		want:      expect{everywhere, []bound{{fastFailed, 60, 73}, {fastFailedOne, 60, 73}, {fastFailedTwo, 60, 73}, {upstreamFailed, 60, 73}, {shareOne, 49, 51}, fullOne, fullTwo, stuck1, stuck2}},
		predicted: "each gets the published load, and dies of it as published: 66.7 %",
		why:       whySame + "; two instances are twice the workers for twice the load",
	},
	{
		id: "rr-both", bothSlow: true, choice: roundRobin, handling: waits, profile: "fixed",
		want:      expect{unharmed, []bound{noneFail, {upstreamFailed, 98, 100}, {shareOne, 49, 51}, permits1, permits2, idle1, idle2}},
		predicted: "0 of /fast and all of /upstream",
		why:       whyFixed,
	},
	{
		id: "lc-both", bothSlow: true, choice: leastConn, handling: waits, profile: "anti",
		want:      expect{everywhere, []bound{{fastFailed, 60, 73}, {fastFailedOne, 58, 75}, {fastFailedTwo, 58, 75}, {upstreamFailed, 60, 73}, {shareOne, 45, 55}, fullOne, fullTwo, stuck1, stuck2}},
		predicted: "as round robin: 66.7 %",
		why:       whySame,
	},
	{
		id: "lc-both", bothSlow: true, choice: leastConn, handling: waits, profile: "fixed",
		want:      expect{unharmed, []bound{noneFail, {upstreamFailed, 98, 100}, {shareOne, 45, 55}, permits1, permits2, idle1, idle2}},
		predicted: "as round robin: 0 of /fast and all of /upstream",
		why:       whySame + "; " + whyFixed,
	},
	{
		id: "rr-both-resend", bothSlow: true, choice: roundRobin, handling: resends, profile: "anti",
		want:      expect{everywhere, []bound{{fastFailed, 83, 92}, {fastFailedOne, 82, 93}, {fastFailedTwo, 82, 93}, {upstreamFailed, 98, 100}, fullOne, fullTwo, stuck1, stuck2}},
		predicted: "each has 20 calls a second of its own and from 5 s on the other's 20: full at 7.5 s, not 10 s; nobody in the queue is waited for until workers are free at 30 s, so that 52.5 s of 60 fail, 87.5 %",
		why:       whyAgain + ": a call that is sent twice holds two workers, one of each victim",
	},
	{
		id: "rr-both-resend", bothSlow: true, choice: roundRobin, handling: resends, profile: "fixed",
		want:      expect{unharmed, []bound{noneFail, noneLate, {upstreamFailed, 98, 100}, permits1, permits2, later1, later2}},
		predicted: "0 of /fast and all of /upstream, with each call made at both",
		why:       whyFixed + ", also of twice the calls",
	},
	{
		id: "rr-both-eject", bothSlow: true, choice: roundRobin, handling: ejects, profile: "anti",
		want:      expect{atBalancer, []bound{{fastFailed, 45, 95}, {unasked, 40, 95}, {upstreamFailed, 98, 100}}},
		predicted: "at 5 s both are out, and nginx answers 502 to everything for 10 s and more; a /fast that is tried then brings a victim back for the 5 s until the next call times out",
		why:       whyOut,
	},
	{
		id: "rr-both-eject", bothSlow: true, choice: roundRobin, handling: ejects, profile: "fixed",
		want:      expect{atBalancer, []bound{{fastFailed, 60, 99}, {unasked, 60, 99}, {upstreamFailed, 98, 100}, {readOne, 0, 20}, {readTwo, 0, 20}, later1, later2}},
		predicted: "the first 503, after 1.1 s, takes one out, and being sent again takes out the other: nginx answers 502 to everything for 10 s and more, then the same again; at the most 58.9 s of 60, 98.2 %",
		why:       whyOut + ", although both victims have workers for it",
	},
}

// describe is the cell as a case before anything was measured.
func (c cell) describe() result.Case {
	group, slow := "One upstream is slow", "one victim's upstream answers"
	if c.bothSlow {
		group, slow = "Both upstreams are slow", "both victims' upstreams answer"
	}
	return result.Case{
		ID: c.id, Group: group, Title: fmt.Sprintf("%s, nginx %s", c.choice, c.handling),
		Client: "loadgen", Method: "GET", Defence: c.profile, Settings: c.settings(),
		Fault: fmt.Sprintf("%s after %v", slow, slowDelay),
		Want:  c.want.want(), Why: c.why, Predicted: c.predicted,
	}
}

// Cases are the cells as cases, with what is wanted of them, for -list and matrix.Select.
func Cases() []matrix.Case {
	var all []matrix.Case
	for _, c := range cells {
		all = append(all, matrix.Case{Case: c.describe()})
	}
	return all
}
