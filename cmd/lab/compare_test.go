package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// compared parses a command line of lab compare as far as to what would run.
func compared(t *testing.T, args ...string) (labels []string, backlogs []int, err error) {
	t.Helper()
	var f compareFlags
	if err := f.parse(args, io.Discard); err != nil {
		return nil, nil, err
	}
	settings, err := f.compared(args)
	for _, s := range settings {
		labels, backlogs = append(labels, s.Label()), append(backlogs, s.AcceptBacklog)
		if got := s.Effective()["accept-backlog"]; got != "10" && got != "100" && got != "1000" {
			t.Errorf("%s: the manifest would say accept-backlog %s", s.Label(), got)
		}
	}
	return labels, backlogs, err
}

func TestVary(t *testing.T) {
	for _, test := range []struct {
		name     string
		args     []string
		labels   []string
		backlogs []int
	}{
		{"profiles alone", nil, []string{"anti", "fixed"}, []int{100, 100}},
		{"one profile, one flag", []string{"-profiles=anti", "-vary", "accept-backlog=10,1000"},
			[]string{"anti accept-backlog=10", "anti accept-backlog=1000"}, []int{10, 1000}},
		{"two flags", []string{"-profiles=anti", "-vary", "-accept-backlog=10,100", "-vary", "max-connections=100,8192"},
			[]string{
				"anti accept-backlog=10 max-connections=100", "anti accept-backlog=10 max-connections=8192",
				"anti accept-backlog=100 max-connections=100", "anti accept-backlog=100 max-connections=8192",
			}, []int{10, 10, 100, 100}},
		{"two profiles, over what the flag itself says", []string{"-accept-backlog=1000", "-vary", "accept-backlog=10"},
			[]string{"anti accept-backlog=10", "fixed accept-backlog=10"}, []int{10, 10}},
	} {
		labels, backlogs, err := compared(t, test.args...)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if diff := cmp.Diff(test.labels, labels); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", test.name, diff)
		}
		if !slices.Equal(backlogs, test.backlogs) {
			t.Errorf("%s: backlogs %v, want %v", test.name, backlogs, test.backlogs)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, test := range []struct {
		name   string
		args   []string
		labels []string
	}{
		{"faults in turn, with each profile", []string{"-faults=slow, loss"},
			[]string{"anti fault=slow", "fixed fault=slow", "anti fault=loss", "fixed fault=loss"}},
		{"beside what is varied", []string{"-profiles=anti", "-faults=refused", "-vary", "accept-backlog=10,100"},
			[]string{"anti accept-backlog=10 fault=refused", "anti accept-backlog=100 fault=refused"}},
	} {
		labels, _, err := compared(t, test.args...)
		if diff := cmp.Diff(test.labels, labels); err != nil || diff != "" {
			t.Errorf("%s: %v, labels (-want +got):\n%s", test.name, err, diff)
		}
	}
}

func TestVaryRefuses(t *testing.T) {
	for _, test := range []struct{ name, args, want string }{
		{"no values", "-vary accept-backlog", "want a flag of lab run exhaustion and its values"},
		{"no such flag", "-vary backlog=1,2", "want a flag of lab run exhaustion and its values"},
		{"a flag of the comparison", "-vary runs=1,2", "want a flag of lab run exhaustion and its values"},
		{"the folder", "-vary results=a,b", "-results is that of the whole comparison"},
		{"the scale", "-vary scale=0.25,1", "-scale is that of the whole comparison; give it once, without -vary"},
		{"the profile", "-vary profile=anti,fixed", "profiles are varied by -profiles"},
		{"an empty value", "-vary accept-backlog=1,", `value "" of -accept-backlog is empty or given twice`},
		{"a value twice", "-vary accept-backlog=1,1", `value "1" of -accept-backlog is empty or given twice`},
		{"a flag twice", "-vary accept-backlog=1 -vary accept-backlog=2", "-accept-backlog is varied twice"},
		{"a value that is none", "-vary accept-backlog=many", "-vary: invalid value"},
		{"a value out of range", "-vary accept-backlog=0", "-vary: -accept-backlog 0: want 1 to 65535"},
		{"a fault that is none", "-faults gremlins", `unknown fault "gremlins"; choose of slow, hang, refused, reset, loss, tls_hang`},
		{"a fault twice", "-faults slow,hang,slow", "slow is named twice"},
		{"one fault and each", "-faults slow,hang -fault reset", "-fault is one fault for all runs and -faults is each in turn"},
		{"each fault, twice", "-faults slow,hang -vary fault=reset,hang", "-fault is one fault for all runs"},
		{"packets in containers", "-faults loss -runtime compose", "-fault=loss runs in network namespaces of its own; it goes with -runtime native only"},
		{"packets and a proxy", "-faults loss -toxiproxy http://127.0.0.1:1", "-toxiproxy adds one fixed latency"},
		{"a share of no packets", "-faults loss -loss 0", "-loss 0: want a share of the packets above 0, up to 1"},
		{"calls that packets befall", "-fault loss -fault-rate 0.5", "-fault-rate 0.5: -fault=loss befalls packets, not calls; say -loss 0.5"},
		{"connections that no permit opens", "-faults loss -kept-connections 21", "-kept-connections 21: profile fixed lets no more than 20 calls in"},
		{"nothing to compare with", "-profiles anti -vary accept-backlog=1", "a comparison needs two"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"compare", "exhaustion"}, strings.Fields(test.args)...), &stdout, &stderr)
		if text := stderr.String(); code != 2 || !strings.Contains(text, test.want) || strings.Count(text, "\n") != 1 {
			t.Errorf("%s: exit %d, stderr %q; want one line with %q", test.name, code, text, test.want)
		}
	}
}
