package main

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"chokepoint/internal/cli"
	"chokepoint/internal/cli/clitest"
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
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": clitest.Exits},
	})
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
