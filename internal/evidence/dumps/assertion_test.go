package dumps

import (
	"strings"
	"testing"

	"chokepoint/internal/evidence/stacks"
)

// run is three dumps: of Tomcat idle and held, and of the JDK alone.
func run(t *testing.T) []Dump {
	t.Helper()
	var all []Dump
	for _, file := range []string{"jcmd-idle.txt.gz", "actuator-bulkhead.json.gz", "jstack-jdk.txt.gz"} {
		all = append(all, readFile(t, recorded+"/"+file, stacks.ByName)...)
	}
	return all
}

func TestAssertions(t *testing.T) {
	all := run(t)
	for _, tt := range []struct {
		text string
		held []bool // one for each dump that it is about
	}{
		{"upstream_read == 20", []bool{false, true, false}},
		{"upstream_read@2==20", []bool{true}},
		{"upstream_read@actuator-bulkhead.json.gz == 20", []bool{true}},
		{"upstream_read@actuator-bulkhead.json == 20", []bool{true}},
		{"upstream_read@actuator-bulkhead != 20", []bool{false}},
		{"upstream_read@" + recorded + "/actuator-bulkhead.json.gz <= 20", []bool{true}},
		{"upstream_read@bulkhead == 20", []bool{true}}, // as the point of a run
		{"idle@first >= 200", []bool{true}},
		{"permit_wait@last > 19", []bool{true}},
		{"permit_wait@last<20", []bool{false}},
		{"workers==200", []bool{true, true, false}},
		{"total@1 == 217", []bool{true}},
		{"threads@1==217", []bool{true}},
		{"wait:socket_read@last == 200", []bool{true}},
		{"state:BLOCKED@last == 22", []bool{true}},
		{`state:"BLOCKED"@last == 22`, []bool{true}},
		{"frame:org.apache.tomcat.util.threads.TaskQueue.take@1 == 200", []bool{true}},
		{"frame:org.apache.hc.*@2 == 20", []bool{true}},
		{"queued == 0", []bool{true, true, true}},
	} {
		a, err := ParseAssertion(tt.text)
		if err != nil {
			t.Error(err)
			continue
		}
		held, err := a.Hold(all)
		if err != nil || len(held) != len(tt.held) {
			t.Errorf("%s: about %d dumps, want %d, error %v", tt.text, len(held), len(tt.held), err)
			continue
		}
		for i, h := range held {
			if h.OK != tt.held[i] || h.Text != tt.text {
				t.Errorf("%s: %+v, want %v", tt.text, h, tt.held[i])
			}
		}
	}
}

// The counts of a dump that was cut off are too low, so nothing is shown by them.
func TestATruncatedDumpMeetsNoAssertion(t *testing.T) {
	all := run(t)
	all[1].Truncated = true
	a, err := ParseAssertion("upstream_read@2 == 20")
	if err != nil {
		t.Fatal(err)
	}
	held, err := a.Hold(all)
	if err != nil || len(held) != 1 || held[0].OK || held[0].Why != "the dump is truncated" {
		t.Errorf("%+v, error %v", held, err)
	}
}

func TestAssertionErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", `assertion "": not METRIC OPERATOR NUMBER; write it as`},
		{"upstream_read", "not METRIC OPERATOR NUMBER"},
		{"upstream_read = 20", "not METRIC OPERATOR NUMBER"},
		{"upstream_read == 20%", "not METRIC OPERATOR NUMBER"},
		{"upstream_read == -1", "not METRIC OPERATOR NUMBER"},
		{"upstream_read == 9999999999", "not METRIC OPERATOR NUMBER"},
		{"upstream_reed == 20", `unknown metric "upstream_reed": there are idle, upstream_connect, upstream_read,`},
		{"wait:locks == 20", `nothing waits for "locks": there are idle, http_client,`},
		{"idle:x == 20", `"idle" takes no colon: wait:, state: and frame: do`},
		{"wait == 20", `unknown metric "wait"`},
	} {
		if _, err := ParseAssertion(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %s", tt.text, err, tt.want)
		}
	}
	a, err := ParseAssertion("idle@load_15s == 0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Hold(run(t)); err == nil || err.Error() != `assertion "idle@load_15s == 0": no dump is called "load_15s"; name first, last, a number from 1 to 3 or a file` {
		t.Errorf("error %v", err)
	}
}
