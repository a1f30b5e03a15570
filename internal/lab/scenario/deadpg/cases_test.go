package deadpg

import (
	"context"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/result"
)

var (
	defaults = Settings{DeviceIdle: 3 * time.Second, Rest: 4 * time.Second, Timeout: 3 * time.Second}
	asSeed   = Settings{DeviceIdle: 10 * time.Second, Rest: 12 * time.Second, Timeout: 10 * time.Second}
	patient  = Settings{DeviceIdle: 3 * time.Second, Rest: 4 * time.Second, Timeout: 20 * time.Second}
)

func straight(_ context.Context, start func() error) error { return start() }

func TestEveryCaseIsToldAndApart(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases(defaults, straight) {
		if key := matrix.Key(c.Case); seen[key] {
			t.Errorf("two cases %q", key)
		} else {
			seen[key] = true
		}
		for what, text := range map[string]string{"title": c.Title, "fault": c.Fault, "want": c.Want, "why": c.Why} {
			if text == "" {
				t.Errorf("case %s has no %s", matrix.Key(c.Case), what)
			}
		}
		if (c.Defence == result.DefenceNone) != (c.Settings == "") {
			t.Errorf("case %s: its settings are %q", matrix.Key(c.Case), c.Settings)
		}
		if !strings.HasPrefix(c.ID, "PG-") || c.Client != result.ClientPgx || c.Length < youngRest {
			t.Errorf("case %+v", c)
		}
	}
	if len(seen) != len(rows) || len(seen) < 15 {
		t.Errorf("%d cases of %d rows", len(seen), len(rows))
	}
}

// TestWantsFollowTheSettings: times that are the device's or the asker's are in terms
// of theirs.
func TestWantsFollowTheSettings(t *testing.T) {
	find := func(s Settings, id, defence string) result.Case {
		t.Helper()
		for _, c := range Cases(s, straight) {
			if c.ID == id && c.Defence == defence {
				return c.Case
			}
		}
		t.Fatalf("no case %s %s", id, defence)
		return result.Case{}
	}
	const held = ", before client ESTABLISHED, before server ESTABLISHED, before conntrack none"
	const after = ", after client ESTABLISHED, after server ESTABLISHED, after conntrack none"
	for _, tc := range []struct {
		s           Settings
		id, defence string
		want        string
	}{
		{defaults, "PG-drop", "none", "no answer, 2.95 to 4.20 s" + held + after},
		{asSeed, "PG-drop", "none", "no answer, 9.95 to 11.20 s" + held + after},
		{defaults, "PG-drop", "ping_timeout=1s", "no answer, 2.95 to 4.20 s" + held},
		{patient, "PG-drop", "ping_timeout=1s", "200, new connection, 15.95 to 17.20 s" + held},
		{asSeed, "PG-drop-young", "user_timeout=1s", "500 ETIMEDOUT, 1.39 to 2.64 s" + held},
		{asSeed, "PG-reset-young", "none", "500 ECONNRESET, 0.00 to 1.20 s" + held},
	} {
		if got := find(tc.s, tc.id, tc.defence).Want; got != tc.want {
			t.Errorf("%s %s:\ngot  %s\nwant %s", tc.id, tc.defence, got, tc.want)
		}
	}
	for s, want := range map[Settings]string{defaults: "-db-keepalive=1s/1s/3", {DeviceIdle: 9 * time.Second}: "-db-keepalive=3s/1s/3"} {
		if got := find(s, "PG-drop", "keepalive").Settings; got != want {
			t.Errorf("keepalive for a device of %v: %s, want %s", s.DeviceIdle, got, want)
		}
	}
}

func TestMet(t *testing.T) {
	want := expect{outcome: got200, connection: onNew, at: time.Second, before: forgotten, after: ends{conntrack: established}}
	good := seen{outcome: got200, connection: onNew, took: 1100 * time.Millisecond, before: forgotten, after: ends{established, established, established}}
	if !want.met(defaults, good) {
		t.Fatalf("%+v does not meet %+v", good, want)
	}
	for name, spoil := range map[string]func(*seen){
		"outcome":    func(v *seen) { v.outcome = noAnswer },
		"connection": func(v *seen) { v.connection = onReused },
		"too early":  func(v *seen) { v.took = 900 * time.Millisecond },
		"too late":   func(v *seen) { v.took = 2300 * time.Millisecond },
		"before":     func(v *seen) { v.before.conntrack = established },
		"after":      func(v *seen) { v.after.conntrack = nothing },
	} {
		v := good
		spoil(&v)
		if want.met(defaults, v) {
			t.Errorf("another %s is as wanted", name)
		}
	}
	const got = "200, new connection, 1.100 s, before client ESTABLISHED, before server ESTABLISHED, before conntrack none, after conntrack ESTABLISHED"
	if text := want.got(good); text != got {
		t.Errorf("got  %s\nwant %s", text, got)
	}
}
