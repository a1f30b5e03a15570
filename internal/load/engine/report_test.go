package engine

import (
	"testing"

	"chokepoint/internal/result"
)

func TestDropStretches(t *testing.T) {
	at := func(seconds ...int) []result.DropSecond {
		var all []result.DropSecond
		for _, s := range seconds {
			all = append(all, result.DropSecond{Second: s, Dropped: 2, FirstDueNS: int64(s)*1e9 + 1e8, LastDueNS: int64(s)*1e9 + 9e8})
		}
		return all
	}
	for _, test := range []struct {
		drops []result.DropSecond
		want  string
	}{
		{nil, ""},
		{[]result.DropSecond{{Second: 1, Dropped: 1, FirstDueNS: 14e8, LastDueNS: 14e8}}, " at 1.4 s"},
		{at(12), " from 12.1 to 12.9 s"},
		{at(12, 13, 14), " from 12.1 to 14.9 s"},
		{at(0, 2, 3), " from 0.1 to 0.9 s, from 2.1 to 3.9 s"},
		{at(0, 2, 4, 6, 8), " from 0.1 to 0.9 s, from 2.1 to 2.9 s, from 4.1 to 4.9 s, and 2 times more"},
	} {
		if got := dropStretches(test.drops); got != test.want {
			t.Errorf("%v: %q, want %q", test.drops, got, test.want)
		}
	}
}
