//go:build compose

package world

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"chokepoint/internal/lab/proc"
)

// held is what such a lab says: its project, and whether all of it is up.
type held struct {
	Project string
	Up      bool
}

// hold starts a world in the folder of its first argument. The second says
// whether it has a reaper, the third where the programs are.
func hold(args []string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "hold:", err)
		return 1
	}
	var reaper *proc.Reaper
	if args[1] == "reaper" {
		var err error
		if reaper, err = proc.StartReaper(); err != nil {
			return fail(err)
		}
	}
	out := json.NewEncoder(os.Stdout)
	cfg := config(args[0], args[2])
	cfg.Progress = func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if project, ok := strings.CutPrefix(text, "starting containers ("); ok {
			_ = out.Encode(held{Project: strings.TrimSuffix(project, ")")})
		}
	}
	w, err := StartCompose(context.Background(), cfg, proc.NewLauncher(reaper))
	if err != nil {
		return fail(err)
	}
	if err := out.Encode(held{w.project, true}); err != nil {
		return fail(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// holder starts a lab in a process of its own.
func holder(t *testing.T, reaper string) (cmd *exec.Cmd, next func() held) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self, holdArg, t.TempDir(), reaper, binDir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	decoder := json.NewDecoder(bufio.NewReader(stdout))
	return cmd, func() held {
		t.Helper()
		var h held
		if err := decoder.Decode(&h); err != nil {
			t.Fatal(err)
		}
		return h
	}
}

func TestComposeKilledLab(t *testing.T) {
	for _, test := range []struct {
		name   string
		moment func(t *testing.T, next func() held, project string)
	}{
		{"before the first container", func(*testing.T, func() held, string) {}},
		{"with the first container", func(t *testing.T, _ func() held, project string) {
			eventually(t, "a container", func() bool {
				return len(docker(t, "ps", "--all", "--quiet", "--filter", "label="+projectLabel+"="+project)) > 0
			})
		}},
		{"when all is up", func(t *testing.T, next func() held, _ string) { next() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd, next := holder(t, "reaper")
			project := next().Project
			test.moment(t, next, project)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			// Long enough for a reaper that comes too early to be found out.
			quiet := 0
			eventually(t, "nothing is left for three seconds", func() bool {
				if quiet++; len(leftOf(t, project)) > 0 {
					quiet = 0
				}
				return quiet == 30
			})
		})
	}
}

// Where the reaper was killed as well, the next lab cleans up; a living lab is
// left alone.
func TestComposeSweep(t *testing.T) {
	cmd, next := holder(t, "none")
	next()
	dead := next().Project
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if len(leftOf(t, dead)) == 0 {
		t.Fatal("without a reaper, something should have been left")
	}
	_, nextAlive := holder(t, "reaper")
	alive := nextAlive().Project
	if left := leftOf(t, dead); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	nextAlive()
	w := start(t)
	serves(t, w)
	if n := len(leftOf(t, alive)); n != 4 {
		t.Errorf("the living lab has %d containers and networks, want 4", n)
	}
}
