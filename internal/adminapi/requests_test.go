package adminapi

import "testing"

// TestParseRequestLog: of the two lines of a run the later one counts, and a line that a
// killed stub has not finished is none.
func TestParseRequestLog(t *testing.T) {
	const (
		first  = `{"server":"was1","number":1,"id":"a","end":""}` + "\n"
		second = `{"server":"was1","number":2,"id":"b"}` + "\n"
		ended  = `{"server":"was1","number":1,"id":"a","end":"answered"}` + "\n"
	)
	runs, err := ParseRequestLog([]byte(first + second + ended + second[:20]))
	if err != nil || len(runs) != 2 || runs[0].ID != "a" || runs[0].End != EndAnswered || runs[1].ID != "b" || runs[1].End != "" {
		t.Errorf("runs %+v, %v", runs, err)
	}
	if _, err := ParseRequestLog([]byte(first + second[:20] + "\n" + ended)); err == nil {
		t.Error("a line in the middle that is no JSON is taken")
	}
	if runs, err := ParseRequestLog(nil); len(runs) != 0 || err != nil {
		t.Errorf("an empty log: %v, %v", runs, err)
	}
}
