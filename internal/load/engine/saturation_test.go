package engine

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/load/latency"
	"chokepoint/internal/result"
)

func TestOwnLimits(t *testing.T) {
	const (
		busy = "the generator's own limit: its pacing thread was busy for 95 % or more of 12 of 30 seconds (at most 99 %), and it has one CPU; " +
			"lower the rate, play it with more loops (-loops), or share it among several generators"
		crowded = "a crowded machine: the generator's pacing thread was runnable without a CPU for 10 % or more of 3 of 30 seconds (at most 34 %); " +
			"end what else runs here, or give the generator a CPU of its own"
		pauses = "the generator's own limit: its garbage collector stopped it 7 times for 301.0 ms together, 2.0 ms at most; set GOGC or GOMEMLIMIT higher, or lower the rate"
		long   = "the generator's own limit: its garbage collector stopped it 7 times for 6.0 ms together, 5.0 ms at most; set GOGC or GOMEMLIMIT higher, or lower the rate"
	)
	for _, test := range []struct {
		name string
		s    *result.Saturation
		want []string
	}{
		{"not known", nil, nil},
		{"no whole second", &result.Saturation{PacerBusySeconds: 1}, nil},
		{"idle", &result.Saturation{Seconds: 30, CPUs: 2, PacerPercentMax: 94.9, CPUPercentMax: 189, PacerWaitPercentMax: 9.9, GCCycles: 7, GCPauseMS: 300, GCPauseMaxMS: 4.9, GCCPUPercent: 10}, nil},
		{"one thread", &result.Saturation{Seconds: 30, CPUs: 2, PacerBusySeconds: 12, PacerPercentMax: 99.2}, []string{busy}},
		{"all CPUs", &result.Saturation{Seconds: 1, CPUs: 2, CPUBusySeconds: 1, CPUPercentMax: 199}, []string{
			"the generator's own limit: it used 95 % or more of all its 2 CPUs in its one second (at most 199 %); give it more CPUs, lower the rate, or share it among several generators"}},
		{"a crowded machine", &result.Saturation{Seconds: 30, PacerWaitSeconds: 3, PacerWaitPercentMax: 34.2}, []string{crowded}},
		{"both", &result.Saturation{Seconds: 30, PacerBusySeconds: 12, PacerPercentMax: 99.2, PacerWaitSeconds: 3, PacerWaitPercentMax: 34.2}, []string{busy, crowded}},
		{"pauses together", &result.Saturation{Seconds: 30, GCCycles: 7, GCPauseMS: 301, GCPauseMaxMS: 2, GCCPUPercent: 50}, []string{pauses}},
		{"one long pause", &result.Saturation{Seconds: 30, GCCycles: 7, GCPauseMS: 6, GCPauseMaxMS: 5}, []string{long}},
		{"one long pause on a crowded machine", &result.Saturation{Seconds: 30, GCCycles: 7, GCPauseMS: 6, GCPauseMaxMS: 5, PacerWaitSeconds: 3, PacerWaitPercentMax: 34.2}, []string{crowded}},
		{"hardly any CPU, and a cycle of it", &result.Saturation{Seconds: 30, GCCycles: 1, GCCPUPercent: 31}, nil},
		{"hardly any CPU, in a second with two cycles", &result.Saturation{Seconds: 1, CPUPercentMax: 7, GCCycles: 2, GCCPUPercent: 28}, nil},
		{"the collector's CPU", &result.Saturation{Seconds: 30, CPUPercentMax: 60, GCCycles: 900, GCPauseMS: 100, GCPauseMaxMS: 1, GCCPUPercent: 31}, []string{
			"the generator's own limit: its garbage collector took 31 % of the CPU that it used, in 900 cycles; set GOGC or GOMEMLIMIT higher, or lower the rate"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, ownLimits(test.s, Config{MaxLag: DefaultMaxLag})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAClosedModelIsToldOfItsWorkersAndNotOfARate(t *testing.T) {
	s := &result.Saturation{Seconds: 30, CPUs: 2, PacerBusySeconds: 12, CPUBusySeconds: 12, GCCycles: 900, GCPauseMS: 301, GCCPUPercent: 31}
	lines := ownLimits(s, Config{MaxLag: DefaultMaxLag, Closed: 50})
	if len(lines) != 3 {
		t.Errorf("%d lines, want 3: %q", len(lines), lines)
	}
	for _, line := range lines {
		if strings.Contains(line, "lower the rate") || !strings.Contains(line, "give the model fewer workers") {
			t.Errorf("remedy in %q", line)
		}
	}
}

// TestALimitIsBlamedForWhatCameOfIt: saturation is a reason where requests were
// late or dropped, and a warning where none were.
func TestALimitIsBlamedForWhatCameOfIt(t *testing.T) {
	saturated := &result.Saturation{Seconds: 10, PacerBusySeconds: 10, PacerPercentMax: 100}
	const line = "the generator's own limit: its pacing thread was busy"
	for _, test := range []struct {
		name   string
		lag    time.Duration
		drops  int
		reason bool
		remedy string
	}{
		{"on time", 100 * time.Microsecond, 0, false, ""},
		{"a little late", 2 * time.Millisecond, 0, false, ""},
		{"late", 6 * time.Millisecond, 0, true, ""},
		{"dropped", 0, 1, true, "; give it more workers"},
		{"dropped late", 6 * time.Millisecond, 1, true, "; the generator was late, so that more workers alone may not help"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := plan(Endpoint{Name: "fast", Rate: 1}).WithDefaults()
			tl := newTally(c, 0)
			lags := latency.New()
			lags.Record(test.lag)
			e := result.Endpoint{Planned: 30, Scheduled: 30, Dropped: test.drops, Lag: lags.Percentiles()}
			v := judge(c, []*tally{tl}, result.Load{Endpoints: map[string]result.Endpoint{"fast": e}, Saturation: saturated}, false)
			reason := strings.Contains(strings.Join(v.Reasons, "\n"), line)
			warning := strings.Contains(strings.Join(v.Warnings, "\n"), line)
			if reason != test.reason || warning == test.reason || v.Valid == test.reason {
				t.Errorf("want it as a reason: %v; got %+v", test.reason, v)
			}
			if !strings.Contains(strings.Join(v.Reasons, "\n"), test.remedy) {
				t.Errorf("want %q in %+v", test.remedy, v)
			}
		})
	}
}

// TestTheMeterSeesABusyThread spins on an enlisted thread.
func TestTheMeterSeesABusyThread(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads are read on Linux only")
	}
	m := newMeter()
	began := time.Now()
	spun := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(spun)
		defer m.enlist()()
		for time.Since(began) < leastSecond+10*time.Millisecond {
		}
	}()
	<-spun
	s := m.second(true)
	// What it ran and what it waited for a CPU are nearly all of the time.
	if all := s.PacerPercent + m.sum.PacerWaitPercentMax; all < 80 || s.CPUPercent < s.PacerPercent/2 {
		t.Errorf("ran and waited %.0f %% of the time, the process ran %.0f %%: %+v", all, s.CPUPercent, m.sum)
	}
	if m.second(true); m.sum.Seconds != 1 {
		t.Error("a second too short to tell was counted")
	}
	time.Sleep(leastSecond)
	if again := m.second(true); again.PacerPercent != 0 || m.sum.Seconds != 2 {
		t.Errorf("a thread that has ended ran %v %%; %d seconds, want 2", again.PacerPercent, m.sum.Seconds)
	}
	for range 3 {
		runtime.GC()
	}
	m.second(true)
	if got := m.saturation(); got.GCCycles < 3 || got.GCPauseMS <= 0 || got.GCPauseMaxMS <= 0 || got.GCPauseMaxMS > got.GCPauseMS {
		t.Errorf("three collections: %+v", got)
	}
}

// TestTheMeterBeginsAfterAWarmUp: what was used before the beginning does not count.
func TestTheMeterBeginsAfterAWarmUp(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("CPU time is read on Linux only")
	}
	const spent = 100 * time.Millisecond
	m := newMeter()
	for before := processCPU(); processCPU()-before < spent; {
	}
	if used := m.used(); used.CPUSeconds < spent.Seconds() {
		t.Fatalf("the warm-up used %v s: this test shows nothing", used.CPUSeconds)
	}
	m.begin()
	if used := m.used(); used.CPUSeconds >= spent.Seconds()/2 {
		t.Errorf("%v s of CPU after the beginning, want those of the warm-up left out", used.CPUSeconds)
	}
}

func TestTheCollectorHasNoMoreThanAll(t *testing.T) {
	for _, tt := range []struct {
		cycles          int
		collector, used time.Duration
		want            float64
	}{
		{2, time.Millisecond, 10 * time.Millisecond, 10},
		{1, 11 * time.Millisecond, 10 * time.Millisecond, 100},
		{0, 11 * time.Millisecond, 10 * time.Millisecond, 0},
		{1, time.Millisecond, 0, 0},
	} {
		if got := gcPercent(tt.cycles, tt.collector, tt.used); got != tt.want {
			t.Errorf("%d cycles, %v of %v: %v %%, want %v %%", tt.cycles, tt.collector, tt.used, got, tt.want)
		}
	}
}

func TestKeptOut(t *testing.T) {
	for _, test := range []struct {
		waited, own time.Duration
		cpus        int
		want        time.Duration
	}{
		{400 * time.Millisecond, 0, 1, 400 * time.Millisecond},                      // nothing of ours ran
		{400 * time.Millisecond, 700 * time.Millisecond, 1, 0},                      // our own workers had the CPU
		{400 * time.Millisecond, 600 * time.Millisecond, 2, 100 * time.Millisecond}, // on two, they had half
		{400 * time.Millisecond, -5 * time.Millisecond, 2, 400 * time.Millisecond},  // clocks differ by a tick
	} {
		if got := keptOut(test.waited, test.own, test.cpus); got != test.want {
			t.Errorf("waited %v, own %v on %d: %v, want %v", test.waited, test.own, test.cpus, got, test.want)
		}
	}
}
