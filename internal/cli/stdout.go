package cli

import (
	"fmt"
	"io"
)

// CheckStdout runs a program, given stdout to print to, and returns its exit
// code. If what it printed could not be written, as to a full disk, it says so and
// the code is ExitFailure: a result that nobody can read is none. A program that
// ends with ExitFailure or ExitUsage has said its one line already.
func CheckStdout(program string, stdout, stderr io.Writer, run func(stdout io.Writer) int) int {
	checked := &firstError{w: stdout}
	code := run(checked)
	if checked.err == nil || code == ExitFailure || code == ExitUsage {
		return code
	}
	return Fail(stderr, program, ExitFailure, fmt.Errorf("stdout: %w", checked.err))
}

// firstError remembers the first error of w, and writes no more after it. Like
// w, it is for one goroutine at a time.
type firstError struct {
	w   io.Writer
	err error
}

func (f *firstError) Write(data []byte) (n int, err error) {
	if f.err == nil {
		n, f.err = f.w.Write(data)
	}
	return n, f.err
}
