package engine

import (
	"fmt"

	"chokepoint/internal/result"
)

const (
	// maxGCPausePercent of the run is what the garbage collector may stop the
	// process for, and maxGCCPUPercent of its CPU what it may take, without being
	// named.
	maxGCPausePercent = 1
	maxGCCPUPercent   = 10
	// minGCCPUPercent of one CPU, in a second as busy as the busiest, is what the
	// garbage collector takes of it at the least before it is named.
	minGCCPUPercent = 2
)

// ownLimits are those of its own that the generator ran into, each in a line with its
// figures and what to do. A slow generator (its CPU was busy) is told apart from a
// crowded machine (it was kept from a CPU).
func ownLimits(s *result.Saturation, c Config) []string {
	if s == nil || s.Seconds == 0 {
		return nil
	}
	slower := "lower the rate"
	if c.Closed > 0 {
		slower = "give the model fewer workers"
	}
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if s.PacerBusySeconds > 0 {
		add("the generator's own limit: its pacing thread was busy for %d %% or more of %s (at most %.0f %%), and it has one CPU; %s, play it with more loops (-loops), or share it among several generators",
			busyPercent, seconds(s.PacerBusySeconds, s.Seconds), s.PacerPercentMax, slower)
	}
	if s.CPUBusySeconds > 0 {
		add("the generator's own limit: it used %d %% or more of %s in %s (at most %.0f %%); give it more CPUs, %s, or share it among several generators",
			busyPercent, cpus(s.CPUs), seconds(s.CPUBusySeconds, s.Seconds), s.CPUPercentMax, slower)
	}
	if s.PacerWaitSeconds > 0 {
		add("a crowded machine: the generator's pacing thread was runnable without a CPU for %d %% or more of %s (at most %.0f %%); end what else runs here, or give the generator a CPU of its own",
			waitPercent, seconds(s.PacerWaitSeconds, s.Seconds), s.PacerWaitPercentMax)
	}
	window := float64(s.Seconds) * 1000
	switch {
	// A pause is also long where the collector itself was kept from a CPU.
	case s.GCPauseMS > maxGCPausePercent/100.*window || s.GCPauseMaxMS >= ms(c.MaxLag) && s.PacerWaitSeconds == 0:
		add("the generator's own limit: its garbage collector stopped it %d times for %.1f ms together, %.1f ms at most; set GOGC or GOMEMLIMIT higher, or %s",
			s.GCCycles, s.GCPauseMS, s.GCPauseMaxMS, slower)
	case s.GCCPUPercent > maxGCCPUPercent && s.GCCPUPercent/100*s.CPUPercentMax > minGCCPUPercent:
		// A cycle now and then is a large part only of a CPU time that is nothing.
		add("the generator's own limit: its garbage collector took %.0f %% of the CPU that it used, in %d cycles; set GOGC or GOMEMLIMIT higher, or %s",
			s.GCCPUPercent, s.GCCycles, slower)
	}
	return lines
}

func cpus(n int) string {
	if n == 1 {
		return "its one CPU"
	}
	return fmt.Sprintf("all its %d CPUs", n)
}

// seconds is a number of seconds among all that were looked at.
func seconds(n, of int) string {
	if of == 1 {
		return "its one second"
	}
	return fmt.Sprintf("%d of %d seconds", n, of)
}
