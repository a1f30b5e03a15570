package deadconn

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/matrix/matrixtest"
	"chokepoint/internal/profile"
	"chokepoint/internal/result"
)

// byDefault are the settings without a flag.
func byDefault(t *testing.T) Settings {
	t.Helper()
	var s Settings
	s.Bind(flag.NewFlagSet("", flag.ContinueOnError))
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWhatIsWanted holds the matrix to what was committed: testdata/wants.txt has a line
// for each cell. A line that changes takes an ADR with the packets that say why; there is
// no flag that writes the file anew.
func TestWhatIsWanted(t *testing.T) { matrixtest.HoldToWants(t, Cases(byDefault(t))) }

func TestEveryCellIsWhole(t *testing.T) {
	s := byDefault(t)
	keys := map[string]bool{}
	faults := map[string]string{}
	for _, c := range Cases(s) {
		key := matrix.Key(c.Case)
		if keys[key] {
			t.Errorf("two cells are %s", key)
		}
		keys[key] = true
		if c.Group == "" || c.Title == "" || c.Why == "" || c.Fault == "" || c.Run == nil {
			t.Errorf("%s lacks a group, a title, a reason, a fault or a way to be carried out: %+v", key, c.Case)
		}
		if (c.Defence == result.DefenceNone) != (c.Settings == "") {
			t.Errorf("%s: its settings are %q", key, c.Settings)
		}
		faults[c.ID] += "|" + c.Fault
	}
	for _, r := range rows {
		for col := range r.wants {
			connections := r.defence.forADeviceOf(s.DeviceIdle)
			connections.Client = col.client
			if err := connections.Validate(); err != nil {
				t.Errorf("%s %s: %v", r.id, r.defence.name, err)
			}
		}
	}
	// A report compares the cells of one fault: B1 to B4 are A2 with defences, H3 is H1.
	for _, same := range []string{"B1", "B1a", "B2", "B2n", "B3", "B4", "C1", "U"} {
		if first(faults[same]) != first(faults["A2"]) {
			t.Errorf("the fault of %s is %q, and that of A2 %q", same, first(faults[same]), first(faults["A2"]))
		}
	}
	if first(faults["H3"]) != first(faults["H1"]) || first(faults["H1"]) == first(faults["B5"]) {
		t.Errorf("faults of H1 %q, H3 %q, B5 %q", first(faults["H1"]), first(faults["H3"]), first(faults["B5"]))
	}
}

func first(faults string) string { return strings.Split(faults, "|")[1] }

// TestTheVictimKnowsTheFlags: a setting that the victim does not know would end it.
func TestTheVictimKnowsTheFlags(t *testing.T) {
	s := byDefault(t)
	for _, r := range rows {
		for col := range r.wants {
			var chosen profile.Flags
			fs := flag.NewFlagSet("victim", flag.ContinueOnError)
			chosen.Bind(fs)
			c := cell{s: s, row: r, col: col}
			if err := fs.Parse(c.connectionArgs()); err != nil {
				t.Fatalf("%s %s: %v", r.id, r.defence.name, err)
			}
			p, err := chosen.Profile()
			if err != nil {
				t.Fatalf("%s %s: %v", r.id, r.defence.name, err)
			}
			want := r.defence.forADeviceOf(s.DeviceIdle)
			if p.Connections.KeepAlive != want.KeepAlive || p.Connections.EvictIdle != want.EvictIdle || p.Connections.Client != col.client ||
				p.Connections.ResponseTimeout != r.timeoutIn(s) || p.Timeout != 0 || p.Permits != 0 {
				t.Errorf("%s %s: the victim understands %+v", r.id, r.defence.name, p)
			}
		}
	}
}

// TestTimesFollowTheSettings: what is the timeout's or the device's scales, what is the
// kernel's does not.
func TestTimesFollowTheSettings(t *testing.T) {
	s := byDefault(t)
	s.DeviceIdle, s.Rest, s.Timeout = 10*time.Second, 12*time.Second, 10*time.Second
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := Build(text)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]string{}
	for _, c := range cases {
		of[matrix.Key(c.Case)] = c.Want + "; " + c.Settings
	}
	for key, part := range map[string]string{
		"A2 net/http GET none":                             "9.95 to 10.70 s",
		"C6 fasthttp GET library_retry":                    "39.95 to 40.70 s",
		"L net/http POST keepalive":                        "4.05 to 4.80 s",
		"U net/http POST user_timeout=500ms,library_retry": "0.87 to 1.62 s",
		"B2 net/http POST evict":                           "-evict-idle=4.66",
		"B4 net/http POST keepalive":                       "-keepalive=1s/1s/3",
		"B3 net/http POST keepalive_default":               "-keepalive=15s/15s/9",
	} {
		if !strings.Contains(of[key], part) {
			t.Errorf("%s: %q has no %q", key, of[key], part)
		}
	}
}

func TestWhatIsMet(t *testing.T) {
	s := byDefault(t)
	e := timesOut(1, 0).was(forgotten).leaves(gaveUp)
	right := seen{outcome: responseTimeout, connection: onReused, attempts: 1, took: s.Timeout + time.Millisecond, before: forgotten, after: gaveUp}
	const states = ", before client ESTABLISHED, before server ESTABLISHED, before conntrack none, after client FIN_WAIT1, after server ESTABLISHED, after conntrack none"
	if got, want := e.want(s), "response timeout, 0 handler runs, 2.95 to 3.70 s"+states; got != want {
		t.Errorf("want reads %q, not %q", got, want)
	}
	if got, want := e.got(right), "response timeout, 0 handler runs, 3.001 s"+states; got != want {
		t.Errorf("got reads %q, not %q", got, want)
	}
	for _, tc := range []struct {
		name string
		e    expect
		set  func(*seen)
		met  bool
	}{
		{"as wanted", e, func(*seen) {}, true},
		{"another outcome", e, func(v *seen) { v.outcome = eof }, false},
		{"the handler ran", e, func(v *seen) { v.runs = 1 }, false},
		{"too early", e, func(v *seen) { v.took = s.Timeout - 2*early }, false},
		{"too late", e, func(v *seen) { v.took = s.Timeout + 2*late }, false},
		{"the device remembers", e, func(v *seen) { v.before.conntrack = "ESTABLISHED" }, false},
		{"the server has noticed", e, func(v *seen) { v.after.server = "CLOSE_WAIT" }, false},
		{"what is not judged", e, func(v *seen) { v.connection, v.attempts = onNew, 7 }, true},
		{"another connection", kept(), func(v *seen) { *v = seen{outcome: got200, connection: onNew, attempts: 1, runs: 1} }, false},
		{"more attempts", kept(), func(v *seen) { *v = seen{outcome: got200, connection: onReused, attempts: 2, runs: 1} }, false},
		{"the one of two", fails(refused, 1).orElse(connReset), func(v *seen) { *v = seen{outcome: refused, runs: 1} }, true},
		{"the other of two", fails(refused, 1).orElse(connReset), func(v *seen) { *v = seen{outcome: connReset, runs: 1} }, true},
		{"neither of two", fails(refused, 1).orElse(connReset), func(v *seen) { *v = seen{outcome: eof, runs: 1} }, false},
		{"no outcome", fails(refused, 1), func(v *seen) { *v = seen{runs: 1} }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := right
			tc.set(&v)
			if got := tc.e.met(s, v); got != tc.met {
				t.Errorf("met: %v; want %s, got %s", got, tc.e.want(s), tc.e.got(v))
			}
		})
	}
}

func TestWhatSettingsAreRefused(t *testing.T) {
	for _, tc := range []struct{ flags, want string }{
		{"-device-idle 2s", "-device-idle 2s: want 3s to 14s"},
		{"-device-idle 3500ms", "-device-idle 3.5s: want whole seconds"},
		{"-device-idle 20s -rest 22s", "-device-idle 20s: want 3s to 14s: from 15s on Go's own keepalive"},
		{"-device-idle 10s", "-rest 4s: want 11s to 10m0s: at least 1s longer than the device remembers (-device-idle 10s)"},
		{"-rest 3500ms", "-rest 3.5s: want 4s to 10m0s"},
		{"-timeout 1s", "-timeout 1s: want 3s to 10m0s"},
		{"-parallel 0", "-parallel 0: want 1 to 256"},
	} {
		var s Settings
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		s.Bind(fs)
		if err := fs.Parse(strings.Fields(tc.flags)); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: %v; want %q", tc.flags, err, tc.want)
		}
	}
}

func TestEffectiveSettingsAreNotTheRequest(t *testing.T) {
	s := byDefault(t)
	if got := fmt.Sprint(s.Effective()["device-idle"], " ", s.Effective()["rest"], " ", s.Effective()["timeout"]); got != "3s 4s 3s" {
		t.Errorf("effective: %s", got)
	}
}
