package result

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestADamagedLoadIsRefused(t *testing.T) {
	const good = `{"schema": "chokepoint/load/v1", "started_at": "2026-01-02T03:04:05Z", "window_s": 1, "elapsed_s": 1.5,
		"validity": {"valid": true, "reasons": []}, "drops_per_second": {"fast": [0]}, "generator": {"cpu_seconds": 1, "run_queue_wait_ms": 2},
		"endpoints": {"fast": {"planned": 10, "scheduled": 10, "started": 10, "ok": 10, "status": {"200": 10}, "failed_ratio": 0, "achieved_rate": 10,
			"response_ms": {"min": 1, "p50": 2, "p90": 3, "p95": 3, "p99": 4, "max": 5, "count": 10}}}}`
	for _, tt := range []struct{ name, old, new, want string }{
		{"a count below 0", `"ok": 10`, `"ok": -5`, "fast.ok is -5, below 0"},
		{"answers below 0", `{"200": 10}`, `{"200": -10}`, `fast.status."200" is -10, below 0`},
		{"drops below 0", `[0]`, `[0, -3]`, "drops_per_second.fast has -3"},
		{"a window below 0", `"window_s": 1`, `"window_s": -1`, "window_s is -1, below 0"},
		{"CPU time below 0", `"cpu_seconds": 1`, `"cpu_seconds": -1`, "generator.cpu_seconds is -1, below 0"},
		{"a rate below 0", `"achieved_rate": 10`, `"achieved_rate": -7`, "fast.achieved_rate is -7, below 0"},
		{"a ratio above 1", `"failed_ratio": 0`, `"failed_ratio": 7`, "fast.failed_ratio is 7, above 1"},
		{"a time below 0", `"min": 1`, `"min": -1`, "fast.response_ms.min is -1, below 0"},
		{"a number of values below 0", `"count": 10`, `"count": -1`, "fast.response_ms.count is -1, below 0"},
		{"percentiles that decrease", `"p50": 2`, `"p50": 3.5`, "fast.response_ms.p90 is 3, below p50, which is 3.5"},
		{"a maximum that is none", `"max": 5`, `"p99_9": 6, "max": 5`, "fast.response_ms.max is 5, below p99_9, which is 6"},
		{"NaN", `"p50": 2`, `"p50": NaN`, "invalid character 'N'"},
		{"beyond a float", `"p50": 2`, `"p50": 1e999`, "endpoints.response_ms.p50 holds a JSON number 1e999"},
		{"a text for a number", `"ok": 10`, `"ok": "ten"`, "endpoints.ok holds a JSON string"},
		{"a name that forges a line", `"fast": {"planned"`, `"a\nvalid": {"planned"`, `an endpoint is named "a\nvalid"`},
		{"valid in spite of a reason", `"reasons": []`, `"reasons": ["dropped"]`, `it is valid, with a reason against it: "dropped"`},
		{"nothing", good, "", "it is empty"},
		{"cut off", `"count": 10}}}}`, "", "unexpected end of JSON input"},
		{"a list", good, "[]", "it holds a JSON array"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "load.json")
			read := func(text string) error {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				_, err := ReadLoad(path)
				return err
			}
			if err := read(good); err != nil {
				t.Fatalf("undamaged: %v", err)
			}
			if strings.Count(good, tt.old) != 1 {
				t.Fatalf("%q is not in the text once", tt.old)
			}
			err := read(strings.Replace(good, tt.old, tt.new, 1))
			if err == nil || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), path+" is not what a run writes: "+tt.want) {
				t.Errorf("error %v, want one line with %q", err, tt.want)
			}
		})
	}
}
