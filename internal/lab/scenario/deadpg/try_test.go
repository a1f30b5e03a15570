package deadpg_test

import (
	"context"
	"os"
	"testing"
	"time"

	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/netlab/netlabtest"
	"chokepoint/internal/lab/scenario/deadpg"
)

func TestMain(m *testing.M) { os.Exit(netlabtest.Main(m)) }

func TestTry(t *testing.T) {
	netlabtest.Need(t)
	gate := make(chan struct{}, 2)
	cases := deadpg.Cases(deadpg.Settings{DeviceIdle: 3 * time.Second, Rest: 4 * time.Second, Timeout: 3 * time.Second, Victim: "/tmp/w/device-tmp/bin/victim"},
		func(ctx context.Context, f func() error) error {
			gate <- struct{}{}
			defer func() { <-gate }()
			return f()
		})
	start := time.Now()
	got, err := matrix.Run(t.Context(), cases, matrix.Options{Dir: "/tmp/w/device-tmp/pg", Parallel: 20, Progress: t.Logf}, nil)
	t.Log(time.Since(start), err)
	for _, c := range got {
		t.Logf("%v %s %s %s\n   want %s\n   got  %s\n   %s %s", c.OK, c.ID, c.Defence, c.Failure, c.Want, c.Got, c.Error, c.Settings)
	}
}
