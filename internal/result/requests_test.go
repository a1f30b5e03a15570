package result

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const requestsHeader = "id,endpoint,due_ns,lag_ns,service_ns,response_ns,outcome,cause,status\n"

func TestRequestsAreWrittenAsTheContractSays(t *testing.T) {
	path := filepath.Join(t.TempDir(), RequestsFile)
	requests := []Request{
		{ID: "fast-0", Endpoint: "fast", Lag: 1200, Service: 2 * time.Millisecond, Response: 2*time.Millisecond + 1200, Outcome: "ok", Status: 200},
		{ID: "upstream-0", Endpoint: "upstream", Due: 50 * time.Millisecond, Lag: 1, Service: time.Minute, Response: time.Minute + 1, Outcome: "timeout", Cause: "response"},
		{ID: "fast-1", Endpoint: "fast", Due: 50 * time.Millisecond, Outcome: "dropped"},
		{ID: "fast-2", Endpoint: "fast", Due: time.Second, Lag: time.Minute, Response: time.Minute, Outcome: "timeout", Cause: CauseUnsent},
	}
	if err := WriteRequests(path, requests); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := requestsHeader +
		"fast-0,fast,0,1200,2000000,2001200,ok,,200\n" +
		"upstream-0,upstream,50000000,1,60000000000,60000000001,timeout,response,\n" +
		"fast-1,fast,50000000,,,,dropped,,\n" +
		"fast-2,fast,1000000000,60000000000,,60000000000,timeout,unsent,\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRequestsRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), RequestsFile)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z:"', \n-]{0,12}`)
		span := rapid.Int64Range(0, int64(time.Hour))
		requests := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Request {
			r := Request{
				ID: text.Draw(t, "id"), Endpoint: text.Draw(t, "endpoint"), Due: time.Duration(span.Draw(t, "due")),
				Outcome: rapid.SampledFrom([]string{"ok", "http_error", "timeout", "interrupted", "dropped"}).Draw(t, "outcome"),
				Cause:   text.Draw(t, "cause"), Status: rapid.SampledFrom([]int{0, 200, 504}).Draw(t, "status"),
			}
			if r.Outcome != "dropped" {
				r.Lag, r.Service, r.Response = time.Duration(span.Draw(t, "lag")), time.Duration(span.Draw(t, "service")), time.Duration(span.Draw(t, "response"))
			}
			return r
		}), 0, 4).Draw(t, "requests")
		if err := WriteRequests(path, requests); err != nil {
			t.Fatal(err)
		}
		got, err := ReadRequests(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(requests) == 0 {
			requests = nil
		}
		if diff := cmp.Diff(requests, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func TestMalformedRequestsNameTheFileAndTheLine(t *testing.T) {
	const good = "fast-0,fast,0,1,2,3,ok,,200\n"
	for _, test := range []struct{ name, text, want string }{
		{"nothing", "", "is empty; requests.csv starts with its header"},
		{"no header", good, `line 1 is "fast-0,fast,0,1,2,3,ok,,200", want "id,endpoint,`},
		{"columns in another order", strings.Replace(requestsHeader, "id,endpoint", "endpoint,id", 1) + good, `line 1 is "endpoint,id,`},
		{"a row cut short", requestsHeader + good + "fast-1,fast,50", "record on line 3: wrong number of fields"},
		{"a quote that does not end", requestsHeader + good + "\"fast-1,fast,0,1,2,3,ok,,200\n", "line 3"},
		{"a header without an end", strings.Repeat("x", 1<<20) + ",b,c,d,e,f,g,h,i\n", `line 1 is "` + strings.Repeat("x", 100) + `", want`},
		{"a time without an end", requestsHeader + "a,a," + strings.Repeat("x", 1<<20) + ",1,2,3,ok,,200\n", `due_ns is "` + strings.Repeat("x", 40) + `", want`},
		{"a time with a unit", requestsHeader + good + "fast-1,fast,50ms,1,2,3,ok,,200\n", `line 3: due_ns is "50ms", want nanoseconds`},
		{"a response that is none", requestsHeader + "fast-0,fast,0,1,2,1e9,ok,,200\n", `line 2: response_ns is "1e9", want nanoseconds`},
		{"a time before the start", requestsHeader + "fast-0,fast,-1,1,2,3,ok,,200\n", "line 2: due_ns is -1, want nanoseconds from 0 to a year"},
		{"a time that overflows", requestsHeader + "fast-0,fast,0,1,2,9223372036854775807,ok,,200\n", "line 2: response_ns is 9223372036854775807, want nanoseconds from 0 to a year"},
		{"a status that is none", requestsHeader + good + good + "fast-2,fast,0,1,2,3,ok,,OK\n", `line 4: status is "OK", want a number`},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), RequestsFile)
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := ReadRequests(path)
			wantError(t, err, path, test.want)
			if got != nil {
				t.Errorf("%d requests beside an error", len(got))
			}
		})
	}
	if _, err := ReadRequests(filepath.Join(t.TempDir(), "absent.csv")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// wantError wants one line that names the file and says what is wrong with it.
func wantError(t *testing.T, err error, path, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", want)
	}
	text := err.Error()
	if !strings.Contains(text, path) || !strings.Contains(text, want) || strings.Contains(text, "\n") {
		t.Errorf("error %q, want one line with %q and %q", text, path, want)
	}
}
