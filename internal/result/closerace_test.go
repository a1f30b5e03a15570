package result_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/result"
)

func TestCloseRaceIsReadAsItWasWritten(t *testing.T) {
	points := []result.CloseRacePoint{
		{Client: result.ClientNetHTTP, Method: "POST", Defence: "none", OffsetMS: -2, WidthMS: 1, Requests: 120, Failed: 1},
		{Client: result.ClientFastHTTP, Method: "POST", Defence: "none", OffsetMS: 0.5, WidthMS: 1, Requests: 90, Failed: 40, FailedButExecuted: 1, ExecutedTwice: 2, Renewed: 3},
	}
	path := filepath.Join(t.TempDir(), result.CloseRaceFile)
	if err := result.WriteCloseRace(path, points); err != nil {
		t.Fatal(err)
	}
	got, err := result.ReadCloseRace(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(points, got); diff != "" {
		t.Errorf("read back (-written +read):\n%s", diff)
	}
	if n := got[1].NeverReached(); n != 39 {
		t.Errorf("of 40 that failed and 1 that was executed %d never reached a handler, want 39", n)
	}
}

func TestCloseRaceSaysWhatIsWrongWithAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), result.CloseRaceFile)
	if err := result.WriteCloseRace(path, []result.CloseRacePoint{{Client: "fasthttp", Method: "GET", Defence: "none", OffsetMS: 7, WidthMS: 1, Requests: 5}}); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, from, to, want string }{
		{"empty", string(whole), "", "is empty"},
		{"header", "offset_ms", "offset", "line 1"},
		{"offset", ",7,", ",NaN,", `line 2: offset_ms is "NaN"`},
		{"count", ",5,", ",-5,", `line 2: requests is "-5"`},
		{"sum", ",5,0,0,", ",5,6,0,", "line 2: a part is larger than its whole"},
		{"cut", ",5,0", ",5", "is not what a run writes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := strings.Replace(string(whole), tc.from, tc.to, 1)
			if text == string(whole) {
				t.Fatal("the file has not changed")
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := result.ReadCloseRace(path); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}
