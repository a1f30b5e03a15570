package main

import (
	"bytes"
	"context"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"chokepoint/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"victim": main})
}

// TestScripts runs the command lines in testdata/script. TAKEN is an address
// that is in use, and CLOSED one on which nothing listens.
func TestScripts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) // the scripts run after this function
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	testscript.Run(t, testscript.Params{
		Dir:      "testdata/script",
		Deadline: time.Now().Add(time.Minute),
		Setup: func(env *testscript.Env) error {
			env.Setenv("TAKEN", taken.Addr().String())
			env.Setenv("CLOSED", closed.Addr().String())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits CODE COMMAND... runs COMMAND and checks its exit code and, if that is
// not 0, that it wrote exactly one line to stderr and none to stdout.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if exit, ok := err.(*exec.ExitError); ok {
		code = strconv.Itoa(exit.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	if code != "0" && (stdout != "" || strings.Count(stderr, "\n") != 1) {
		ts.Fatalf("stdout %q and stderr %q, want nothing and one line", stdout, stderr)
	}
}

// TestInterruptedBeforeItListens: a victim that is told to end while it waits
// for a database that accepts and never answers, ends.
func TestInterruptedBeforeItListens(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := silent.Accept(); err == nil {
			accepted <- c
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer (<-accepted).Close()
		cancel()
		<-t.Context().Done()
	}()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"-listen=127.0.0.1:0", "-admin=127.0.0.1:0",
		"-database-url=postgres://u@" + silent.Addr().String() + "/db?sslmode=disable"}, &stdout, &stderr)
	if code != cli.ExitInterrupted || stdout.Len() != 0 || stderr.Len() != 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q; want %d and nothing", code, &stdout, &stderr, cli.ExitInterrupted)
	}
}
