package stacks

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var testRules = Rules{
	Places: []PlaceRule{
		{Where: Idle, Worker: true, Frames: []Pattern{{"work"}, {"take"}}},
		{Where: UpstreamRead, Worker: true, Frames: []Pattern{{"work"}, {"do"}, {"read*"}}},
		{Where: Database, Frames: []Pattern{{"serve"}, {"sql.*"}}, States: []string{"waiting"}},
		{Where: Queued, Frames: []Pattern{{"await"}}},
	},
	Waits: []WaitRule{
		{Wait: WaitTimer, States: []string{"sleep"}},
		{Wait: WaitIdle, Telling: Pattern{"take"}},
		{Wait: WaitRead, Frames: []Pattern{{"read*"}}},
		{Wait: WaitDatabase, Frames: []Pattern{{"sql.*"}}, States: []string{"waiting"}},
	},
	Plumbing: Pattern{"park", "read*", "start"},
	Entry:    Pattern{"start"},
	Own:      Pattern{"work"},
}

// of makes a stack of functions, the innermost first.
func of(state string, functions ...string) Stack {
	s := Stack{State: state, Count: 1}
	for i, f := range functions {
		s.Frames = append(s.Frames, Frame{Func: f, File: "a", Line: i})
	}
	return s
}

func TestLocate(t *testing.T) {
	for _, tt := range []struct {
		s    Stack
		want Place
	}{
		{of("", "park", "take", "work", "start"), Place{Idle, true, Frame{Func: "take"}, WaitIdle}},
		{of("", "readSlow", "do", "work"), Place{UpstreamRead, true, Frame{Func: "do"}, WaitRead}},
		{of("", "do", "readSlow", "work"), Place{Other, false, Frame{Func: "do"}, WaitRead}}, // not in order
		{of("waiting", "park", "sql.query", "serve"), Place{Database, false, Frame{Func: "sql.query"}, WaitDatabase}},
		{of("", "park", "sql.query", "serve"), Place{Database, false, Frame{Func: "sql.query"}, WaitDatabase}}, // no state told
		{of("running", "park", "sql.query", "serve"), Place{Other, false, Frame{Func: "sql.query"}, WaitUnknown}},
		{of("sleep", "park", "start"), Place{Other, false, Frame{Func: "park"}, WaitTimer}},
		{of("", "park", "start"), Place{Other, false, Frame{Func: "park"}, WaitUnknown}}, // a rule of states alone needs a state
		{of(""), Place{Where: Other, Wait: WaitUnknown}},
	} {
		got := testRules.Locate(tt.s)
		got.Frame = Frame{Func: got.Frame.Func}
		if got != tt.want {
			t.Errorf("%+v is at %+v, want %+v", tt.s, got, tt.want)
		}
	}
}

func count(axis Axis, all ...Stack) *Tally {
	t := NewTally(&testRules, axis)
	for i, s := range all {
		t.Add(s, []byte(fmt.Sprint(i)))
	}
	return t
}

func TestTallyByEachAxis(t *testing.T) {
	idle, reading, other := of("waiting", "park", "take", "work"), of("running", "read", "do", "work"), of("waiting", "f", "start")
	idle.Count = 3
	other.CreatedBy = Frame{Func: "main"}
	all := []Stack{idle, reading, of("waiting", "read2", "do", "work"), other}
	for _, tt := range []struct {
		axis Axis
		want []Group
	}{
		{ByPlace, []Group{
			{Where: Idle, Wait: WaitIdle, State: "waiting", Frame: "take", Count: 3, Stacks: 1, Example: "0"},
			{Where: Other, Wait: WaitUnknown, State: "waiting", Frame: "f", CreatedBy: "main", Count: 1, Stacks: 1, Example: "3"},
			{Where: UpstreamRead, Wait: WaitRead, State: "running", Frame: "do", Count: 1, Stacks: 1, Example: "1"},
			{Where: UpstreamRead, Wait: WaitRead, State: "waiting", Frame: "do", Count: 1, Stacks: 1, Example: "2"},
		}},
		{ByFrame, []Group{
			{Where: Idle, Wait: WaitIdle, State: "waiting", Frame: "take", Count: 3, Stacks: 1, Example: "0"},
			{Where: UpstreamRead, Wait: WaitRead, Frame: "do", Count: 2, Stacks: 2, Example: "1"},
			{Where: Other, Wait: WaitUnknown, State: "waiting", Frame: "f", CreatedBy: "main", Count: 1, Stacks: 1, Example: "3"},
		}},
		{ByState, []Group{
			{State: "waiting", Count: 5, Stacks: 3, Example: "0"},
			{Where: UpstreamRead, Wait: WaitRead, State: "running", Frame: "do", Count: 1, Stacks: 1, Example: "1"},
		}},
		{ByCreator, []Group{
			{Count: 5, Stacks: 3, Example: "0"},
			{Where: Other, Wait: WaitUnknown, State: "waiting", Frame: "f", CreatedBy: "main", Count: 1, Stacks: 1, Example: "3"},
		}},
	} {
		t.Run(string(tt.axis), func(t *testing.T) {
			got := count(tt.axis, all...).Groups()
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(Group{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := len(count(ByStack, all...).Groups()); got != 4 {
		t.Errorf("%d groups by stack, want 4", got)
	}
	if got := len(count(ByWait, all...).Groups()); got != 3 {
		t.Errorf("%d groups by wait, want 3", got)
	}
}

// The words count the workers where a pool is known, and everyone elsewhere.
func TestWhereCountsWorkersOrEveryone(t *testing.T) {
	serving := of("waiting", "sql.query", "serve")
	for _, tt := range []struct {
		name string
		all  []Stack
		want map[string]int
	}{
		{"workers", []Stack{of("", "take", "work"), of("", "await"), serving}, map[string]int{Idle: 1, Queued: 1}},
		{"a pool without a worker that a rule fits", []Stack{of("", "f", "work"), serving}, map[string]int{}},
		{"no pool", []Stack{serving, of("", "f")}, map[string]int{Database: 1, Other: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := count(ByPlace, tt.all...).Where()
			if len(got) != len(Wheres()) {
				t.Errorf("%d words", len(got))
			}
			maps.DeleteFunc(got, func(_ string, n int) bool { return n == 0 })
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever is counted, the groups hold all of it, and no more than the limit.
func TestTallyIsBounded(t *testing.T) {
	tally := NewTally(&testRules, ByFrame)
	const all = maxGroups + 1000
	for i := range all {
		tally.Add(of("", fmt.Sprintf("f%d", i)), nil)
	}
	groups := tally.Groups()
	members := 0
	for _, g := range groups {
		members += g.Count
	}
	if members != all || len(groups) != maxGroups+1 || !groups[0].Rest || groups[0].Count != 1000 {
		t.Errorf("%d members in %d groups, the first %+v", members, len(groups), groups[0])
	}
	if len(tally.known) > maxKnown {
		t.Errorf("%d places remembered", len(tally.known))
	}
}

func TestTimeline(t *testing.T) {
	idle, reading, same := of("", "take", "work"), of("", "read", "do", "work"), of("", "f")
	before := count(ByPlace, append(slices.Repeat([]Stack{idle}, 10), same)...).Groups()
	during := count(ByPlace, append(slices.Repeat([]Stack{reading}, 200), same)...).Groups()
	rows := Timeline(before, during, before)
	var got [][]int
	for _, r := range rows {
		got = append(got, r.Counts)
	}
	if diff := cmp.Diff([][]int{{0, 200, 0}, {10, 0, 10}, {1, 1, 1}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	changed := Changes(rows, 0, 1)
	if len(changed) != 2 || changed[0].Where != UpstreamRead || changed[1].Where != Idle {
		t.Errorf("changes %+v", changed)
	}
	if got := Changes(rows, 0, 2); len(got) != 0 {
		t.Errorf("a dump differs from itself: %+v", got)
	}
	if rows := Timeline(count(ByStack, idle).Groups(), count(ByStack, idle).Groups()); len(rows) != 1 {
		t.Errorf("one stack in two dumps is %d rows", len(rows))
	}
}
