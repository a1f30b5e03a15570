package cli

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// settings are the flags of a program that has one of each kind.
type settings struct {
	Rate         int
	GracefulStop time.Duration
	Endpoints    []string
	Verbose      bool
}

// parse runs Parse over settings of their own.
func parse(args ...string) (s settings, stdout string, err error) {
	fs := flag.NewFlagSet("program", flag.ContinueOnError)
	fs.IntVar(&s.Rate, "rate", 1, "requests per `second`")
	fs.DurationVar(&s.GracefulStop, "graceful-stop", 0, "a `duration`")
	fs.BoolVar(&s.Verbose, "verbose", false, "say more")
	fs.Func("endpoint", "a `name`; repeat it for more", func(v string) error {
		if v == "" {
			return errors.New("a name is missing")
		}
		s.Endpoints = append(s.Endpoints, v)
		return nil
	})
	var out bytes.Buffer
	err = Parse(fs, args, "Usage: program [flags]", &out)
	return s, out.String(), err
}

// writeFile writes a settings file.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlagOverEnvironmentOverFile(t *testing.T) {
	file := writeFile(t, "# a comment\nrate 2 # a second\ngraceful-stop\t2s\n\n  verbose\r\nendpoint c\nendpoint d")
	for _, test := range []struct {
		name string
		env  map[string]string
		args []string
		want settings
	}{
		{name: "nothing is said", want: settings{Rate: 1}},
		{name: "the file", args: []string{"-config", file},
			want: settings{Rate: 2, GracefulStop: 2 * time.Second, Verbose: true, Endpoints: []string{"c", "d"}}},
		{name: "the environment over the file, setting by setting", args: []string{"-config", file},
			env:  map[string]string{"CHOKEPOINT_RATE": "3", "CHOKEPOINT_ENDPOINT": "b"},
			want: settings{Rate: 3, GracefulStop: 2 * time.Second, Verbose: true, Endpoints: []string{"b"}}},
		{name: "the flag over both", args: []string{"-config", file, "-rate=4", "-endpoint", "a"},
			env:  map[string]string{"CHOKEPOINT_RATE": "3", "CHOKEPOINT_ENDPOINT": "b", "CHOKEPOINT_GRACEFUL_STOP": "3s"},
			want: settings{Rate: 4, GracefulStop: 3 * time.Second, Verbose: true, Endpoints: []string{"a"}}},
		{name: "the file may be named by the environment", env: map[string]string{"CHOKEPOINT_CONFIG": file, "CHOKEPOINT_ENDPOINT": "b"},
			want: settings{Rate: 2, GracefulStop: 2 * time.Second, Verbose: true, Endpoints: []string{"b"}}},
		{name: "a variable of two lines is a flag given twice", env: map[string]string{"CHOKEPOINT_ENDPOINT": "a,b=1\nc"},
			want: settings{Rate: 1, Endpoints: []string{"a,b=1", "c"}}},
		{name: "an empty variable is none", env: map[string]string{"CHOKEPOINT_RATE": ""}, want: settings{Rate: 1}},
		{name: "another prefix is another program's", env: map[string]string{"RATE": "9"}, want: settings{Rate: 1}},
		{name: "one dash or two", args: []string{"--rate", "5", "--verbose"}, want: settings{Rate: 5, Verbose: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			got, stdout, err := parse(test.args...)
			if err != nil || stdout != "" {
				t.Fatalf("error %v, stdout %q", err, stdout)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestHelpAndVersionGoToStdout(t *testing.T) {
	for _, test := range []struct{ flag, want string }{
		{"-h", `^Usage: program \[flags\]\n\nEach flag can also be set as CHOKEPOINT_FLAG_NAME\.\n(.*\n)*  -rate second +requests per second .*\n(.*\n)*  -version +print .*\n`},
		{"--help", `^Usage: program`},
		{"-version", `^program \S+ go1\.\S+\n$`},
	} {
		t.Run(test.flag, func(t *testing.T) {
			_, stdout, err := parse(test.flag)
			if !errors.Is(err, ErrDone) {
				t.Errorf("error %v, want ErrDone", err)
			}
			if !regexp.MustCompile(test.want).MatchString(stdout) {
				t.Errorf("stdout\n%s\nwant a match of %s", stdout, test.want)
			}
		})
	}
}

func TestAUsageErrorIsOneLineThatNamesTheValue(t *testing.T) {
	file := writeFile(t, "rate fast\n")
	unknown := writeFile(t, "# a comment\nratte 5\n")
	bare, comment, boolean := writeFile(t, "rate\n"), writeFile(t, "endpoint # none\n"), writeFile(t, "verbose maybe\n")
	long, binary := writeFile(t, "rate "+strings.Repeat("9", 100_000)+"\n"), writeFile(t, "rate 5\n\x00\n")
	large, folder := writeFile(t, strings.Repeat("#", 1<<20)+"\n"), t.TempDir()
	for _, test := range []struct {
		name string
		env  map[string]string
		args []string
		want string // the whole line
	}{
		{name: "flag", args: []string{"-rate", "many"}, want: `program: invalid value "many" for flag -rate: parse error`},
		{name: "its own error", args: []string{"-endpoint="}, want: `program: invalid value "" for flag -endpoint: a name is missing`},
		{name: "unknown flag", args: []string{"-ratte", "5"}, want: "program: flag provided but not defined: -ratte"},
		{name: "environment", env: map[string]string{"CHOKEPOINT_RATE": "some"},
			want: `program: invalid value "some" for CHOKEPOINT_RATE: parse error`},
		{name: "file", args: []string{"-config", file}, want: "program: -config " + file + `:1: "rate fast": parse error`},
		{name: "unknown setting in the file", args: []string{"-config", unknown}, want: "program: -config " + unknown + `:2: there is no flag -ratte`},
		{name: "a name without its value", args: []string{"-config", bare}, want: "program: -config " + bare + `:1: -rate needs a value, after a space`},
		{name: "a comment is no value", args: []string{"-config", comment}, want: "program: -config " + comment + `:1: -endpoint needs a value, after a space`},
		{name: "a boolean that is none", args: []string{"-config", boolean}, want: "program: -config " + boolean + `:1: "verbose maybe": parse error`},
		{name: "a long line", args: []string{"-config", long},
			want: "program: -config " + long + `:1: "rate ` + strings.Repeat("9", 75) + `...": value out of range`},
		{name: "not text", args: []string{"-config", binary}, want: "program: -config: " + binary + " is not a file of text"},
		{name: "too large", args: []string{"-config", large}, want: "program: -config: " + large + " has 1048577 bytes, and at most 1048576 are read"},
		{name: "a folder", args: []string{"-config", folder}, want: "program: -config: " + folder + " is not a regular file"},
		{name: "a device without an end", args: []string{"-config", "/dev/zero"},
			want: "program: -config: /dev/zero is not a regular file"},
		{name: "no file", args: []string{"-config", "absent"}, want: "program: -config: open absent: no such file or directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			_, stdout, err := parse(test.args...)
			if err == nil || errors.Is(err, ErrDone) || stdout != "" {
				t.Fatalf("error %v, stdout %q; want a usage error and nothing on stdout", err, stdout)
			}
			var stderr bytes.Buffer
			if code := Fail(&stderr, "program", ExitUsage, err); code != 2 {
				t.Errorf("code %d, want 2", code)
			}
			if diff := cmp.Diff(test.want+"\n", stderr.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestFailPrintsOneLine(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"one line, as it is", `no folder "a  b"`, `program: no folder "a  b"`},
		{"joined errors", errors.Join(errors.New("write a: disk full"), errors.New("write b: disk full")).Error(),
			"program: write a: disk full; write b: disk full"},
		{"an indented list under a heading", "cannot connect:\n\thost a: refused\r\n\n\thost b: refused\n",
			"program: cannot connect: host a: refused; host b: refused"},
		{"nothing", "", "program: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := Fail(&stderr, "program", ExitFailure, errors.New(test.text)); code != 1 {
				t.Errorf("code %d, want 1", code)
			}
			if got := stderr.String(); got != test.want+"\n" || strings.Count(got, "\n") != 1 {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
