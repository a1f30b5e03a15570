package netlab_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab/netlab/netlabtest"
)

// Where the machine forbids a sandbox, one line says what forbids it and what
// to do.
func TestForbidden(t *testing.T) {
	netlabtest.Need(t)
	uid := os.Geteuid()
	if uid == 0 {
		uid = ordinaryUser
	}
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{"by a limit", []string{"forbidden"}, []string{"user.max_net_namespaces is 0", "sysctl -w user.max_net_namespaces="}},
		{"by a container", []string{"filtered", "0"}, []string{"operation not permitted", "seccomp", "--privileged"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := outside(t, uid, tc.args...)
			var said bytes.Buffer
			cmd.Stderr = &said
			err := cmd.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != cli.ExitInvalid {
				t.Errorf("%v, want exit code %d", err, cli.ExitInvalid)
			}
			if strings.Count(said.String(), "\n") != 1 {
				t.Errorf("it said %q, want one line", said.String())
			}
			for _, want := range tc.want {
				if !strings.Contains(said.String(), want) {
					t.Errorf("it said %q, without %q", said.String(), want)
				}
			}
		})
	}
}
