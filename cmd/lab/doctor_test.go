package main

import (
	"bytes"
	"strings"
	"testing"

	"chokepoint/internal/lab/doctor"
)

func TestFindingsArePrinted(t *testing.T) {
	var out bytes.Buffer
	printFindings(&out, doctor.Report{Checks: []doctor.Finding{
		{Name: "sandbox", NeededFor: "cases", Problem: "no user namespace: permission denied", Remedy: "run the lab as root"},
		{Name: "hosts", NeededFor: "cases", Problem: "not tried"},
		{Name: "nginx", NeededFor: "rolling", OK: true, Found: "1.22\x1b[1m.1"},
	}})
	const want = `no   sandbox          no user namespace: permission denied
no   hosts            not tried
yes  nginx            1.22�[1m.1

sandbox (for cases)
  run the lab as root
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &out, want)
	}
	out.Reset()
	printFindings(&out, doctor.Report{Checks: []doctor.Finding{{Name: "nginx", OK: true}}})
	if !strings.HasSuffix(out.String(), "\n\nThis machine can run all of the lab.\n") {
		t.Errorf("got:\n%s", &out)
	}
}
