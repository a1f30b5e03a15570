package cli

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// grouped parses a program with groups and two aliases.
func grouped(stdout io.Writer, args ...string) (d time.Duration, insecure bool, err error) {
	fs := flag.NewFlagSet("program", flag.ContinueOnError)
	fs.DurationVar(&d, "duration", time.Second, "how `long`")
	fs.BoolVar(&insecure, "insecure", false, "verify nothing")
	fs.Int("extra", 0, "in no group")
	Alias(fs, "z", "duration")
	Alias(fs, "k", "insecure")
	err = ParseGrouped(fs, args, "Usage: program", []Group{
		{"When", []string{"duration"}},
		{"Connections", []string{"insecure"}},
	}, stdout)
	return d, insecure, err
}

func TestAnAliasIsItsFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings")
	if err := os.WriteFile(file, []byte("z 4s\nk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		env      map[string]string
		args     []string
		want     time.Duration
		insecure bool
	}{
		{name: "it sets the flag", args: []string{"-z", "2s", "-k"}, want: 2 * time.Second, insecure: true},
		{name: "a boolean may be told its value", args: []string{"-k=false"}, want: time.Second},
		{name: "it wins over the flag's variable", args: []string{"-z", "2s"}, env: map[string]string{"CHOKEPOINT_DURATION": "3s"}, want: 2 * time.Second},
		{name: "it has no variable of its own", args: []string{"-duration", "2s"}, env: map[string]string{"CHOKEPOINT_Z": "3s", "CHOKEPOINT_K": "true"}, want: 2 * time.Second},
		{name: "in a file of settings", args: []string{"-config", file}, want: 4 * time.Second, insecure: true},
		{name: "the flag over the file's alias", args: []string{"-config", file, "-duration", "2s", "-insecure=false"}, want: 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			d, insecure, err := grouped(io.Discard, test.args...)
			if err != nil || d != test.want || insecure != test.insecure {
				t.Errorf("%v, %v, error %v; want %v, %v", d, insecure, err, test.want, test.insecure)
			}
		})
	}
}

func TestGroupedHelpHasALineForEachFlag(t *testing.T) {
	var stdout bytes.Buffer
	if _, _, err := grouped(&stdout, "-h"); !errors.Is(err, ErrDone) {
		t.Fatalf("error %v", err)
	}
	_, list, _ := strings.Cut(stdout.String(), "FLAG_NAME.\n\n")
	want := `When:
  -z, -duration long        how long (default 1s)

Connections:
  -k, -insecure             verify nothing

Other:
  -config file              file of settings, a flag name and its value a line
  -extra int                in no group
  -version                  print the version and exit
`
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
