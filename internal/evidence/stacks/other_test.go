package stacks

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/result"
)

// The groups that are named are those of "other" alone, and only where it is the
// majority of a dump that counts everyone.
func TestLargestOther(t *testing.T) {
	groups := []result.Group{
		{Where: UpstreamRead, Frame: "main.call", Count: 500},
		{Where: Other, Frame: "a", Count: 1}, {Where: Other, Frame: "b", Count: 7}, {Where: Other, Frame: "c", Count: 2}, {Where: Other, Frame: "d", Count: 2},
	}
	dump := func(goroutines, workers, other int) result.Dump {
		return result.Dump{Goroutines: goroutines, Workers: workers, Where: map[string]int{Other: other, UpstreamRead: goroutines - other}, Groups: groups}
	}
	for _, tt := range []struct {
		name string
		dump result.Dump
		want []string
	}{
		{"the majority", dump(20, 0, 11), []string{"b", "c", "d"}},
		{"half", dump(20, 0, 10), nil},
		{"of workers", dump(20, 20, 11), nil},
		{"of a pool without a worker", result.Dump{Goroutines: 3, Where: map[string]int{Other: 0}, Groups: groups}, nil},
		{"no groups", result.Dump{Goroutines: 3, Where: map[string]int{Other: 3}}, nil},
	} {
		var got []string
		for _, g := range LargestOther(tt.dump) {
			got = append(got, g.Frame)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	if groups[0].Count != 500 || groups[1].Frame != "a" {
		t.Error("the groups of the dump were moved")
	}
}
