package engine

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"time"

	"chokepoint/internal/result"
)

// GeneratorSecond is what the generator's own process used in one second. 100 %
// is one CPU. Both are 0 where they are not known: of a second cut so short that
// it tells nothing, and on other systems than Linux.
type GeneratorSecond struct {
	CPUPercent float64
	// PacerPercent is that of the thread that paces, and on Loop answers too; of
	// several, the busiest.
	PacerPercent float64
}

const (
	// busyPercent of what it has is when a thread or the process counts as having
	// no reserve: the rest of a second is lost to the clock's ticks.
	busyPercent = 95
	// waitPercent of a second without a CPU, though runnable, is when a
	// pacing thread counts as having been kept from it.
	waitPercent = 10
	// leastSecond is the shortest second that is looked at: of a shorter one, the
	// ticks of the clocks would make up the figures.
	leastSecond = 200 * time.Millisecond
	// gcCPUName is the CPU time of the garbage collector in runtime/metrics, as of
	// the last collection.
	gcCPUName = "/cpu/classes/gc/total:cpu-seconds"
)

// threadTime is how long a thread has run, and was runnable without a CPU.
type threadTime struct{ ran, waited time.Duration }

// pacer is a thread that paces.
type pacer struct {
	thread int
	first  threadTime // at the beginning
	before threadTime // as last read
	after  threadTime // once it has ended
	ended  bool
}

func (p *pacer) now() threadTime {
	if p.ended {
		return p.after
	}
	return timesOf(p.thread)
}

// meter reads second by second how near the generator is to its own limits.
type meter struct {
	mu     sync.Mutex
	pacers []*pacer

	// Used by intervals alone, and by report when they are over.
	start  resources
	gc     gcTimes       // at the beginning
	first  time.Duration // CPU of the process at the beginning
	cpu    time.Duration // as last read
	at     time.Time     // of that
	pauses debug.GCStats
	sum    result.Saturation
}

// gcTimes is what the garbage collector has done since the process started.
type gcTimes struct {
	cpu, pause time.Duration
	cycles     int64
}

func newMeter() *meter {
	m := &meter{}
	// The second number is what the runtime could use, and more than the first in
	// a program that gives a pacer in a system call a share of its own.
	m.sum.CPUs = min(runtime.NumCPU(), runtime.GOMAXPROCS(0))
	m.begin()
	return m
}

// begin makes this moment the one from which everything is measured. What was used
// until then, for a warm-up or while a start was waited for, is in no figure.
func (m *meter) begin() {
	m.start, m.first, m.at = usage(), processCPU(), time.Now()
	m.cpu = m.first
	debug.ReadGCStats(&m.pauses)
	m.gc = gcTimes{gcCPU(), m.pauses.PauseTotal, m.pauses.NumGC}
	m.busiestPacer(0)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pacers {
		p.first = p.before
	}
}

// enlist makes the calling goroutine's thread known as one that paces. The
// goroutine must be locked to it, and call what is returned when it has paced.
func (m *meter) enlist() (end func()) {
	p := &pacer{thread: threadID()}
	p.before = timesOf(p.thread)
	p.first = p.before
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pacers = append(m.pacers, p)
	return func() {
		after := timesOf(p.thread)
		m.mu.Lock()
		defer m.mu.Unlock()
		p.after, p.ended = after, true
	}
}

// second is what was used since the last call or the beginning. One in which
// requests were sent counts for the saturation.
func (m *meter) second(sending bool) GeneratorSecond {
	now, cpu := time.Now(), processCPU()
	// The time that has really passed: where the machine is crowded this comes late,
	// and the more was used.
	length, used := now.Sub(m.at), cpu-m.cpu
	m.at, m.cpu = now, cpu
	ran, kept := m.busiestPacer(used)
	m.collections()
	if length < leastSecond {
		return GeneratorSecond{}
	}
	s := GeneratorSecond{CPUPercent: percent(used, length), PacerPercent: percent(ran, length)}
	if sending {
		m.add(s, percent(kept, length))
	}
	return s
}

// keptOut is how much of the time that a pacing thread waited for a CPU others are
// to blame for. The process's other threads ran for own; spread over its CPUs, they
// kept the thread from one for as long.
func keptOut(waited, own time.Duration, cpus int) time.Duration {
	return max(0, waited-max(0, own)/time.Duration(cpus))
}

// busiestPacer is how long the thread that paced most has run since the last call,
// in which the process used so much CPU, and how long one was kept from a CPU.
func (m *meter) busiestPacer(used time.Duration) (ran, kept time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pacers {
		now := p.now()
		did := threadTime{ran: now.ran - p.before.ran, waited: now.waited - p.before.waited}
		ran, kept = max(ran, did.ran), max(kept, keptOut(did.waited, used-did.ran, m.sum.CPUs))
		p.before = now
	}
	return ran, kept
}

// collections keeps the longest pause of the garbage collector.
func (m *meter) collections() {
	before := m.pauses.NumGC
	debug.ReadGCStats(&m.pauses)
	// The newest come first.
	recent := m.pauses.Pause[:min(int(m.pauses.NumGC-before), len(m.pauses.Pause))]
	if len(recent) > 0 {
		m.sum.GCPauseMaxMS = max(m.sum.GCPauseMaxMS, ms(slices.Max(recent)))
	}
}

// add counts a second of the window.
func (m *meter) add(s GeneratorSecond, waited float64) {
	m.sum.Seconds++
	m.sum.CPUPercentMax = max(m.sum.CPUPercentMax, s.CPUPercent)
	m.sum.PacerPercentMax = max(m.sum.PacerPercentMax, s.PacerPercent)
	m.sum.PacerWaitPercentMax = max(m.sum.PacerWaitPercentMax, waited)
	if s.CPUPercent >= busyPercent*float64(m.sum.CPUs) {
		m.sum.CPUBusySeconds++
	}
	if s.PacerPercent >= busyPercent {
		m.sum.PacerBusySeconds++
	}
	if waited >= waitPercent {
		m.sum.PacerWaitSeconds++
	}
}

// used is what the process has used over the whole run. The threads that paced
// have ended, and are no longer in the sum over the process.
func (m *meter) used() result.Child {
	used := usage().since(m.start)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pacers {
		if p.ended {
			used.RunQueueWaitMS += ms(p.after.waited - p.first.waited)
		}
	}
	return used
}

// saturation is the account of the whole run.
func (m *meter) saturation() *result.Saturation {
	s := m.sum
	s.GCCycles = int(m.pauses.NumGC - m.gc.cycles)
	s.GCPauseMS = ms(m.pauses.PauseTotal - m.gc.pause)
	s.GCCPUPercent = gcPercent(s.GCCycles, gcCPU()-m.gc.cpu, m.cpu-m.first)
	return &s
}

// gcPercent is the share of the collector in the CPU time used, of a run with that
// many collections. The runtime adds a collection up when it is over: without one
// the time is of a collection before the run. And it counts by the wall clock, so
// that on a crowded machine the collector may have more than all.
func gcPercent(cycles int, collector, used time.Duration) float64 {
	if cycles == 0 {
		return 0
	}
	return min(percent(collector, used), 100)
}

func gcCPU() time.Duration {
	sample := []metrics.Sample{{Name: gcCPUName}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64 {
		return 0 // a Go release that no longer has it
	}
	return time.Duration(sample[0].Value.Float64() * float64(time.Second))
}

// percent is a share in percent, and 0 of nothing.
func percent(part, whole time.Duration) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
