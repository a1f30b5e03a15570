package scenario

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chokepoint/internal/cli"
	"chokepoint/internal/rate"
)

// TestProfileText: a profile that nobody has named is said to be the default.
func TestProfileText(t *testing.T) {
	for _, test := range []struct{ args, env, want string }{
		{"", "", "fixed (the default)"},
		{"-profile=fixed", "", "fixed"},
		{"", "fixed", "fixed"},
		{"-profile=anti", "fixed", "anti"},
	} {
		t.Run(test.args+";"+test.env, func(t *testing.T) {
			t.Setenv(cli.EnvPrefix+"_PROFILE", test.env)
			var s Settings
			fs := flag.NewFlagSet("test", flag.ContinueOnError)
			s.Bind(fs)
			if err := cli.Parse(fs, strings.Fields(test.args), "", io.Discard); err != nil {
				t.Fatal(err)
			}
			if got := s.profileText(); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			other := s.WithProfile("fixed")
			if got := other.profileText(); got != "fixed" {
				t.Errorf("named by a comparison: %q", got)
			}
		})
	}
}

// TestRates: -rate is of the streams that have no rate of their own, wherever
// each was said; what was said of the same flag twice is flag over environment
// over file.
func TestRates(t *testing.T) {
	for _, test := range []struct {
		args, env, file string
		fast, upstream  rate.Rate
	}{
		{fast: 20, upstream: 20},
		{args: "-rate 10", fast: 10, upstream: 10},
		{args: "-rate 10 -fast-rate 5", fast: 5, upstream: 10},
		{args: "-fast-rate 5 -rate 10", fast: 5, upstream: 10},
		{args: "-upstream-rate 5 -rate 10", fast: 10, upstream: 5},
		{args: "-fast-rate 5", env: "RATE=10", fast: 5, upstream: 10},
		{args: "-rate 10", env: "FAST_RATE=5", fast: 5, upstream: 10},
		{args: "-fast-rate 5", env: "FAST_RATE=6", fast: 5, upstream: 20},
		{args: "-fast-rate 5", file: "rate 10", fast: 5, upstream: 10},
		{args: "-rate 10", file: "upstream-rate 5", fast: 10, upstream: 5},
		{env: "FAST_RATE=5", file: "fast-rate 6\nrate 10", fast: 5, upstream: 10},
		{env: "RATE=10", file: "rate 11\nfast-rate 5", fast: 5, upstream: 10},
		{args: "-rate 9", env: "RATE=10", file: "rate 11\nfast-rate 5", fast: 5, upstream: 9},
	} {
		t.Run(strings.Join([]string{test.args, test.env, test.file}, ";"), func(t *testing.T) {
			if name, value, ok := strings.Cut(test.env, "="); ok {
				t.Setenv(cli.EnvPrefix+"_"+name, value)
			}
			file := filepath.Join(t.TempDir(), "settings")
			if err := os.WriteFile(file, []byte(test.file+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var s Settings
			fs := flag.NewFlagSet("test", flag.ContinueOnError)
			s.Bind(fs)
			if err := cli.Parse(fs, append(strings.Fields(test.args), "-config="+file), "", io.Discard); err != nil {
				t.Fatal(err)
			}
			if s.FastRate != test.fast || s.UpstreamRate != test.upstream {
				t.Errorf("/fast at %v and /upstream at %v, want %v and %v", s.FastRate, s.UpstreamRate, test.fast, test.upstream)
			}
			if all := s.Effective(); all["fast-rate"] != test.fast.String() || all["upstream-rate"] != test.upstream.String() {
				t.Errorf("the manifest says %s and %s", all["fast-rate"], all["upstream-rate"])
			}
		})
	}
}
