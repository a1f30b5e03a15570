package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/result"
)

func TestWhenItBroke(t *testing.T) {
	anti, fixed := antiRun(1, 1), fixedRun(1, 1)
	mixed := antiRun(1, 1)
	e := mixed.Endpoints["fast"]
	e.HTTPError, e.Timeout = 1, 799
	mixed.Endpoints["fast"] = e
	recovered := antiRun(1, 1)
	recovered.Recovery = result.Recovery{Recovered: true, Seconds: ptr(2.5)}
	const stood = "; workers in the upstream read: 200 of 200 at +15.0 s, 200 of 200 at +40.0 s and 200 of 200 at +65.0 s"
	const lasting = stood + "; 45.0 s after the load it had not recovered."
	for _, tt := range []struct {
		name string
		run  runFolder
		want string // empty for no paragraph
	}{
		{"events", runFolder{summary: anti, events: eventsOf(anti), timeline: timelineOf(anti, -15, 110)},
			"The pool was full at +10.0 s; the first /fast failed at +40.0 s (due at +10.0 s), the last at +80.0 s" + lasting},
		{"timeline alone", runFolder{summary: anti, timeline: timelineOf(anti, -15, 110)},
			"The pool was full by +10.0 s; the first /fast failed by +40.0 s" + lasting},
		{"not all of the failed were timeouts", runFolder{summary: mixed, events: eventsOf(mixed)},
			"The pool was full at +10.0 s; the first /fast failed at +40.0 s, the last at +80.0 s" + lasting},
		{"recovered", runFolder{summary: recovered, events: eventsOf(recovered)[:2]},
			"The pool was full at +10.0 s" + stood + "; it had recovered 2.5 s after the load."},
		{"a failure beside a pool that was never full", runFolder{summary: fixed, events: []result.Event{{AtS: 3, Name: "first_fast_failed"}}},
			"The first /fast failed at +3.0 s; it had recovered 2.2 s after the load."},
		{"nothing broke", runFolder{summary: fixed, events: eventsOf(fixed), timeline: timelineOf(fixed, -15, 110)}, ""},
		{"nothing known", runFolder{summary: anti}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if b, ok := whenItBroke(tt.run); ok {
				got = inline(b.(paragraph).text, false)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
