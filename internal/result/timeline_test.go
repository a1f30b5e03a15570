package result

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const timelineHeader = "at_s,phase,workers,busy,queued,permits_held,breaker,accept_queue,connections,cpu_percent,rss_bytes,goroutines," +
	"fast_p50_ms,fast_p99_ms,fast_done,fast_failed,upstream_done,upstream_failed,marks\n"

func TestTimelineIsWrittenAsTheContractSays(t *testing.T) {
	p50, p99 := 2.5, 30000.0
	path := filepath.Join(t.TempDir(), TimelineFile)
	err := WriteTimeline(path, []TimelineRow{
		{AtS: -1.5, Phase: "baseline", Workers: 10, Breaker: "none"},
		{AtS: 15, Phase: "load", Workers: 200, Busy: 200, Queued: 311, PermitsHeld: 20, Breaker: "half-open", AcceptQueue: 1,
			Connections: 512, CPUPercent: 2.25, RSSBytes: 3 << 30, Goroutines: 723, FastP50MS: &p50, FastP99MS: &p99,
			FastDone: 20, FastFailed: 19, UpstreamDone: 18, UpstreamFailed: 17, Marks: []string{"dump:load_15s", "a,b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := timelineHeader +
		"-1.5,baseline,10,0,0,0,none,0,0,0,0,0,,,0,0,0,0,\n" +
		"15,load,200,200,311,20,half-open,1,512,2.25,3221225472,723,2.5,30000,20,19,18,17,\"dump:load_15s;a,b\"\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTimelineRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), TimelineFile)
	rapid.Check(t, func(t *rapid.T) {
		optional := rapid.Ptr(rapid.Float64Range(0, 1e6), true)
		count := rapid.IntRange(0, 1<<40)
		text := rapid.StringMatching(`[a-z:"', _-]{0,12}`)
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) TimelineRow {
			return TimelineRow{
				AtS: rapid.Float64Range(-1e3, 1e3).Draw(t, "at"), Phase: text.Draw(t, "phase"), Workers: count.Draw(t, "workers"),
				Busy: count.Draw(t, "busy"), Queued: count.Draw(t, "queued"), PermitsHeld: count.Draw(t, "permits"),
				Breaker: text.Draw(t, "breaker"), AcceptQueue: count.Draw(t, "accept"), Connections: count.Draw(t, "connections"),
				CPUPercent: rapid.Float64Range(0, 1e4).Draw(t, "cpu"), RSSBytes: int64(count.Draw(t, "rss")),
				Goroutines: count.Draw(t, "goroutines"), FastP50MS: optional.Draw(t, "p50"), FastP99MS: optional.Draw(t, "p99"),
				FastDone: count.Draw(t, "fd"), FastFailed: count.Draw(t, "ff"), UpstreamDone: count.Draw(t, "ud"), UpstreamFailed: count.Draw(t, "uf"),
				Marks: rapid.SliceOfN(rapid.StringMatching(`[a-z:"', _-]{1,12}`), 0, 3).Draw(t, "marks"),
			}
		}), 0, 4).Draw(t, "rows")
		if err := WriteTimeline(path, rows); err != nil {
			t.Fatal(err)
		}
		got, err := ReadTimeline(path)
		if err != nil {
			t.Fatal(err)
		}
		emptyIsNil := cmp.Transformer("emptyIsNil", func(s []string) []string {
			if len(s) == 0 {
				return nil
			}
			return s
		})
		if diff := cmp.Diff(append([]TimelineRow(nil), rows...), got, cmp.FilterPath(func(p cmp.Path) bool {
			return p.Last().String() == ".Marks"
		}, emptyIsNil)); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

func TestReadTimelineErrors(t *testing.T) {
	row := "1,load,1,1,1,1,none,1,1,1,1,1,,,1,1,1,1,\n"
	for _, tt := range []struct{ name, content, want string }{
		{"empty", "", "is empty"},
		{"column missing", "at_s,phase\n1,load\n", `has no column "workers"`},
		{"not a number", timelineHeader + row + strings.Replace(row, "1,load,1", "1,load,many", 1), `row 2 has "many" as workers`},
		{"infinite", timelineHeader + strings.Replace(row, "1,load", "+Inf,load", 1), `row 1 has "+Inf" as at_s`},
		{"beyond any run", timelineHeader + strings.Replace(row, "1,load", "-1e308,load", 1), `row 1 has "-1e308" as at_s, which is out of range`},
		{"more than an int", timelineHeader + strings.Replace(row, "1,load,1", "1,load,9223372036854775808", 1), `row 1 has "9223372036854775808" as workers, which is out of range`},
		{"short row", timelineHeader + "1,load\n", "not a timeline"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), TimelineFile)
			if err := os.WriteFile(path, []byte(tt.content), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := ReadTimeline(path)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, tt.want)
			}
		})
	}
	if _, err := ReadTimeline(filepath.Join(t.TempDir(), TimelineFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file gives %v, want fs.ErrNotExist", err)
	}
}

func TestReadTimelineTakesUnknownColumns(t *testing.T) {
	path := filepath.Join(t.TempDir(), TimelineFile)
	content := "later," + timelineHeader + "x,1,load,2,3,4,5,none,6,7,8,9,10,,,11,12,13,14,\n"
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := ReadTimeline(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []TimelineRow{{AtS: 1, Phase: "load", Workers: 2, Busy: 3, Queued: 4, PermitsHeld: 5, Breaker: "none", AcceptQueue: 6,
		Connections: 7, CPUPercent: 8, RSSBytes: 9, Goroutines: 10, FastDone: 11, FastFailed: 12, UpstreamDone: 13, UpstreamFailed: 14}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), EventsFile)
	for _, want := range [][]Event{
		{},
		{{AtS: 0, Name: "load_on"}, {AtS: 15, Name: "dump", Detail: "load_15s", PauseMS: 4.5}},
	} {
		if err := WriteEvents(path, want); err != nil {
			t.Fatal(err)
		}
		got, err := ReadEvents(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	if err := os.WriteFile(path, []byte(`{"at_s": 1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadEvents(path); err == nil || !strings.Contains(err.Error(), "is not what a run writes") {
		t.Errorf("an object instead of a list gives %v", err)
	}
	if err := WriteEvents(path, nil); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(path); string(data) != "[]\n" {
		t.Errorf("no events are written as %q, want an empty list", data)
	}
}
