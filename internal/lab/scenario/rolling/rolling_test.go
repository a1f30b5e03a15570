package rolling

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/matrix/matrixtest"
	"chokepoint/internal/result"
)

// byDefault are the settings with such flags.
func byDefault(t *testing.T, args ...string) Settings {
	t.Helper()
	var s Settings
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	s.Bind(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
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
	groups := map[string]bool{}
	for _, c := range Cases(byDefault(t)) {
		key := matrix.Key(c.Case)
		groups[c.Group] = true
		if c.Group == "" || c.Title == "" || c.Why == "" || c.Fault == "" || c.Run == nil || c.Length <= 0 {
			t.Errorf("%s lacks a group, a title, a reason, a fault, a length or a way to be carried out: %+v", key, c.Case)
		}
		if (c.Defence == result.DefenceNone) != (c.Settings == "") {
			t.Errorf("%s: its settings are %q", key, c.Settings)
		}
	}
	if len(groups) != 3 {
		t.Errorf("%d groups, want 3", len(groups))
	}
}

// TestTheWantsOfLongerTimeouts: what a timeout does not decide stays as it is.
func TestTheWantsOfLongerTimeouts(t *testing.T) {
	g1 := func(timeout string) string {
		for _, c := range Cases(byDefault(t, "-timeout="+timeout)) {
			if c.ID == "G1" && c.Defence == result.DefenceNone {
				return c.Want
			}
		}
		return ""
	}
	for timeout, want := range map[string]string{
		"2s":  "5 of 10 answered, 5 timed out, 0 got 502, 0 took 1 s or more, 5 never reached",
		"10s": "5 to 9 of 10 answered, 1 to 5 timed out, 0 got 502, 0 to 4 took 1 s or more, 1 to 5 never reached",
	} {
		if got := g1(timeout); !strings.HasPrefix(got, want) {
			t.Errorf("-timeout %s: want is %s, want %s", timeout, got, want)
		}
	}
}

// TestAReadersFile is held to losing no request, in the cases that are not a change of
// the lab's own file.
func TestAReadersFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "my.conf")
	if err := os.WriteFile(file, []byte(readers), 0o644); err != nil {
		t.Fatal(err)
	}
	s := byDefault(t, "-nginx-config="+file)
	cases := Cases(s)
	if len(cases) != 36 {
		t.Errorf("%d cases, want 36", len(cases))
	}
	for _, c := range cases {
		want := "10 of 10 answered, 0 timed out, 0 got 502, 0 to 10 took 1 s or more, "
		if strings.HasSuffix(c.ID, "1") {
			want += "0 never reached, 0 failed but executed, 0 executed twice"
		} else if c.Method == methodGET {
			want += "in flight 200 and 200, 0 never reached, 0 failed but executed, 0 to 1 executed twice"
		} else {
			want += "in flight 200 and 200, 0 never reached, 0 failed but executed, 0 executed twice"
		}
		if c.Want != want || c.Why != whyReaders {
			t.Errorf("%s: want %s (%s)", matrix.Key(c.Case), c.Want, c.Why)
		}
	}
	if body := s.config("a:1", "b:2", "c:3", "", true).Values; body["WAS1"] != "b:2 down" || body["WAS2"] != "c:3" || body["LISTEN"] != "a:1" {
		t.Errorf("values with the server out: %v", body)
	}
}

const readers = "upstream app { server @WAS1@; server @WAS2@; }\nserver { listen @LISTEN@; location / { proxy_pass http://app; } }\n"

func TestWhatValidateRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "my.conf")
	for _, tc := range []struct{ name, text, flag, want string }{
		{"no placeholder", "server { listen @LISTEN@; }", "", "it has no @WAS1@; write @LISTEN@ for"},
		{"unknown placeholder", readers + "# @DIRECTIVES@", "", "no placeholder @DIRECTIVES@; there are @LISTEN@ @WAS1@ @WAS2@"},
		{"own log", readers + "server { access_log /var/log/nginx/a.log; }", "", "access_log of its own"},
		{"a log that is commented out", readers + "# access_log off;", "", ""},
		{"a short timeout", readers, "-timeout=1s", "-timeout 1s: want 2s to 10s"},
		{"no case at a time", readers, "-parallel=0", "-parallel 0: want 1 to 64"},
		{"a long flight", readers, "-in-flight=5s", "-in-flight 5s: want 1.5s to 4s"},
		{"a folder", "", "-nginx-config=" + t.TempDir(), "want a file of at most"},
	} {
		if err := os.WriteFile(file, []byte(tc.text), 0o644); err != nil {
			t.Fatal(err)
		}
		var s Settings
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		s.Bind(fs)
		args := []string{"-nginx-config=" + file}
		if tc.flag != "" {
			args = append(args, tc.flag)
		}
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		err := s.Validate()
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestMet: what differs in anything that is judged is not as wanted.
func TestMet(t *testing.T) {
	want := served.refusedAnew().lost()
	as := seen{sent: 10, answered: 10, inFlight: "502 and 200", failedButExecuted: 1, kept: endedByServer, fresh: answerRST}
	if !want.met(as) || want.want() != want.got(as) {
		t.Fatalf("as wanted, and not met; or want %s and got %s differ", want.want(), want.got(as))
	}
	for name, change := range map[string]func(*seen){
		"sent": func(v *seen) { v.sent = 9 }, "answered": func(v *seen) { v.answered = 9 }, "timed out": func(v *seen) { v.timedOut = 1 },
		"502": func(v *seen) { v.badGateway = 1 }, "slow": func(v *seen) { v.slow = 1 }, "in flight": func(v *seen) { v.inFlight = "200 and 200" },
		"never reached": func(v *seen) { v.neverReached = 1 }, "failed but executed": func(v *seen) { v.failedButExecuted = 0 },
		"executed twice": func(v *seen) { v.executedTwice = 1 }, "kept": func(v *seen) { v.kept = endedByReset },
		"fresh": func(v *seen) { v.fresh = answerNothing }, "used after its end": func(v *seen) { v.usedAfterEnd = 1 },
	} {
		v := as
		change(&v)
		if want.met(v) || want.want() == want.got(v) {
			t.Errorf("%s: met %v, got %s", name, want.met(v), want.got(v))
		}
	}
	either := want
	either.kept = endedByEither
	for kept, met := range map[string]bool{endedByServer: true, endedByBalancer: true, endedByReset: false, notEnded: false} {
		v := as
		v.kept = kept
		if either.met(v) != met {
			t.Errorf("%s where either may end: met %v", kept, !met)
		}
	}
	out := takenOut(answerNothing, 20*time.Second, 62*time.Second)(Settings{})
	was := seen{out: 40 * time.Second, why: noRoute, kept: endedByServer, fresh: answerNothing}
	if !out.met(was) {
		t.Errorf("taken out as wanted, and not met: %s", out.got(was))
	}
	meanwhile := was
	meanwhile.failedButExecuted = 1
	if !out.met(meanwhile) {
		t.Errorf("the client gave up as nginx was told, and not met: %s", out.got(meanwhile))
	}
	for name, change := range map[string]func(*seen){
		"never": func(v *seen) { v.out = 0 }, "late": func(v *seen) { v.out = 70 * time.Second }, "why": func(v *seen) { v.why = "error 111" },
		"answered before": func(v *seen) { v.answeredBefore = 1 }, "not answered after": func(v *seen) { v.after = 1 },
		"executed twice": func(v *seen) { v.executedTwice = 1 }, "fresh": func(v *seen) { v.fresh = answerRST },
		"failed but executed": func(v *seen) { v.failedButExecuted = 2 },
	} {
		v := was
		change(&v)
		if out.met(v) {
			t.Errorf("%s: met by %s", name, out.got(v))
		}
	}
}
