// Package clitest holds the testscript commands with which the programs' tests
// check the conventions of package cli.
package clitest

import (
	"os/exec"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// Exits is the command "exits CODE COMMAND...": it runs COMMAND and checks its
// exit code. A failure (1) and a usage error (2) must say so in exactly one line
// of stderr and nothing on stdout.
func Exits(ts *testscript.TestScript, neg bool, args []string) {
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
	if code != "1" && code != "2" {
		return
	}
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	if stdout != "" || strings.Count(stderr, "\n") != 1 {
		ts.Fatalf("stdout %q and stderr %q, want nothing and one line", stdout, stderr)
	}
}
