// Package doctor says what of the lab this machine can run, and what to do where
// it cannot. Every answer is from a real try, bounded in time: the network is
// made, and the programs are asked for their version. It changes nothing, and it
// does not judge: a machine that lacks something is an answer.
package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"chokepoint/internal/lab/netlab"
)

const (
	// tryWait bounds one try, sandboxWait all that are made in a sandbox.
	tryWait     = 10 * time.Second
	sandboxWait = 60 * time.Second
	// grace is what the sandbox may take to end after that.
	grace = time.Second
)

// notTried is the problem of a check that nobody came to.
const notTried = "not tried: there is no sandbox, or it ended before"

// Report is what the machine can run.
type Report struct {
	UID    int       `json:"uid"`
	Checks []Finding `json:"checks"`
}

// Finding is what came of one check.
type Finding struct {
	Name string `json:"name"`
	// NeededFor are the parts of the lab that need it.
	NeededFor string `json:"needed_for"`
	OK        bool   `json:"ok"`
	// Found is what was found: a version, a path, a figure.
	Found string `json:"found,omitempty"`
	// Problem is what went wrong, in one line, and Remedy what to do about it; a
	// check that was not tried has none of its own.
	Problem string `json:"problem,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

// check is one thing that a part of the lab needs.
type check struct {
	name, neededFor string
	// remedy is for a failed try whose error has none of its own.
	remedy string
	// try returns what it found.
	try func(context.Context) (found string, err error)
}

// Examine makes all tries. args are what this binary is told in a sandbox so
// that it calls Inside; the error is of ctx alone.
func Examine(ctx context.Context, args []string) (Report, error) {
	report := Report{UID: os.Geteuid()}
	report.Checks = append(report.Checks, networks(ctx, args)...)
	for _, c := range append(programChecks, limitChecks...) {
		report.Checks = append(report.Checks, c.find(ctx))
	}
	return report, context.Cause(ctx)
}

// Inside makes the tries that need a sandbox, in which it must be called, and
// writes a line of JSON for each.
func Inside(ctx context.Context, stdout io.Writer) error {
	encoder := json.NewEncoder(stdout)
	for _, c := range networkChecks {
		if err := encoder.Encode(c.find(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// networks are the sandbox, and what is tried in it.
func networks(ctx context.Context, args []string) []Finding {
	ctx, cancel := context.WithTimeout(ctx, sandboxWait)
	defer cancel()
	var out, said bytes.Buffer
	code, err := netlab.RunIn(ctx, netlab.Spec{Args: args, Stdout: &out, Stderr: &said, Grace: grace})
	if err == nil && code != 0 {
		line, _, _ := strings.Cut(said.String(), "\n")
		err = fmt.Errorf("it ended with code %d: %s", code, line)
	}
	sandbox := check{
		name: "sandbox", neededFor: "deadconn, rolling, drain, drainmap; compare -faults with loss",
		remedy: "the sandbox was there, and the lab failed in it: that is a fault of the lab; please report this line",
		try:    func(context.Context) (string, error) { return userNamespace(), err },
	}
	findings := []Finding{sandbox.find(ctx)}
	for in := json.NewDecoder(&out); ; {
		var f Finding
		if in.Decode(&f) != nil {
			break
		}
		findings = append(findings, f)
	}
	// What the sandbox did not come to say: it could not be had, or it hung.
	for _, c := range networkChecks[len(findings)-1:] {
		findings = append(findings, Finding{Name: c.name, NeededFor: c.neededFor, Problem: notTried})
	}
	return findings
}

func userNamespace() string {
	if os.Geteuid() == 0 {
		return "as root"
	}
	return "without root, in a user namespace"
}

// find makes the try, for as long as tryWait. A try that does not end goes on:
// the process does not.
func (c check) find(ctx context.Context) Finding {
	f := Finding{Name: c.name, NeededFor: c.neededFor}
	ctx, cancel := context.WithTimeout(ctx, tryWait)
	defer cancel()
	type tried struct {
		found string
		err   error
	}
	done := make(chan tried, 1)
	go func() {
		found, err := c.try(ctx)
		done <- tried{found, err}
	}()
	var t tried
	select {
	case t = <-done:
	case <-ctx.Done():
		t.err = fmt.Errorf("no answer within %s", tryWait)
	}
	if t.err == nil {
		f.OK, f.Found = true, t.found
		return f
	}
	f.Problem, f.Remedy = strings.ReplaceAll(t.err.Error(), "\n", "; "), c.remedy
	if unavailable := (*netlab.Unavailable)(nil); errors.As(t.err, &unavailable) {
		f.Problem, f.Remedy = fmt.Sprintf("no %s: %v", unavailable.What, strings.ReplaceAll(unavailable.Err.Error(), "\n", "; ")), unavailable.Remedy
	}
	return f
}
