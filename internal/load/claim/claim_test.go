package claim

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func TestNoTwoGetTheSameShard(t *testing.T) {
	dir := t.TempDir()
	const shards, generators = 5, 20
	var mu sync.Mutex
	var indices []int
	var claims []*Claim
	refused := 0
	var all sync.WaitGroup
	for range generators {
		all.Go(func() {
			c, err := Take(dir, "plan", start, shards)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				refused++
				return
			}
			indices, claims = append(indices, c.Index), append(claims, c)
		})
	}
	all.Wait()
	slices.Sort(indices)
	if !slices.Equal(indices, []int{0, 1, 2, 3, 4}) || refused != generators-shards {
		t.Errorf("shards %v and %d refused, want each of 5 once and 15 refused", indices, refused)
	}
	_, err := Take(dir, "plan", start, shards)
	if want := "all 5 shards of the plan that starts at 2026-01-02T03:04:05.000000006Z are claimed in " + dir; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	for _, c := range claims {
		if err := c.Release(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v left behind (%v)", left, err)
	}
}

func TestAnotherPlanOrStartHasItsOwnShards(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		plan string
		at   time.Time
		of   int
	}{{"a", start, 1}, {"b", start, 1}, {"a", start.Add(time.Nanosecond), 1}, {"a", start, 2}} {
		if got, err := Take(dir, c.plan, c.at, c.of); err != nil || got.Index != 0 {
			t.Errorf("plan %s of %d from %v: %v, want its shard 0", c.plan, c.of, c.at, err)
		}
	}
}

func TestAFolderThatIsNone(t *testing.T) {
	_, err := Take(filepath.Join(t.TempDir(), "none"), "plan", start, 2)
	if err == nil || !strings.Contains(err.Error(), "none: no such file or directory; give a folder that every shard can write to") {
		t.Errorf("error %v", err)
	}
}
