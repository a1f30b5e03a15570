package threshold

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/load/latency"
	"chokepoint/internal/result"
)

// load has 100 responses of fast, 1 to 100 ms, of which the last failed, and one
// of slow, 2 s.
func load() (map[string]result.Endpoint, map[string]latency.Responses) {
	responses := func(ok, failed []time.Duration) latency.Responses {
		r := latency.Responses{All: latency.New(), OK: latency.New(), Failed: latency.New()}
		for _, d := range ok {
			r.OK.Record(d)
		}
		for _, d := range failed {
			r.Failed.Record(d)
		}
		r.All.Merge(r.OK)
		r.All.Merge(r.Failed)
		return r
	}
	var ok []time.Duration
	for i := range 99 {
		ok = append(ok, time.Duration(i+1)*time.Millisecond)
	}
	return map[string]result.Endpoint{
			"fast": {Scheduled: 100, OK: 99},
			"slow": {Scheduled: 4, OK: 1, Dropped: 3},
			"none": {},
		}, map[string]latency.Responses{
			"fast": responses(ok, []time.Duration{100 * time.Millisecond}),
			"slow": responses([]time.Duration{2 * time.Second}, nil),
			"none": responses(nil, nil),
		}
}

func TestEvaluate(t *testing.T) {
	for _, tt := range []struct {
		text string
		unit string
		ok   bool
	}{
		{"fast:p(95)<96ms", unitMS, true},
		{"fast:p(95)<95", unitMS, false}, // plain milliseconds, as in k6
		{"fast:p(95) >= 0.095s", unitMS, true},
		{"fast : p( 99.9 ) > 99ms", unitMS, true},
		{"p(100)==2s", unitMS, true},
		{"fast:med<=50.1ms", unitMS, true},
		{"fast:min==1ms", unitMS, true},
		{"fast:max==100ms", unitMS, true},
		{"fast:max!=100ms", unitMS, false},
		{"max>1.9s", unitMS, true}, // all together
		{"fast:failed<=1%", unitRatio, true},
		{"fast:failed<1%", unitRatio, false},
		{"failed<0.04", unitRatio, true}, // 4 of 104
		{"failed<3.8%", unitRatio, false},
		{"slow:failed==75%", unitRatio, true},
		{"dropped==0", unitCount, false},
		{"fast:dropped==0", unitCount, true},
		{"slow:dropped>3", unitCount, false},
		{"count==104", unitCount, true},
		{"fast:count>=100", unitCount, true},
		{"fast{expected_response:true}:max==99ms", unitMS, true},
		{"fast{expected_response: false} : min==100ms", unitMS, true},
		{"fast{ok}:p(100)<=99ms", unitMS, true},
		{"{ok}:max==2s", unitMS, true}, // all together
		{"{failed}:max<=100ms", unitMS, true},
	} {
		t.Run(tt.text, func(t *testing.T) {
			threshold, err := Parse(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			endpoints, responses := load()
			got := EvaluateAll([]Threshold{threshold}, endpoints, responses)
			if len(got) != 1 || got[0].Text != tt.text || got[0].Unit != tt.unit || got[0].OK != tt.ok || got[0].Got == nil {
				t.Errorf("%+v, want ok %v in %s", got, tt.ok, tt.unit)
			}
		})
	}
}

func TestWhatWasNotMeasuredIsNotMet(t *testing.T) {
	endpoints, responses := load()
	for _, text := range []string{"none:p(95)<200ms", "none:failed<1%", "none:max>=0", "slow{failed}:p(95)<1h"} {
		threshold, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := EvaluateAll([]Threshold{threshold}, endpoints, responses); got[0].OK || got[0].Got != nil {
			t.Errorf("%s: %+v, want not met and no figure", text, got[0])
		}
	}
}

func TestEvaluateAllKeepsTheOrder(t *testing.T) {
	endpoints, responses := load()
	var all []Threshold
	var want []string
	for _, text := range []string{"dropped==0", "fast:p(95)<1s", "slow:dropped==3"} {
		threshold, err := Parse(" " + text + " ")
		if err != nil {
			t.Fatal(err)
		}
		all, want = append(all, threshold), append(want, text)
	}
	var got []string
	for _, r := range EvaluateAll(all, endpoints, responses) {
		got = append(got, r.Text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if EvaluateAll(nil, endpoints, responses) != nil {
		t.Error("no thresholds gave some")
	}
}

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "not [endpoint[{part}]:]metric operator value"},
		{"fast", "not [endpoint[{part}]:]metric operator value"},
		{"p(95)=200ms", "not [endpoint[{part}]:]metric operator value"},
		{"p(95)<", "not [endpoint[{part}]:]metric operator value"},
		{"p(95)<200 ms", "not [endpoint[{part}]:]metric operator value"},
		{"a b:p(95)<200ms", "not [endpoint[{part}]:]metric operator value"},
		{"p(95)<200ms\np(99)<1s", "not [endpoint[{part}]:]metric operator value"},
		{":p(95)<200ms", "not [endpoint[{part}]:]metric operator value"},
		{"fast{}:p(95)<200ms", "not [endpoint[{part}]:]metric operator value"},
		{"fast{status:200}:p(95)<200ms", "{status:200} is no part of the responses: there are {ok} or {expected_response:true}"},
		{"{ok}:failed<1%", "{ok} goes with response times only"},
		{"avg<200ms", "a mean hides the slow answers; take med or a percentile"},
		{"rate<1%", `unknown metric "rate": there are p(N), med, min, max, failed, dropped and count`},
		{"p<1s", `unknown metric "p"`},
		{"p(0)<1s", `"0" is not a percentile above 0 and up to 100`},
		{"p(101)<1s", `"101" is not a percentile`},
		{"p(many)<1s", `"many" is not a percentile`},
		{"p(95)<soon", `"soon" is not a duration such as 200ms`},
		{"p(95)<-1s", `"-1s" is not a duration`},
		{"p(95)<NaN", `"NaN" is not a duration`},
		{"failed<200ms", `"200ms" is not a share`},
		{"failed<101%", `"101%" is not a share`},
		{"dropped<0.5", `"0.5" is not a whole number`},
		{"dropped<=-1", `"-1" is not a whole number`},
	} {
		t.Run(tt.text, func(t *testing.T) {
			_, err := Parse(tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasSuffix(err.Error(), example) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q and an example", err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"fast:p(95)<200ms", "failed<1%", "dropped==0", "p(1e-9)>1e300", "a:b:c", "p(()<1", "med!=1h", "fast{expected_response:true}:p(95)<1s", "{ok}:max<1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		threshold, err := Parse(text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") || !strings.HasSuffix(err.Error(), example) {
				t.Errorf("error %q is not one line with an example", err)
			}
			return
		}
		again, err := Parse(threshold.String())
		if err != nil || again.limit != threshold.limit || again.operator != threshold.operator || again.endpoint != threshold.endpoint {
			t.Errorf("%q reads differently the second time: %v", threshold, err)
		}
		endpoints, responses := load()
		EvaluateAll([]Threshold{threshold}, endpoints, responses)
	})
}
