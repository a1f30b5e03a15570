package profile

import (
	"flag"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestConnectionsValidate(t *testing.T) {
	for _, test := range []struct {
		name string
		set  Connections
		want string // empty: accepted
	}{
		{"nothing set", Connections{}, ""},
		{"all of them", Connections{Client: ClientNetHTTP, ResponseTimeout: 1, StaleCheck: StalePeek, StaleCheckAfter: 1, MaxIdleAge: 1, EvictIdle: 1, EvictNotRunning: true,
			KeepAlive: goKeepAlive, UserTimeout: 1, Retry: RetryAll, RetryAttempts: 9, RetryFresh: true}, ""},
		{"the library's number", Connections{Retry: RetryLibrary, RetryAttempts: 64}, ""},
		{"client", Connections{Client: "curl"}, `unknown client "curl"; choose one of fasthttp, net/http`},
		{"stale check", Connections{StaleCheck: "ping"}, `unknown stale check "ping"; choose one of off, peek, tcp_info, read`},
		{"a read beside a reader", Connections{Client: ClientNetHTTP, StaleCheck: StaleRead}, "stale check read cannot be had with net/http"},
		{"a window of no check", Connections{StaleCheckAfter: time.Second}, "stale check after 1s without a stale check"},
		{"a window of a check that is off", Connections{StaleCheck: StaleOff, StaleCheckAfter: time.Second}, "stale check after 1s without a stale check"},
		{"an eviction at no time", Connections{EvictNotRunning: true}, "set -evict-idle"},
		{"negative", Connections{MaxIdleAge: -time.Second}, "max idle age -1s is negative; use 0 for none"},
		{"negative response timeout", Connections{ResponseTimeout: -1}, "response timeout -1ns is negative"},
		{"half a keepalive", Connections{KeepAlive: KeepAlive{Idle: time.Second}}, "keepalive 1s/0s/0: all three parts must be above zero"},
		{"negative keepalive", Connections{KeepAlive: KeepAlive{1, -1, 1}}, "keepalive interval -1ns is negative"},
		{"retry", Connections{Retry: "always"}, `unknown retry policy "always"; choose one of off, library, stale, idempotent, idempotency-key, all`},
		{"negative attempts", Connections{Retry: RetryAll, RetryAttempts: -1}, "retry attempts -1 is negative"},
		{"attempts of no policy", Connections{RetryAttempts: 3}, "retry attempts 3 without a retry policy"},
		{"attempts of off", Connections{Retry: RetryOff, RetryAttempts: 3}, "retry attempts 3 without a retry policy"},
		{"attempts of net/http", Connections{Client: ClientNetHTTP, Retry: RetryLibrary, RetryAttempts: 3}, "retry attempts 3: net/http has no such number"},
		{"fresh of no policy", Connections{RetryFresh: true}, "needs a retry policy of ours"},
		{"fresh of the library", Connections{Retry: RetryLibrary, RetryFresh: true}, "needs a retry policy of ours"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := Profile{Name: "mine", Connections: test.set}.Validate()
			switch {
			case test.want == "" && err != nil:
				t.Errorf("%v, want it accepted", err)
			case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "profile mine: ") || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestParseKeepAlive(t *testing.T) {
	for text, want := range map[string]KeepAlive{"off": {}, "15s/15s/9": goKeepAlive, "1s/500ms/3": {time.Second, 500 * time.Millisecond, 3}} {
		got, err := ParseKeepAlive(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "on", "0", "15s", "15s/15s", "15/15/9", "15s/15s/x", "0s/1s/1", "1s/1s/0", "-1s/1s/1", "1s/1s/1/1"} {
		if k, err := ParseKeepAlive(text); err == nil || !strings.Contains(err.Error(), "want IDLE/INTERVAL/COUNT") {
			t.Errorf("%q: %v, %v; want an error with the form", text, k, err)
		}
	}
}

// Every duration scales; a new one that does not would be found here.
func TestConnectionsScaled(t *testing.T) {
	var c, want Connections
	durations := 0
	var fill func(v, w reflect.Value)
	fill = func(v, w reflect.Value) {
		for i := range v.NumField() {
			switch f := v.Field(i); {
			case f.Type() == reflect.TypeFor[time.Duration]():
				durations++
				f.SetInt(int64(durations) * int64(time.Second))
				w.Field(i).SetInt(int64(durations) * int64(time.Second/10))
			case f.Kind() == reflect.Struct:
				fill(f, w.Field(i))
			}
		}
	}
	fill(reflect.ValueOf(&c).Elem(), reflect.ValueOf(&want).Elem())
	if durations != 7 {
		t.Errorf("%d durations, want 7", durations)
	}
	if diff := cmp.Diff(want, Profile{Connections: c}.Scaled(0.1).Connections); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestDefences(t *testing.T) {
	for _, d := range Defences() {
		if d.Summary == "" {
			t.Errorf("%s has no summary", d.Name)
		}
		for _, client := range []Client{ClientFastHTTP, ClientNetHTTP} {
			got, err := Connections{Client: client, StaleCheck: StaleTCPInfo}.Defend(d.Name)
			if err == nil {
				err = got.Validate()
			}
			if err != nil || got.Client != client || got.StaleCheck == StaleTCPInfo {
				t.Errorf("%s: %+v, %v; want defences of its own for %s", d.Name, got, err, client)
			}
			if (got == Connections{Client: client}) != (d.Name == "none") {
				t.Errorf("%s sets %+v", d.Name, got)
			}
		}
	}
	// The recommendation writes nothing twice, and keeps below a minute's idle timeout.
	r, err := Connections{}.Defend("recommended")
	if err != nil || !slices.Contains([]Retry{RetryOff, RetryStale, RetryIdempotent, RetryIdempotencyKey}, r.Retry) || r.EvictIdle >= time.Minute || r.EvictNotRunning {
		t.Errorf("recommended: %+v, %v", r, err)
	}
	both, err := Connections{}.Defend("keepalive,stale_check")
	want := Connections{StaleCheck: StalePeek, KeepAlive: KeepAlive{15 * time.Second, 5 * time.Second, 3}}
	if diff := cmp.Diff(want, both); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for _, names := range []string{"", "all", "evict,", "evict, keepalive"} {
		if _, err := (Connections{}).Defend(names); err == nil || !strings.Contains(err.Error(), "choose of none, stale_check") {
			t.Errorf("%q: %v, want the names", names, err)
		}
	}
}

// A defence takes the place of the profile's own, wherever it stands, and a single
// setting is put over it.
func TestDefenceFlag(t *testing.T) {
	fixed := lookup(t, "fixed").Connections
	for _, test := range []struct {
		args string
		want Connections
	}{
		{"", fixed},
		{"-client=net/http", Connections{Client: ClientNetHTTP, StaleCheck: fixed.StaleCheck, KeepAlive: fixed.KeepAlive}},
		{"-defence=none", Connections{}},
		{"-evict-idle=1.4s -defence=evict -client=fasthttp", Connections{Client: ClientFastHTTP, EvictIdle: 1400 * time.Millisecond}},
		{"-defence=none -stale-check", Connections{StaleCheck: StalePeek}},
		{"-stale-check=tcp_info -keepalive=off", Connections{StaleCheck: StaleTCPInfo}},
		{"-stale-check=false", Connections{StaleCheck: StaleOff, KeepAlive: fixed.KeepAlive}},
		{"-profile=anti -response-timeout=3s -retry=idempotent -retry-attempts=4 -retry-fresh -max-idle-age=2500ms -user-timeout=1s -stale-check -stale-check-after=2s",
			Connections{ResponseTimeout: 3 * time.Second, Retry: RetryIdempotent, RetryAttempts: 4, RetryFresh: true, MaxIdleAge: 2500 * time.Millisecond,
				UserTimeout: time.Second, StaleCheck: StalePeek, StaleCheckAfter: 2 * time.Second}},
	} {
		f, err := bind(strings.Fields(test.args))
		if err != nil {
			t.Fatal(err)
		}
		p, err := f.Profile()
		if diff := cmp.Diff(test.want, p.Connections); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got)\n%s", test.args, err, diff)
		}
	}
	for args, want := range map[string]string{
		"-defence=hope":        `unknown defence "hope"`,
		"-client=curl":         `unknown client "curl"`,
		"-keepalive=1s":        "want IDLE/INTERVAL/COUNT",
		"-stale-check=perhaps": `unknown stale check "perhaps"`,
		"-retry=always":        `unknown retry policy "always"`,
	} {
		f, err := bind([]string{args})
		if err == nil {
			_, err = f.Profile()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// Settings has each flag of Connections, and no other.
func TestSettingsNameTheFlags(t *testing.T) {
	var f Flags
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	f.bindConnections(fs)
	var flags, settings []string
	fs.VisitAll(func(f *flag.Flag) {
		if f.Name != "defence" {
			flags = append(flags, f.Name)
		}
	})
	for name, value := range (Connections{}).Settings() {
		settings = append(settings, name)
		if err := fs.Set(name, value); err != nil {
			t.Errorf("-%s=%s: %v", name, value, err)
		}
	}
	slices.Sort(settings)
	if diff := cmp.Diff(flags, settings); diff != "" {
		t.Errorf("(-flags +settings)\n%s", diff)
	}
}
