package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
)

// full takes that many writes, and none after them.
type full struct {
	left int
	seen bytes.Buffer
}

func (f *full) Write(data []byte) (int, error) {
	if f.left == 0 {
		// Were there room again, what follows would stand after a gap.
		f.left = -1
		return 0, errors.New("no space left")
	}
	f.left--
	return f.seen.Write(data)
}

func TestAResultThatCannotBePrintedIsAFailure(t *testing.T) {
	for _, test := range []struct {
		name       string
		room, code int // writes that succeed; what the program returns
		want       int
		stderr     string
	}{
		{"all is written", 3, ExitOK, ExitOK, ""},
		{"another code is kept", 3, ExitThreshold, ExitThreshold, ""},
		{"nothing is", 0, ExitOK, ExitFailure, "program: stdout: no space left\n"},
		{"the last part is not", 2, ExitInvalid, ExitFailure, "program: stdout: no space left\n"},
		{"a failure has said its line", 0, ExitFailure, ExitFailure, ""},
		{"and so has a usage error", 0, ExitUsage, ExitUsage, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr := &full{left: test.room}, &bytes.Buffer{}
			code := CheckStdout(t.Context(), "program", stdout, stderr, func(stdout io.Writer) int {
				for range 3 {
					fmt.Fprint(stdout, "x")
				}
				return test.code
			})
			if code != test.want || stderr.String() != test.stderr || stdout.seen.Len() != test.room {
				t.Errorf("code %d, stderr %q, %d written; want %d, %q and %d",
					code, stderr, stdout.seen.Len(), test.want, test.stderr, test.room)
			}
		})
	}
}
