package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/result"
)

func TestALedgerSurvivesTheFile(t *testing.T) {
	whole, parts := &Ledger{Planned: 7, Scheduled: 7, Started: 6, Dropped: 1}, [2]*Ledger{{Planned: 4, Scheduled: 4, Started: 4}, {Planned: 3, Scheduled: 3, Started: 2, Dropped: 1}}
	for i, a := range []Answer{
		{Outcome: OK, Status: 200}, {Outcome: OK, Status: 204}, {Outcome: HTTPError, Status: 503, ErrorBody: "overloaded"},
		{Outcome: Timeout, Cause: "response"}, {Outcome: ConnectError, Cause: "refused"}, {Outcome: Interrupted},
	} {
		whole.Finish(a)
		parts[i/4].Finish(a)
	}
	var want result.Endpoint
	whole.Fill(&want)

	sum := &Ledger{}
	for _, part := range parts {
		var e result.Endpoint
		part.Fill(&e)
		read, err := Of(e, result.ModelOpen)
		if err != nil {
			t.Fatal(err)
		}
		if err := read.Check(); err != nil {
			t.Error(err)
		}
		sum.Add(read)
	}
	var got result.Endpoint
	sum.Fill(&got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the sum of the parts is not the whole (-whole +sum):\n%s", diff)
	}
	if _, err := Of(result.Endpoint{Status: map[string]int{"fine": 1}}, result.ModelOpen); err == nil {
		t.Error("a status that is not a number was taken")
	}
}
