package cli

import (
	"context"
	"fmt"
	"io"
)

// CheckStdout runs a program, given stdout to print to, and returns its exit
// code. If what it printed could not be written, as to a full disk, it says so and
// the code is ExitFailure: a result that nobody can read is none. A program that
// ends with ExitFailure or ExitUsage has said its one line already. A stdout that
// nobody reads is not waited for when ctx has ended: see Await.
func CheckStdout(ctx context.Context, program string, stdout, stderr io.Writer, run func(stdout io.Writer) int) int {
	checked := &awaited{ctx: ctx, w: stdout}
	code := run(checked)
	if checked.err == nil || code == ExitFailure || code == ExitUsage {
		return code
	}
	return Fail(stderr, program, ExitFailure, fmt.Errorf("stdout: %w", checked.err))
}
