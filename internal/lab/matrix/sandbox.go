package matrix

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"chokepoint/internal/result"
)

// Plan is what the outer lab tells the one in the sandbox, as JSON.
type Plan struct {
	Scenario string          `json:"scenario"`
	Settings json.RawMessage `json:"settings"` // of the scenario
	Dir      string          `json:"dir"`      // the run's folder
	Parallel int             `json:"parallel"`
	Keys     []string        `json:"keys"` // the cases to carry out; see Key
}

// Builder makes the cases of a scenario from its settings. The same settings make the
// same cases on both sides of a sandbox.
type Builder func(settings json.RawMessage) ([]Case, error)

// Launch runs the other side of Drive in a sandbox, and returns when it has ended. The
// error is of what kept it from running at all. When ctx ends it ends what it started.
type Launch func(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) (exitCode int, err error)

// maxLine bounds a case or a line of progress that comes out of the sandbox.
const maxLine = 4 << 20

// Drive has the cases carried out in a sandbox, and returns them in their order. One
// that the sandbox did not finish has a Failure. The error is of what kept all of them
// from running.
func Drive(ctx context.Context, plan Plan, cases []Case, launch Launch, progress func(format string, args ...any)) ([]result.Case, error) {
	cases = slices.Clone(cases)
	if err := prepare(cases); err != nil {
		return nil, err
	}
	results := make([]result.Case, len(cases))
	missing := map[string]int{}
	plan.Keys = nil
	for i, c := range cases {
		results[i] = c.Case
		missing[Key(c.Case)] = i
		plan.Keys = append(plan.Keys, Key(c.Case))
	}
	request, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	var malformed error
	stdout := &lines{each: func(line []byte) {
		var c result.Case
		if err := json.Unmarshal(line, &c); err != nil {
			malformed = fmt.Errorf("the sandbox said %.80q, which is no case: %w", line, err)
			return
		}
		if i, ok := missing[Key(c)]; ok {
			results[i] = c
			delete(missing, Key(c))
		}
	}}
	said := ""
	stderr := &lines{each: func(line []byte) {
		said = string(line)
		progress("%s", said)
	}}
	code, err := launch(ctx, bytes.NewReader(request), stdout, stderr)
	if err != nil {
		return nil, err
	}
	stdout.flush()
	stderr.flush()
	why := fmt.Sprintf("the sandbox ended with code %d", code)
	if said != "" {
		why += "; its last words: " + said
	}
	switch {
	case ctx.Err() != nil:
		why = unfinished(ctx)
	case malformed != nil:
		why = malformed.Error()
	case code != 0 && len(missing) == len(cases):
		return nil, errors.New(why) // nothing was measured
	}
	for _, i := range missing {
		results[i].Failure = why
	}
	return results, nil
}

// Serve is the sandbox's side of Drive: it reads the plan from stdin, carries its cases
// out and writes each to stdout. It returns the exit code of the process.
func Serve(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, builders map[string]Builder) int {
	if err := serve(ctx, stdin, stdout, stderr, builders); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, builders map[string]Builder) error {
	var plan Plan
	if err := json.NewDecoder(stdin).Decode(&plan); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	build, ok := builders[plan.Scenario]
	if !ok {
		return fmt.Errorf("no scenario %q is a matrix", plan.Scenario)
	}
	cases, err := build(plan.Settings)
	if err != nil {
		return err
	}
	cases = slices.DeleteFunc(cases, func(c Case) bool { return !slices.Contains(plan.Keys, Key(c.Case)) })
	if len(cases) != len(plan.Keys) {
		return fmt.Errorf("%d of the plan's %d cases are known", len(cases), len(plan.Keys))
	}
	encoder := json.NewEncoder(stdout)
	opts := Options{Dir: plan.Dir, Parallel: plan.Parallel, Progress: func(format string, args ...any) {
		fmt.Fprintf(stderr, format+"\n", args...)
	}}
	_, err = Run(ctx, cases, opts, func(c result.Case) error { return encoder.Encode(c) })
	return err
}

// lines calls each for every whole line that is written to it, without its end.
type lines struct {
	each func(line []byte)
	part []byte
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.part = append(l.part, p...)
	for {
		line, rest, whole := bytes.Cut(l.part, []byte{'\n'})
		if !whole {
			break
		}
		l.each(bytes.TrimRight(line, "\r"))
		l.part = append([]byte(nil), rest...)
	}
	if len(l.part) > maxLine {
		return 0, bufio.ErrTooLong
	}
	return len(p), nil
}

// flush passes on a last line that had no end.
func (l *lines) flush() {
	if len(l.part) > 0 {
		l.each(l.part)
		l.part = nil
	}
}
