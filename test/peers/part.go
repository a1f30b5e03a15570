//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"chokepoint/internal/stats"
)

// part is a table: cells that are compared, and what loadgen is held to.
type part struct {
	name    string // for -only; several parts may share one
	title   string
	cells   []cell
	columns []column
	goals   func(m medians) []goal
}

// column is a figure of a row; NaN is none.
type column struct {
	title string
	get   func(m medians, label string) string
}

// goal is what loadgen is held to.
type goal struct {
	What string `json:"what"`
	Want string `json:"want"`
	Got  string `json:"got"`
	Met  bool   `json:"met"`
}

// medians are the samples of a part by the label of their rows; only of those that
// gave figures.
type medians map[string][]sample

// of is the median of a figure of a row; NaN if it has none.
func (m medians) of(label string, get func(sample) float64) float64 {
	var values []float64
	for _, s := range m[label] {
		if s.Failed == "" {
			values = append(values, get(s))
		}
	}
	if len(values) == 0 {
		return math.NaN()
	}
	return stats.Median(values)
}

// enoughArrived is the share in percent from which on a peer is one to be compared
// with: what is not sent costs nothing.
const enoughArrived = 95

// least is the smallest median of the rows of peers that sent what they were asked
// to, and whose it is.
func (m medians) least(get func(sample) float64) (value float64, label string) {
	value = math.NaN()
	for other := range m {
		if !ours(other) && m.of(other, arrivedPercent) >= enoughArrived {
			if v := m.of(other, get); !(v >= value) && !math.IsNaN(v) {
				value, label = v, other
			}
		}
	}
	return value, label
}

// ours says whether a row is of this repository.
func ours(label string) bool {
	return strings.HasPrefix(label, loadgen) || label == roleSpinref
}

// Figures of a sample.
func arrivedPercent(s sample) float64 { return s.ArrivedPercent }
func errorP50(s sample) float64       { return s.ErrorP50MS }
func errorP99(s sample) float64       { return s.ErrorP99MS }
func cpuPerMillion(s sample) float64  { return 1e6 * s.CPUSeconds / float64(s.Arrived) }
func peakKB(s sample) float64         { return s.PeakKB }
func serverPercent(s sample) float64  { return s.ServerPercent }
func reached(s sample) float64        { return float64(s.Arrived) }
func accounted(s sample) float64      { return float64(s.Account.Requests) }
func reportedP90(s sample) float64    { return s.Account.P90MS }
func reportedP99(s sample) float64    { return s.Account.P99MS }

// number is a column with the median of a figure.
func number(title, format string, get func(sample) float64) column {
	return column{title, func(m medians, label string) string { return text(format, m.of(label, get)) }}
}

func text(format string, v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// notes is a column with what the tools' reports say, each once.
var notes = column{"says", func(m medians, label string) string {
	var all []string
	for _, s := range m[label] {
		if note := s.Account.Note; note != "" && !slices.Contains(all, note) {
			all = append(all, note)
		}
	}
	if len(all) == 0 {
		return ""
	}
	if len(all) > 1 {
		return all[0] + "; ..."
	}
	return all[0]
}}

// atMost is the goal that v does not exceed the limit.
func atMost(what, format string, v, limit float64, of string) goal {
	return goal{what, "<= " + text(format, limit) + of, text(format, v), v <= limit}
}

// scope is how much is measured.
type scope struct {
	rates   []int
	window  time.Duration // of pacing and closed
	stall   time.Duration // window of the stalled and of the frozen server
	held    int           // requests at once
	timeout time.Duration
}

var (
	full  = scope{rates: []int{100, 1000, 10_000, 20_000, 40_000}, window: 10 * time.Second, stall: 20 * time.Second, held: 10_000, timeout: 10 * time.Second}
	short = scope{rates: []int{1000, 10_000, 40_000}, window: time.Second, stall: 2 * time.Second, held: 2000, timeout: 10 * time.Second}
)

// parts are all tables.
func (s scope) parts(tools []installed) []part {
	var all []part
	for _, rate := range s.rates {
		all = append(all, s.pacing(tools, rate))
	}
	return append(all, s.quantum(tools), s.closedLoop(tools), s.memory(tools), s.fasthttp(), s.stalled(tools), s.frozen(tools))
}

// at is a load of the tool at the rate, with the connections it does best with.
func (s scope) at(t installed, rate int) load {
	return load{rate: rate, duration: s.window, connections: t.connections, timeout: s.timeout}
}

// perTenSeconds scales a CPU time to a window of ten seconds.
func (s scope) perTenSeconds(sm sample) float64 {
	return sm.CPUSeconds * 10 / s.window.Seconds()
}

func (s scope) pacing(tools []installed, rate int) part {
	p := part{name: "pacing", title: fmt.Sprintf("Open model, %d/s for %v: when the requests arrived", rate, s.window)}
	for _, t := range tools {
		if t.open {
			l := s.at(t, rate)
			// Tools with a rate for each connection.
			l.connections = max(1, min(l.connections, rate))
			p.cells = append(p.cells, cell{label: t.name, tool: t.name, load: l})
		}
	}
	p.columns = []column{
		number("arrived %", "%.2f", arrivedPercent), number("error p50 ms", "%.3f", errorP50), number("error p99 ms", "%.3f", errorP99),
		number("CPU s for 10 s", "%.2f", s.perTenSeconds), number("server's core %", "%.0f", serverPercent), notes,
	}
	// p50 and p99 in ms; of p99 at 1,000/s the limit is the reference's.
	limits := map[int][2]float64{1000: {0.05, 0}, 10_000: {0.05, 0.5}, 20_000: {0.1, 0}, 40_000: {0.3, 0}}
	p.goals = func(m medians) []goal {
		limit, held := limits[rate]
		if !held {
			return nil
		}
		want, shown := 99.995, "100"
		if rate == 40_000 {
			want, shown = 99.95, "99.95"
		}
		got := m.of(loadgen, arrivedPercent)
		goals := []goal{
			{"arrived at the server, %", ">= " + shown, text("%.2f", got), got >= want},
			atMost("schedule error p50, ms", "%.3f", m.of(loadgen, errorP50), limit[0], ""),
		}
		switch {
		case rate == 1000:
			goals = append(goals, atMost("schedule error p99, ms", "%.3f", m.of(loadgen, errorP99), 1.5*m.of(roleSpinref, errorP99), " (1.5x "+roleSpinref+")"))
		case limit[1] > 0:
			goals = append(goals, atMost("schedule error p99, ms", "%.3f", m.of(loadgen, errorP99), limit[1], ""))
		}
		return goals
	}
	return p
}

// quantum compares the CPU of those that send in bursts.
func (s scope) quantum(tools []installed) part {
	const rate, quantum = 10_000, 10 * time.Millisecond
	p := part{name: "quantum", title: fmt.Sprintf("Open model, %d/s for %v: CPU with sends coalesced to %v", rate, s.window, quantum)}
	coalescing := loadgen + " -quantum 10ms"
	for _, t := range tools {
		l := s.at(t, rate)
		switch {
		case t.name == loadgen:
			l.flags = []string{"-quantum", quantum.String(), "-max-lag", (2 * quantum).String()}
			p.cells = append(p.cells, cell{label: coalescing, tool: t.name, load: l})
		case t.open && t.name != roleSpinref:
			p.cells = append(p.cells, cell{label: t.name, tool: t.name, load: l})
		}
	}
	p.columns = []column{
		number("arrived %", "%.2f", arrivedPercent), number("CPU s for 10 s", "%.2f", s.perTenSeconds),
		number("CPU s per million", "%.1f", cpuPerMillion), number("server's core %", "%.0f", serverPercent), notes,
	}
	p.goals = func(m medians) []goal {
		best, whose := m.least(cpuPerMillion)
		return []goal{
			atMost("CPU s per million", "%.1f", m.of(coalescing, cpuPerMillion), best, " ("+whose+")"),
			atMost("CPU s for 10 s, the floor", "%.2f", m.of(coalescing, s.perTenSeconds), m.of("vegeta", s.perTenSeconds)/2, " (half of vegeta's)"),
		}
	}
	return p
}

func (s scope) closedLoop(tools []installed) part {
	const connections, floor = 50, 23
	p := part{name: "closed", title: fmt.Sprintf("Closed model, %d connections for %v", connections, s.window)}
	for _, t := range tools {
		if t.closed {
			l := load{duration: s.window, connections: connections, timeout: s.timeout}
			p.cells = append(p.cells, cell{label: t.name, tool: t.name, load: l})
		}
	}
	p.columns = []column{
		number("requests", "%.0f", reached), number("CPU s per million", "%.1f", cpuPerMillion),
		column{"of " + wrk + "'s", func(m medians, label string) string {
			return text("%.2f", m.of(label, cpuPerMillion)/m.of(wrk, cpuPerMillion))
		}},
		number("peak kB", "%.0f", peakKB), number("server's core %", "%.0f", serverPercent), notes,
	}
	p.goals = func(m medians) []goal {
		got := m.of(loadgen, cpuPerMillion)
		return []goal{
			atMost("CPU s per million", "%.1f", got, m.of(wrk, cpuPerMillion), " ("+wrk+")"),
			atMost("CPU s per million, the floor", "%.1f", got, floor, " (a prototype)"),
		}
	}
	return p
}
