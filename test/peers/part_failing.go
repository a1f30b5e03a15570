//go:build linux

package main

import (
	"fmt"
	"math"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/test/peers/refserver"
)

// memory holds many requests at once, and few, and takes the difference.
func (s scope) memory(tools []installed) part {
	const few = 100
	window := s.window
	p := part{name: "memory", title: fmt.Sprintf("Memory of a request in flight, %d held against %d", s.held, few)}
	lessHeld := func(label string) string { return fmt.Sprintf("%s, %d held", label, few) }
	for _, t := range tools {
		if !t.open || t.name == roleSpinref {
			continue
		}
		for _, n := range []int{few, s.held} {
			label := t.name
			if n == few {
				label = lessHeld(label)
			}
			// All are in flight from the last arrival to the first answer.
			l := load{rate: n * int(time.Second) / int(window), duration: window, connections: n, timeout: time.Minute}
			p.cells = append(p.cells, cell{label: label, tool: t.name, load: l, server: refserver.Config{Delay: window * 6 / 5}})
		}
	}
	perRequest := func(m medians, label string) float64 {
		// By what was asked for: a tool that has fewer in flight, as wrk2 may, has
		// their connections all the same.
		return (m.of(label, peakKB) - m.of(lessHeld(label), peakKB)) / float64(s.held-few)
	}
	p.columns = []column{
		number("reached the server", "%.0f", reached), number("peak kB", "%.0f", peakKB),
		column{"kB each", func(m medians, label string) string { return text("%.1f", perRequest(m, label)) }}, notes,
	}
	p.goals = func(m medians) []goal {
		return []goal{atMost("kB for a request in flight", "%.1f", perRequest(m, loadgen), 4, "")}
	}
	return p
}

// fasthttp is the engine for what the event loop does not speak.
func (s scope) fasthttp() part {
	const rate = 10_000
	goroutines := loadgen + " -engine goroutines"
	l := load{rate: rate, duration: s.window, connections: 200, timeout: s.timeout, flags: []string{"-engine", "goroutines"}}
	return part{
		name: "fasthttp", title: fmt.Sprintf("The engine of goroutines, %d/s for %v", rate, s.window),
		cells: []cell{{label: goroutines, tool: loadgen, load: l}},
		columns: []column{
			number("arrived %", "%.2f", arrivedPercent), number("error p50 ms", "%.3f", errorP50), number("error p99 ms", "%.3f", errorP99),
			number("CPU s for 10 s", "%.2f", s.perTenSeconds), notes,
		},
		goals: func(m medians) []goal {
			return []goal{
				atMost("schedule error p50, ms", "%.3f", m.of(goroutines, errorP50), 0.4, ""),
				atMost("CPU s for 10 s", "%.2f", m.of(goroutines, s.perTenSeconds), 3.5, ""),
			}
		},
	}
}

// stalled is a server that answers after half the window, and a generator that
// stops waiting a tenth of it after its end.
func (s scope) stalled(tools []installed) part {
	const rate = 200
	delay := s.stall / 2
	sent := int(rate * s.stall.Seconds())
	p := part{name: "stalled", title: fmt.Sprintf("A stalled server: %d/s for %v, every answer after %v, a wait of %v", rate, s.stall, delay, s.stall/10)}
	for _, t := range tools {
		if t.open && t.name != roleSpinref {
			// Enough for all that are in flight at once, and a fifth more.
			l := load{rate: rate, duration: s.stall, connections: int(rate * delay.Seconds() * 6 / 5), timeout: 30 * time.Second, grace: s.stall / 10}
			p.cells = append(p.cells, cell{label: t.name, tool: t.name, load: l, server: refserver.Config{Delay: delay}})
		}
	}
	lost := func(m medians, label string) float64 { return m.of(label, reached) - m.of(label, accounted) }
	p.columns = []column{
		{"intended", func(medians, string) string { return fmt.Sprint(sent) }},
		number("reached the server", "%.0f", reached), number("its report has", "%.0f", accounted),
		{"lost", func(m medians, label string) string { return text("%.0f", lost(m, label)) }}, notes,
	}
	p.goals = func(m medians) []goal {
		got, server := m.of(loadgen, accounted), m.of(loadgen, reached)
		return []goal{{
			"accounted for, and reached the server", fmt.Sprintf("%d and %d", sent, sent),
			text("%.0f", got) + " and " + text("%.0f", server), got == float64(sent) && server == float64(sent),
		}}
	}
	return p
}

// frozen is a server that stands still for a quarter of the window. A request that
// falls due in the freeze waits for its end, and no other waits: of all, the
// slowest tenth waits over 0.6 of the freeze, and the slowest hundredth over 0.96.
func (s scope) frozen(tools []installed) part {
	const rate, fewWorkers = 1000, 50
	freeze := s.stall / 4
	p90, p99 := 0.6*milliseconds(freeze), 0.96*milliseconds(freeze)
	p := part{name: "frozen", title: fmt.Sprintf("A server frozen for %v of %v at %d/s: the truth is p90 %.0f ms, p99 %.0f ms", freeze, s.stall, rate, p90, p99)}
	few := fmt.Sprintf("%s, %d workers", loadgen, fewWorkers)
	enough := int(rate * freeze.Seconds() * 6 / 5)
	add := func(label string, t installed, connections int) {
		// What records nothing at first runs longer, and meets the freeze later.
		l := load{rate: rate, duration: s.stall + t.slowStart, connections: connections, timeout: 30 * time.Second}
		p.cells = append(p.cells, cell{label: label, tool: t.name, load: l, server: refserver.Config{FreezeAfter: s.stall/4 + t.slowStart, FreezeFor: freeze}})
	}
	for _, t := range tools {
		switch {
		case t.name == loadgen:
			add(loadgen, t, enough)
			add(few, t, fewWorkers)
		case t.name == "wrk2":
			// A schedule for each connection, of which each is behind by itself.
			add(t.name, t, t.connections)
		case t.open && t.name != roleSpinref:
			add(t.name, t, enough)
			if t.name == "bombardier" {
				add(fmt.Sprintf("%s, %d connections", t.name, fewWorkers), t, fewWorkers)
			}
		}
	}
	p.columns = []column{
		number("reached the server", "%.0f", reached), number("reported p90 ms", "%.0f", reportedP90), number("reported p99 ms", "%.0f", reportedP99), notes,
	}
	p.goals = func(m medians) []goal {
		near := func(what string, got, want float64) goal {
			return goal{what, fmt.Sprintf("%.0f within 3 %%", want), text("%.0f", got), math.Abs(got-want) <= 0.03*want}
		}
		return []goal{
			near("reported p90, ms", m.of(loadgen, reportedP90), p90),
			near("reported p99, ms", m.of(loadgen, reportedP99), p99),
			m.invalid(few),
		}
	}
	return p
}

// invalid is the goal that every run of the row calls itself invalid.
func (m medians) invalid(label string) goal {
	runs, said := len(m[label]), 0
	for _, s := range m[label] {
		if s.Failed == "" && s.Exit == cli.ExitInvalid {
			said++
		}
	}
	return goal{"too few workers: runs that call themselves invalid", fmt.Sprintf("%d of %d", runs, runs), fmt.Sprint(said), runs > 0 && said == runs}
}
