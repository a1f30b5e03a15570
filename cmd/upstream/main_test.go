package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/cli"
	"chokepoint/internal/cli/clitest"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"upstream": main})
}

// patience bounds every wait of these tests; nothing is expected to take it.
const patience = 20 * time.Second

// TestScripts runs the command lines in testdata/script. TAKEN is an address
// that is in use.
func TestScripts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) // the scripts run after this function
	testscript.Run(t, testscript.Params{
		Dir:      "testdata/script",
		Deadline: time.Now().Add(3 * patience),
		Setup: func(env *testscript.Env) error {
			env.Setenv("TAKEN", taken.Addr().String())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": clitest.Exits},
	})
}

// stub is a stub in a process of its own.
type stub struct {
	adminapi.Listening
	t      *testing.T
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr bytes.Buffer
}

// command is this test binary run as upstream, by way of a shell command that
// ends in "$0" "$@", if one is given.
func command(shell string, args ...string) *exec.Cmd {
	args = append([]string{"-listen=127.0.0.1:0", "-admin=127.0.0.1:0"}, args...)
	path, err := exec.LookPath("upstream") // testscript.Main put it there
	if err != nil {
		panic(err)
	}
	if shell == "" {
		return exec.Command(path, args...)
	}
	return exec.Command("sh", append([]string{"-c", shell, path}, args...)...)
}

func startStub(t *testing.T, cmd *exec.Cmd) *stub {
	t.Helper()
	s := &stub{t: t, cmd: cmd}
	cmd.Stderr = &s.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	s.stdout = bufio.NewReader(out)
	line, err := s.stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("no line on stdout: %v; stderr %s", err, &s.stderr)
	}
	if err := json.Unmarshal([]byte(line), &s.Listening); err != nil || s.Program != "upstream" {
		t.Fatalf("line %q: %v", line, err)
	}
	return s
}

// stats polls /stats until done.
func (s *stub) stats(done func(adminapi.StubStats) bool) adminapi.StubStats {
	s.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		resp, err := http.Get("http://" + s.Admin + adminapi.PathStats)
		if err != nil {
			s.t.Fatal(err)
		}
		var stats adminapi.StubStats
		err = json.NewDecoder(resp.Body).Decode(&stats)
		resp.Body.Close()
		if err != nil {
			s.t.Fatal(err)
		}
		if done(stats) {
			return stats
		}
		if time.Now().After(end) {
			s.t.Fatalf("stats after %v: %+v", patience, stats)
		}
	}
}

// TestSignalsEndItWhileRequestsWait: 600 requests wait for an hour; the signal
// ends the process at once, with code 0 and nothing more on stdout.
func TestSignalsEndItWhileRequestsWait(t *testing.T) {
	const waiting = 600
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			s := startStub(t, command("", "-delay=1h"))
			for range waiting {
				c, err := net.Dial("tcp", s.Public)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				io.WriteString(c, "GET / HTTP/1.1\r\nHost: s\r\n\r\n")
			}
			s.stats(func(st adminapi.StubStats) bool { return st.InFlight == waiting })
			s.cmd.Process.Signal(signal)
			rest, _ := io.ReadAll(s.stdout)
			if err := s.cmd.Wait(); err != nil || len(rest) != 0 {
				t.Errorf("exit %v, want 0; more on stdout: %q; stderr %s", err, rest, &s.stderr)
			}
		})
	}
}

// TestGracefulShutdown: SIGTERM lets the request in flight be answered, or cuts it off
// when the time is over, which is a failure of one line.
func TestGracefulShutdown(t *testing.T) {
	for _, tt := range []struct {
		timeout string
		code    int
		answer  string
	}{
		{"20s", cli.ExitOK, "HTTP/1.1 200 OK\r\n"},
		{"50ms", cli.ExitFailure, ""},
	} {
		t.Run(tt.timeout, func(t *testing.T) {
			t.Parallel()
			s := startStub(t, command("", "-delay=1500ms", "-shutdown=graceful", "-shutdown-timeout="+tt.timeout))
			c, err := net.Dial("tcp", s.Public)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: s\r\nContent-Length: 2\r\n\r\nhi")
			s.stats(func(st adminapi.StubStats) bool { return st.InFlight == 1 })
			s.cmd.Process.Signal(syscall.SIGTERM)
			data, err := io.ReadAll(c)
			if err != nil || !strings.HasPrefix(string(data), tt.answer) || tt.answer == "" && len(data) > 0 {
				t.Errorf("received %q, %v, want %q", data, err, tt.answer)
			}
			s.cmd.Wait()
			if code := s.cmd.ProcessState.ExitCode(); code != tt.code {
				t.Errorf("exit code %d, want %d; stderr %s", code, tt.code, &s.stderr)
			}
			if said := strings.Contains(s.stderr.String(), "upstream: requests in flight: 1, cut off"); said != (tt.code != cli.ExitOK) {
				t.Errorf("stderr %s", &s.stderr)
			}
		})
	}
}

// TestRequestLogOutlivesAKill: what had begun when the stub was killed is in its log.
func TestRequestLogOutlivesAKill(t *testing.T) {
	log := filepath.Join(t.TempDir(), "requests.jsonl")
	s := startStub(t, command("", "-delay=1h", "-name=was1", "-request-log="+log))
	c, err := net.Dial("tcp", s.Public)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: s\r\n"+adminapi.HeaderID+": a\r\n\r\n")
	s.stats(func(st adminapi.StubStats) bool { return st.InFlight == 1 })
	s.cmd.Process.Kill()
	s.cmd.Wait()
	data, err := os.ReadFile(log)
	var run adminapi.StubRequest
	if err == nil {
		err = json.Unmarshal(data, &run)
	}
	if err != nil || run.ID != "a" || run.Connection != "was1-1" || run.Run != 1 || run.End != "" {
		t.Errorf("the log has %q (%v)", data, err)
	}
}

// TestRaisesSoftFileLimit: a low soft limit does not limit the connections.
func TestRaisesSoftFileLimit(t *testing.T) {
	const connections = 200
	s := startStub(t, command(`ulimit -S -n 64 && exec "$0" "$@"`))
	for range connections {
		c, err := net.Dial("tcp", s.Public)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	s.stats(func(st adminapi.StubStats) bool { return st.Connections == connections })
	s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("exit %v; stderr %s", err, &s.stderr)
	}
}

// TestInterruptedBeforeItListens is run in this process, since the moment
// cannot be hit from outside.
func TestInterruptedBeforeItListens(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"-listen=127.0.0.1:0", "-admin=127.0.0.1:0"}, &stdout, &stderr)
	if code != cli.ExitInterrupted || stdout.Len() != 0 {
		t.Errorf("exit code %d, stdout %q, want %d and nothing; stderr %s", code, &stdout, cli.ExitInterrupted, &stderr)
	}
}

// TestNobodyReadsItsAddress: a stub that cannot say where it listens ends.
func TestNobodyReadsItsAddress(t *testing.T) {
	r, w := io.Pipe()
	r.Close()
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"-listen=127.0.0.1:0", "-admin=127.0.0.1:0"}, w, &stderr); code != cli.ExitFailure {
		t.Errorf("exit code %d, want %d; stderr %s", code, cli.ExitFailure, &stderr)
	}
	if !strings.Contains(stderr.String(), "cannot say on stdout that it listens") {
		t.Errorf("stderr %s", &stderr)
	}
}
