// Package attach holds lab attach, as a user runs it, against services that are not
// the lab's: a small Go service with a bounded pool (testdata/service), and servers
// that answer as Spring Boot's Actuator does, with thread dumps of a real JVM
// (internal/evidence/threads/testdata).
//
// Who stands where, and what became of the requests, is asserted in exact counts
// where the pool decides them. The generator may be as late as the machine is.
package attach

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/result"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "chokepoint-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = dir
	build := exec.Command("go", "build", "-o", dir, "chokepoint/cmd/lab", "chokepoint/cmd/loadgen", "chokepoint/test/attach/testdata/service")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		return 1
	}
	return m.Run()
}

// command is one of the programs, without the environment's own settings.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, name), args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "CHOKEPOINT_") })
	return cmd
}

// service runs the Go service with an upstream that does not answer while the test
// lasts, and returns its addresses.
func service(t *testing.T, args ...string) (public, admin string) {
	t.Helper()
	over := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	cmd := command(t, "service", append([]string{"-listen=127.0.0.1:0", "-admin=127.0.0.1:0", "-upstream=" + upstream.URL}, args...)...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		close(over)
		upstream.Close()
	})
	if _, err := fmt.Fscan(stdout, &public, &admin); err != nil {
		t.Fatalf("the service does not say where it listens: %v", err)
	}
	return "http://" + public, "http://" + admin
}

// anyLag lifts the bound on lag, so that a busy machine decides no count.
const anyLag = "max-lag: 1h\n"

// shop is a load of 40 requests to each of two endpoints, in two seconds.
func shop(public string) string {
	return anyLag + `duration: 2s
timeout: 1s
endpoints:
- {name: fast, url: ` + public + `/fast, rate: 20}
- {name: recommendations, url: ` + public + `/recommendations, rate: 20}
`
}

// outcome is what a run of lab attach left.
type outcome struct {
	code           int
	stdout, stderr string
	dir            string // of the run; empty if there is none
	summary        result.Summary
}

// attachedUntil starts lab attach with a plan; stderr tells when it has the text,
// and wait waits for its end.
func attachedUntil(t *testing.T, text, plan string, args ...string) (cmd *exec.Cmd, stderr *lines, wait func() outcome) {
	t.Helper()
	work := t.TempDir()
	file, results := filepath.Join(work, "shop.yaml"), filepath.Join(work, "results")
	if err := os.WriteFile(file, []byte(plan), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd = command(t, "lab", append([]string{"attach", "-plan=" + file, "-results=" + results,
		"-baseline-duration=300ms", "-dump-timeout=1s", "-max-p95=900ms", "-recovery-wait=2s"}, args...)...)
	var stdout bytes.Buffer
	stderr = &lines{wanted: text, arrived: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, stderr, func() outcome {
		t.Helper()
		cmd.Wait()
		o := outcome{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.text.String()}
		left, err := os.ReadDir(results)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		switch {
		case len(left) == 1 && strings.Contains(left[0].Name(), "-attach-shop-1"):
			o.dir = filepath.Join(results, left[0].Name())
			if o.summary, err = result.ReadSummary(o.dir); err != nil {
				t.Fatal(err)
			}
		case len(left) > 0:
			t.Fatalf("in the results there are %v; stderr\n%s", left, o.stderr)
		}
		return o
	}
}

// attach runs lab attach to its end.
func attach(t *testing.T, plan string, args ...string) outcome {
	t.Helper()
	_, _, wait := attachedUntil(t, "", plan, args...)
	return wait()
}

// lines is a stderr that tells when it has a text. It is written by one goroutine.
type lines struct {
	text    bytes.Buffer
	wanted  string
	arrived chan struct{}
	done    bool
}

func (l *lines) Write(p []byte) (int, error) {
	l.text.Write(p)
	if !l.done && strings.Contains(l.text.String(), l.wanted) {
		l.done = true
		close(l.arrived)
	}
	return len(p), nil
}

// interruptAt sends SIGINT when stderr has the text.
func interruptAt(t *testing.T, cmd *exec.Cmd, stderr *lines) {
	t.Helper()
	select {
	case <-stderr.arrived:
	case <-time.After(20 * time.Second):
		t.Errorf("stderr has no %q", stderr.wanted)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
}
