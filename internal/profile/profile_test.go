package profile

import (
	"flag"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func lookup(t *testing.T, name string) Profile {
	t.Helper()
	p, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLookup(t *testing.T) {
	names := []string{"anti", "timeout", "bulkhead", "fixed", "breaker", "shed", "cancel", "unbounded"}
	if diff := cmp.Diff(names, Names()); diff != "" {
		t.Errorf("names (-want +got)\n%s", diff)
	}
	// The table of DESIGN section 4.
	timeout, permits, wait := 2*time.Second, 20, 100*time.Millisecond
	defended := Connections{StaleCheck: StalePeek, KeepAlive: KeepAlive{15 * time.Second, 15 * time.Second, 9}}
	for _, want := range []Profile{
		{Name: "anti", Expect: Reproduced},
		{Name: "timeout", Timeout: timeout, Expect: Protected},
		{Name: "bulkhead", Permits: permits, PermitWait: wait, Expect: Protected},
		{Name: "fixed", Timeout: timeout, Permits: permits, PermitWait: wait, Connections: defended, Expect: Protected},
		{Name: "breaker", Timeout: timeout, Permits: permits, PermitWait: wait, BreakerFailures: 6, BreakerOpenFor: 10 * time.Second, Connections: defended, Expect: Protected},
		{Name: "shed", MaxQueue: 50, MaxQueueWait: time.Second, Expect: Reproduced},
		{Name: "cancel", SkipAbandoned: true, Expect: Reproduced},
		{Name: "unbounded", Unbounded: true, Expect: Protected},
	} {
		t.Run(want.Name, func(t *testing.T) {
			got := lookup(t, want.Name)
			if got.Summary == "" {
				t.Error("no summary")
			}
			got.Summary = ""
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if err := got.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
	if got := lookup(t, Default); got.Expect != Protected {
		t.Errorf("the default, %s, is expected to be %s", got.Name, got.Expect)
	}
	want := `unknown profile "Anti"; choose one of ` + strings.Join(names, ", ")
	if _, err := Lookup("Anti"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(*Profile)
		want string // empty: accepted
	}{
		{"nothing set", func(*Profile) {}, ""},
		{"permits that are never waited for", func(p *Profile) { p.Permits = 1 }, ""},
		{"a breaker without a bulkhead", func(p *Profile) { p.BreakerFailures, p.BreakerOpenFor = 1, 1 }, ""},
		{"unbounded with a guard", func(p *Profile) { p.Unbounded, p.Timeout, p.Permits = true, time.Second, 20 }, ""},
		{"negative timeout", func(p *Profile) { p.Timeout = -time.Second }, "timeout -1s is negative; use 0 for none"},
		{"negative permits", func(p *Profile) { p.Permits = -2 }, "permits -2 is negative; use 0 for no bulkhead"},
		{"negative permit wait", func(p *Profile) { p.Permits, p.PermitWait = 1, -3 }, "permit wait -3ns is negative"},
		{"negative failures", func(p *Profile) { p.BreakerFailures = -4 }, "breaker failures -4 is negative; use 0 for no breaker"},
		{"a breaker that never stays open", func(p *Profile) { p.BreakerFailures = 6 }, "breaker open time 0s must be above zero"},
		{"negative queue", func(p *Profile) { p.MaxQueue = -5 }, "max queue -5 is negative; use 0 for unbounded"},
		{"negative queue wait", func(p *Profile) { p.MaxQueueWait = -time.Minute }, "max queue wait -1m0s is negative; use 0 for unbounded"},
		{"a bound on no queue", func(p *Profile) { p.Unbounded, p.MaxQueue = true, 1 }, "unbounded has no queue"},
		{"a bound on the wait in no queue", func(p *Profile) { p.Unbounded, p.MaxQueueWait = true, 1 }, "unbounded has no queue"},
		{"skipping in no queue", func(p *Profile) { p.Unbounded, p.SkipAbandoned = true, true }, "unbounded has no queue"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := Profile{Name: "mine"}
			test.set(&p)
			err := p.Validate()
			switch {
			case test.want == "" && err != nil:
				t.Errorf("%v, want it accepted", err)
			case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "profile mine: "+test.want)):
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestScaled(t *testing.T) {
	p := lookup(t, "breaker")
	p.MaxQueue, p.MaxQueueWait = 50, time.Second
	before := p
	want := p
	want.Timeout, want.PermitWait, want.BreakerOpenFor, want.MaxQueueWait =
		580*time.Millisecond, 29*time.Millisecond, 2900*time.Millisecond, 290*time.Millisecond
	want.Connections.KeepAlive = KeepAlive{4350 * time.Millisecond, 4350 * time.Millisecond, 9}
	// 0.29 is not exact in binary: 100 ms come out just under 29 ms.
	if diff := cmp.Diff(want, p.Scaled(0.29)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(before, p.Scaled(1)); diff != "" {
		t.Errorf("scale 1 (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(before, p); diff != "" {
		t.Errorf("scaling changed the profile itself\n%s", diff)
	}
}

// bind parses args into flags of their own.
func bind(args []string) (*Flags, error) {
	var f Flags
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	f.Bind(fs)
	return &f, fs.Parse(args)
}

func TestFlags(t *testing.T) {
	with := func(name string, set func(*Profile)) Profile {
		p := lookup(t, name)
		set(&p)
		return p
	}
	for _, test := range []struct {
		name string
		args string
		want Profile
		rest string // what Args spells
	}{
		{"nothing is said", "", lookup(t, "fixed"), "-profile=fixed"},
		{"a name", "-profile anti", lookup(t, "anti"), "-profile=anti"},
		{"every setting", "-profile=anti -timeout 3s -permits=4 -permit-wait=5ms -breaker-failures=6 -breaker-open-for=7s -max-queue=8 -max-queue-wait=9s -skip-abandoned",
			Profile{Name: "anti", Summary: lookup(t, "anti").Summary, Expect: Reproduced, Timeout: 3 * time.Second, Permits: 4, PermitWait: 5 * time.Millisecond,
				BreakerFailures: 6, BreakerOpenFor: 7 * time.Second, MaxQueue: 8, MaxQueueWait: 9 * time.Second, SkipAbandoned: true},
			"-profile=anti -timeout=3s -permits=4 -permit-wait=5ms -breaker-failures=6 -breaker-open-for=7s -max-queue=8 -max-queue-wait=9s -skip-abandoned=true"},
		{"a setting before the name", "-timeout=0 -profile=fixed", with("fixed", func(p *Profile) { p.Timeout = 0 }), "-profile=fixed -timeout=0"},
		{"a protection is switched off", "-profile=unbounded -unbounded=false", with("unbounded", func(p *Profile) { p.Unbounded = false }), "-profile=unbounded -unbounded=false"},
		{"the last one wins", "-permits=3 -permits=7", with("fixed", func(p *Profile) { p.Permits = 7 }), "-profile=fixed -permits=3 -permits=7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := bind(strings.Fields(test.args))
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.Profile()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if args := strings.Join(f.Args(), " "); args != test.rest {
				t.Errorf("args %q, want %q", args, test.rest)
			}
		})
	}
}

func TestFlagsRefuse(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"-profile=mine", `unknown profile "mine"`},
		{"-permits=many", `invalid value "many" for flag -permits`},
		{"-timeout=2", `invalid value "2" for flag -timeout`},
		{"-skip-abandoned=perhaps", `invalid boolean value "perhaps" for -skip-abandoned`},
		{"-timeout=-1s", "timeout -1s is negative"},
		{"-profile=unbounded -max-queue=5", "unbounded has no queue"},
		{"-breaker-failures=3", "breaker open time 0s"},
	} {
		t.Run(test.args, func(t *testing.T) {
			f, err := bind(strings.Fields(test.args))
			if err == nil {
				_, err = f.Profile()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// A child process that is given Args has the profile of its parent.
func TestArgsRoundTrip(t *testing.T) {
	settings := map[string]func(t *rapid.T) string{
		"timeout":          duration,
		"permits":          number,
		"permit-wait":      duration,
		"breaker-failures": number,
		"breaker-open-for": duration,
		"max-queue":        number,
		"max-queue-wait":   duration,
		"skip-abandoned":   boolean,
		"unbounded":        boolean,

		"client":            oneFrom("fasthttp", "net/http", "curl"),
		"response-timeout":  duration,
		"stale-check":       oneFrom("peek", "tcp_info", "read", "off", "true", "false", "x"),
		"stale-check-after": duration,
		"max-idle-age":      duration,
		"evict-idle":        duration,
		"evict-not-running": boolean,
		"keepalive":         oneFrom("off", "15s/15s/9", "1s/500ms/3"),
		"user-timeout":      duration,
		"retry":             oneFrom("off", "library", "stale", "idempotent", "idempotency-key", "all", "x"),
		"retry-attempts":    number,
		"retry-fresh":       boolean,
		"defence":           oneFrom("none", "evict", "stale_check,keepalive", "recommended", "x"),
	}
	names := slices.Sorted(maps.Keys(settings))
	rapid.Check(t, func(t *rapid.T) {
		args := []string{"-profile=" + rapid.SampledFrom(Names()).Draw(t, "profile")}
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 6).Draw(t, "settings") {
			args = append(args, "-"+name+"="+settings[name](t))
		}
		parent, err := bind(args)
		if err != nil {
			t.Fatal(err)
		}
		child, err := bind(parent.Args())
		if err != nil {
			t.Fatal(err)
		}
		want, wantErr := parent.Profile()
		got, gotErr := child.Profile()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-parent +child)\n%s", args, diff)
		}
		if (wantErr == nil) != (gotErr == nil) || wantErr != nil && wantErr.Error() != gotErr.Error() {
			t.Errorf("%q: the parent says %v, the child %v", args, wantErr, gotErr)
		}
	})
}

func duration(t *rapid.T) string {
	return time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "duration")).String()
}
func number(t *rapid.T) string { return strconv.Itoa(rapid.IntRange(0, 500).Draw(t, "number")) }
func oneFrom(values ...string) func(t *rapid.T) string {
	return func(t *rapid.T) string { return rapid.SampledFrom(values).Draw(t, "value") }
}
func boolean(t *rapid.T) string { return strconv.FormatBool(rapid.Bool().Draw(t, "boolean")) }
