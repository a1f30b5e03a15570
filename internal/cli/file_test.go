package cli

import (
	"bytes"
	"flag"
	"strings"
	"testing"
)

func TestAFileNameIsNotEmpty(t *testing.T) {
	const refused = `invalid value "" for flag -results: it is empty; give a name, or leave the flag out`
	for _, tt := range []struct {
		args            []string
		want, err, name string
	}{
		{nil, "results", "", "the default"},
		{[]string{"-results", "a b"}, "a b", "", "a name"},
		{[]string{"-results", ""}, "results", refused, "empty"},
		{[]string{"-results="}, "results", refused, "empty, in one argument"},
		{[]string{"-config", ""}, "results", strings.ReplaceAll(refused, "results", "config"), "no file of settings"},
	} {
		fs := flag.NewFlagSet("x", flag.ContinueOnError)
		folder := "results"
		FileVar(fs, &folder, "results", "`folder` of the results")
		err := Parse(fs, tt.args, "", &bytes.Buffer{})
		if got := errorText(err); got != tt.err || folder != tt.want {
			t.Errorf("%s: %q, error %q, want %q, error %q", tt.name, folder, got, tt.want, tt.err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestTheDefaultOfAFileNameIsShown(t *testing.T) {
	fs := flag.NewFlagSet("x", flag.ContinueOnError)
	folder := "results"
	FileVar(fs, &folder, "results", "`folder` of the results")
	var help bytes.Buffer
	if err := Parse(fs, []string{"-h"}, "", &help); err != ErrDone || !strings.Contains(help.String(), "(default results)") {
		t.Errorf("error %v, help %s", err, &help)
	}
}
