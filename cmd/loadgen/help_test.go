package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"chokepoint/internal/cli"
)

// TestHelpIsReadable: it fits on two screens, and every flag has one line, of those of
// a run under its purpose.
func TestHelpIsReadable(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"plan", "-h"}, {"report", "-h"}, {"diff", "-h"}} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != cli.ExitOK || stderr.Len() > 0 {
			t.Fatalf("%v: exit code %d, stderr %q", args, code, &stderr)
		}
		lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
		if len(lines) > 90 {
			t.Errorf("%v: %d lines", args, len(lines))
		}
		for _, line := range lines {
			if len(line) > 130 {
				t.Errorf("%v: %d columns: %s", args, len(line), line)
			}
		}
		if args[0] == "report" || args[0] == "diff" {
			if at := slices.Index(lines, "Flags:"); at < 0 || !slices.ContainsFunc(lines[at:], func(l string) bool { return strings.HasPrefix(l, "  -json file ") }) {
				t.Errorf("%v: the flags are not listed a line each", args)
			}
			continue
		}
		other := lines[slices.Index(lines, "Other:")+1:]
		if len(other) != 2 || !strings.HasPrefix(other[0], "  -config ") || !strings.HasPrefix(other[1], "  -version ") {
			t.Errorf("%v: flags that no group lists: %q; add them to one", args, other)
		}
	}
}
