package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

// What lab attach tells of a service may be the service's own words.
func TestWhatAServiceSaysCannotSteerTheTerminal(t *testing.T) {
	const said = "500 \x1b[2Jgone\u202e"
	var stdout, stderr bytes.Buffer
	err := printResult(&stdout, false, said, "", func(w io.Writer, v, _ string) { fmt.Fprintln(w, v) })
	if err != nil {
		t.Fatal(err)
	}
	newOutput(&stderr).progress("dump before: %s", said)
	for name, got := range map[string]string{"stdout": stdout.String(), "stderr": stderr.String()} {
		if !strings.HasSuffix(got, "500 \ufffd[2Jgone\ufffd\n") {
			t.Errorf("%s has %q", name, got)
		}
	}
}
