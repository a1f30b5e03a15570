package merge

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/result"
)

// shardOf makes a result that of shard i of n, of a plan of 10 arrivals for each.
func shardOf(i, n int, change func(*result.Load)) func(*result.Load) {
	return func(l *result.Load) {
		l.Shard = &result.Shard{Index: i, Of: n, Plan: "p", StartAt: epoch, Planned: map[string]int{"fast": 10 * n}}
		if change != nil {
			change(l)
		}
	}
}

// tenOK is a run of ten good answers in a second.
var tenOK = run{window: time.Second, ok: slices.Repeat([]time.Duration{ms}, 10)}

func TestShardsAreOnePlan(t *testing.T) {
	for _, tt := range []struct {
		name       string
		there      []int // of 4
		unreadable bool  // the last one is cut off
		incomplete []string
		ok         int
	}{
		{"all", []int{2, 0, 3, 1}, false, nil, 40},
		{"one missing", []int{0, 1, 3}, false, []string{"shard 2 of 4 is missing (they count from 0), and nothing is scaled up for it"}, 30},
		{"the first missing", []int{1, 2, 3}, false, []string{"shard 0 of 4 is missing (they count from 0), and nothing is scaled up for it"}, 30},
		{"one alone", []int{1}, false, []string{"shards 0, 2-3 of 4 are missing (they count from 0), and nothing is scaled up for them"}, 10},
		{"one unreadable", []int{0, 1, 2, 3}, true, []string{"shard3.json", "shard 3 of 4 is missing (they count from 0), and nothing is scaled up for it"}, 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			var paths []string
			for _, i := range tt.there {
				paths = append(paths, tenOK.write(t, dir, "shard"+string(rune('0'+i))+".json", shardOf(i, 4, nil)))
			}
			if tt.unreadable {
				if err := os.Truncate(paths[len(paths)-1], 20); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Files(paths, 0)
			if err != nil {
				t.Fatal(err)
			}
			sameIncomplete(t, tt.incomplete, got.Load)
			e := got.Load.Endpoints["fast"]
			if e.Planned != 40 || e.TargetRate != 40 || e.Scheduled != tt.ok || e.OK != tt.ok || e.AchievedRate != float64(tt.ok) || e.Response.Count != int64(tt.ok) {
				t.Errorf("%+v, want 40 planned at 40/s and %d of them, at that rate", e, tt.ok)
			}
			if m := got.Load.Merged; m.Shards != 4 || m.Plan != "p" || got.Load.Shard != nil {
				t.Errorf("merged %+v and shard %+v", m, got.Load.Shard)
			}
		})
	}
}

// sameIncomplete checks what is said to be missing, by its ends.
func sameIncomplete(t *testing.T, want []string, l result.Load) {
	t.Helper()
	got := l.Merged.Incomplete
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = strings.Contains(got[i], want[i])
	}
	if !same {
		t.Errorf("incomplete %q, want %q", got, want)
	}
	if l.Validity.Valid != (len(want) == 0) || len(l.Validity.Reasons) != len(want) {
		t.Errorf("validity %+v", l.Validity)
	}
}

func TestADoubledShardCountsOnce(t *testing.T) {
	dir := t.TempDir()
	got, err := Files([]string{
		tenOK.write(t, dir, "a.json", shardOf(0, 2, nil)), tenOK.write(t, dir, "b.json", shardOf(1, 2, nil)),
		tenOK.write(t, dir, "c.json", shardOf(1, 2, nil)),
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	sameIncomplete(t, []string{"shard 1 of 2 is there twice: " + filepath.Join(dir, "b.json") + " is counted, and " + filepath.Join(dir, "c.json") + " is left out"}, got.Load)
	if e := got.Load.Endpoints["fast"]; e.OK != 20 || e.Planned != 20 || e.AchievedRate != 20 {
		t.Errorf("%+v, want each shard once", e)
	}
	if diff := cmp.Diff([]string{filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")}, got.Load.Merged.Files); diff != "" {
		t.Error(diff)
	}
}

func TestAnInvalidShardMakesThePlanInvalid(t *testing.T) {
	dir := t.TempDir()
	late := func(l *result.Load) { l.Validity = result.Validity{Reasons: []string{"too late"}} }
	got, err := Files([]string{tenOK.write(t, dir, "a.json", shardOf(0, 2, nil)), tenOK.write(t, dir, "b.json", shardOf(1, 2, late))}, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := result.Validity{Reasons: []string{filepath.Join(dir, "b.json") + ": too late"}}
	if diff := cmp.Diff(want, got.Load.Validity); diff != "" {
		t.Error(diff)
	}
}

func TestShardsThatDoNotAddUp(t *testing.T) {
	dir := t.TempDir()
	more := func(l *result.Load) { l.Shard.Planned["fast"] = 21 }
	unknown := func(l *result.Load) { l.Shard.Planned = nil }
	for _, tt := range []struct {
		name   string
		change func(*result.Load)
		want   string
	}{
		{"more planned", more, "fast: the 2 shards have 20 arrivals together, and the plan has 21"},
		{"nothing planned", unknown, "fast: shard 0 does not say how many arrivals the plan has for it"},
	} {
		got, err := Files([]string{tenOK.write(t, dir, "a.json", shardOf(0, 2, tt.change)), tenOK.write(t, dir, "b.json", shardOf(1, 2, tt.change))}, 0)
		if err != nil {
			t.Fatal(err)
		}
		sameIncomplete(t, []string{tt.want}, got.Load)
	}
}

func TestWhatIsNotOneSplitIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		second func(*result.Load)
		want   string
	}{
		{"another plan", shardOf(1, 2, func(l *result.Load) { l.Shard.Plan = "q" }), "a.json is a shard of plan p and "},
		{"another number", shardOf(1, 3, nil), "a.json is one of 2 shards and "},
		{"another start", shardOf(1, 2, func(l *result.Load) { l.Shard.StartAt = epoch.Add(ms) }), "a.json started at 2026-01-02T03:04:05.678Z and "},
		{"no shard", nil, "a.json is shard 0 of 2 and "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			a, b := tenOK.write(t, dir, "a.json", shardOf(0, 2, nil)), tenOK.write(t, dir, "b.json", tt.second)
			for _, paths := range [][]string{{a, b}, {b, a}} {
				_, err := Files(paths, 0)
				if !errors.Is(err, ErrApart) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error %v, want one line that they do not belong together", err)
				}
			}
			if _, err := Files([]string{a, b}, 0); !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestAShardThatCannotBe(t *testing.T) {
	for _, shard := range []result.Shard{{Index: 2, Of: 2}, {Index: -1, Of: 2}, {Index: 0, Of: 0}, {Index: 0, Of: 1 << 40}} {
		path := tenOK.write(t, t.TempDir(), "a.json", func(l *result.Load) { l.Shard = &shard })
		if _, err := Files([]string{path}, 0); err == nil || !strings.Contains(err.Error(), "which there cannot be") {
			t.Errorf("%+v: error %v", shard, err)
		}
	}
}
