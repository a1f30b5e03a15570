package spread

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/evidence/queueing"
	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/matrix/matrixtest"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/profile"
)

func byDefault(t *testing.T) Settings {
	t.Helper()
	var s Settings
	fs := flag.NewFlagSet("spread", flag.ContinueOnError)
	s.Bind(fs)
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWhatIsWanted holds the cells to what was committed before the run. There is no flag
// that writes the file anew: a line changes with the arithmetic that says why.
func TestWhatIsWanted(t *testing.T) { matrixtest.HoldToWants(t, Cases()) }

func TestEveryCellIsWhole(t *testing.T) {
	keys := map[string]bool{}
	profiles := map[string][]string{}
	for i, described := range Cases() {
		c, key := cells[i], matrix.Key(described.Case)
		if keys[key] {
			t.Errorf("two cells %s", key)
		}
		keys[key] = true
		profiles[c.id] = append(profiles[c.id], c.profile)
		if _, err := profile.Lookup(c.profile); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if c.why == "" || c.predicted == "" || c.want.outcome == "" || len(c.want.bounds) == 0 {
			t.Errorf("%s has no reason, or wants nothing", key)
		}
		if strings.HasSuffix(c.id, "-both") != c.bothSlow && !strings.Contains(c.id, "-both-") {
			t.Errorf("%s: both slow is %v", key, c.bothSlow)
		}
		judged := map[figure]bool{}
		for _, b := range c.want.bounds {
			if figureWords[b.figure].name == "" || judged[b.figure] || b.low > b.high || b.low < 0 {
				t.Errorf("%s: bound %+v", key, b)
			}
			judged[b.figure] = true
		}
	}
	for id, of := range profiles {
		if !slices.Equal(of[:min(len(of), 2)], []string{"anti", "fixed"}) {
			t.Errorf("%s has the profiles %v", id, of)
		}
	}
}

// TestThePublishedLoadIsPredicted: what is wanted of both victims under round robin is
// what the model says of one victim under the published load.
func TestThePublishedLoadIsPredicted(t *testing.T) {
	for _, c := range cells {
		if c.choice != roundRobin || c.handling != waits || !c.bothSlow {
			continue
		}
		p, err := profile.Lookup(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		predicted, err := queueing.Predict(queueing.Config{
			Streams: []queueing.Stream{
				{Name: "fast", Rate: fastRate / 2, Timeout: fastTimeout},
				{Name: "upstream", Rate: upstreamRate / 2, Timeout: upstreamTimeout, CallsUpstream: true},
			},
			Duration: loadFor, GracefulStop: queueing.WaitForAll, Profile: p, PoolMin: minWorkers, PoolMax: maxWorkers,
			Delay: queueing.Constant(slowDelay), DumpAt: []queueing.DumpPoint{{Name: "load", At: dumpAt}}, RecoveryWait: watchFor,
		})
		if err != nil {
			t.Fatal(err)
		}
		v := seen{outcome: c.want.outcome, figures: map[figure]float64{}}
		fast, read := 100*predicted.Endpoints["fast"].FailedRatio.Nominal, predicted.Dumps[0].Where["upstream_read"].Nominal
		for _, f := range []figure{fastFailed, fastFailedOne, fastFailedTwo} {
			v.figures[f] = fast
		}
		v.figures[upstreamFailed] = 100 * predicted.Endpoints["upstream"].FailedRatio.Nominal
		v.figures[shareOne] = 50
		v.figures[readOne], v.figures[readTwo] = read, read
		for _, f := range []figure{idleOne, idleTwo} {
			v.figures[f] = predicted.RecoverySeconds.Nominal
			if predicted.RecoverySeconds.Nominal > watchFor.Seconds() {
				v.figures[f] = never
			}
		}
		if !c.want.met(v) {
			t.Errorf("%s %s: the model says %s; want %s", c.id, c.profile, c.want.got(v), c.want.want())
		}
	}
}

// TestWantAndGotAreInTheSameWords: a reader compares them part by part.
func TestWantAndGotAreInTheSameWords(t *testing.T) {
	e := expect{stays, []bound{{fastFailed, 30, 37}, {readTwo, 0, 10}, {idleOne, never, never}, {idleTwo, 0, 5}}}
	v := seen{stays, map[figure]float64{fastFailed: 33.34, readTwo: 2, idleOne: never, idleTwo: 1.96, fastLate: 12}}
	if got, want := e.want(), "stays, /fast failed 30 to 37 %, workers of two in the upstream read 0 to 10, pool of one idle after never, pool of two idle after 0 to 5 s"; got != want {
		t.Errorf("want is\n%s\nwant\n%s", got, want)
	}
	if got, want := e.got(v), "stays, /fast failed 33.3 %, workers of two in the upstream read 2, pool of one idle after never, pool of two idle after 2 s"; got != want {
		t.Errorf("got is\n%s\nwant\n%s", got, want)
	}
	if !e.met(v) {
		t.Error("not met")
	}
	for name, change := range map[string]func(*seen){
		"another outcome": func(v *seen) { v.outcome = spreads },
		"above":           func(v *seen) { v.figures[fastFailed] = 37.1 },
		"below":           func(v *seen) { v.figures[fastFailed] = 29.9 },
		"idle":            func(v *seen) { v.figures[idleOne] = 19 },
		"not idle":        func(v *seen) { v.figures[idleTwo] = never },
		"not known":       func(v *seen) { delete(v.figures, readTwo) },
	} {
		other := seen{v.outcome, map[figure]float64{}}
		for f, value := range v.figures {
			other.figures[f] = value
		}
		change(&other)
		if e.met(other) {
			t.Errorf("%s is met: %s", name, e.got(other))
		}
	}
}

// TestNginxTakesEveryConfiguration asks nginx itself.
func TestNginxTakesEveryConfiguration(t *testing.T) {
	nginx, err := balancer.Find(t.Context(), balancer.Nginx)
	if err != nil {
		t.Skip(err)
	}
	l := proc.NewLauncher(nil)
	defer l.Close()
	for _, scale := range []float64{minScale, 0.1, 1} {
		for _, c := range cells {
			if c.profile != "anti" {
				continue // the profile is not nginx's
			}
			listen, err := freeAddress()
			if err != nil {
				t.Fatal(err)
			}
			folder := t.TempDir()
			config := c.nginxConfig(Settings{Scale: scale}, listen, "127.0.0.1:9", "127.0.0.1:10")
			if err := nginx.Check(t.Context(), l, balancer.Options{Name: balancerName, Folder: folder, Config: config}); err != nil {
				t.Errorf("%s at scale %v: %v", c.id, scale, err)
			}
			text, err := os.ReadFile(filepath.Join(folder, balancerName+".conf"))
			if err != nil {
				t.Fatal(err)
			}
			for want, is := range map[string]bool{
				"least_conn;":                             c.choice == leastConn,
				"proxy_next_upstream off;":                c.handling == waits,
				"server 127.0.0.1:9 max_fails=0;":         c.handling != ejects,
				"server 127.0.0.1:10 max_fails=1 fail_ti": c.handling == ejects,
			} {
				if strings.Contains(string(text), want) != is {
					t.Errorf("%s at scale %v: %q in the configuration is %v", c.id, scale, want, !is)
				}
			}
		}
	}
}

// TestTimesOfNginx: what nginx counts in whole seconds does not scale below one.
func TestTimesOfNginx(t *testing.T) {
	for scale, want := range map[float64]time.Duration{0.05: time.Second, 0.1: time.Second, 0.25: 3 * time.Second, 1: 10 * time.Second} {
		if got := (Settings{Scale: scale}).failTimeout(); got != want {
			t.Errorf("fail_timeout at %v is %v, want %v", scale, got, want)
		}
	}
	if patience >= fastTimeout || beyondClients <= upstreamTimeout || patience <= 2*time.Second {
		t.Error("nginx's patience is not between that of a victim with a timeout and that of a client")
	}
}

func TestSettingsThatNoRunCanHave(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"-scale 0.01": func(s *Settings) { s.Scale = 0.01 },
		"-scale 1.5":  func(s *Settings) { s.Scale = 1.5 },
		"-max-lag 0s": func(s *Settings) { s.MaxLag = 0 },
	} {
		s := byDefault(t)
		change(&s)
		if err := s.Validate(); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
