package engine

import (
	"time"

	"chokepoint/internal/load/latency"
)

// intervals closes one second after the other, for the interval log, the totals
// and EachSecond.
type intervals struct {
	c        Config
	tallies  []*tally
	start    time.Time
	before   []counts  // at the last cut, by endpoint
	planned  []int     // until the last cut, by endpoint; of the calendar
	calendar *calendar // nil if nobody asks, or nothing is planned
	meter    *meter
	writer   *latency.LogWriter
	err      error
	stop     chan struct{}
	done     chan struct{}
}

func newIntervals(c Config, tallies []*tally, start time.Time) *intervals {
	l := &intervals{c: c, tallies: tallies, start: start, before: make([]counts, len(tallies)), planned: make([]int, len(tallies)), meter: newMeter(), stop: make(chan struct{}), done: make(chan struct{})}
	if c.Log != nil {
		l.writer, l.err = latency.NewLogWriter(c.Log, start)
	}
	// A closed model plans no arrivals.
	if c.EachSecond != nil && c.Closed == 0 {
		l.calendar = newCalendar(c)
	}
	go l.run()
	return l
}

func (l *intervals) run() {
	defer close(l.done)
	// A little early, so that it is no part of the first second. A warm-up is all
	// but over, and without one nothing is sent yet.
	if l.await(-notice / 2) {
		l.meter.begin()
	}
	var from time.Duration
	for l.await(from + time.Second) {
		l.cut(from, from+time.Second, false)
		from += time.Second
	}
	to := max(from, time.Since(l.start))
	l.cut(from, to, true)
	l.totals(to)
}

// await returns true at a moment, which counts from the start, and false if the
// run is over before.
func (l *intervals) await(moment time.Duration) bool {
	timer := time.NewTimer(time.Until(l.start.Add(moment)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.stop:
		return false
	}
}

// cut ends the interval [from, to), the last of which has all that is left. An
// error of the log is kept and ends the log, not the run.
func (l *intervals) cut(from, to time.Duration, last bool) {
	planned := make([]int, len(l.tallies))
	if l.calendar != nil {
		planned = l.calendar.until(to)
	}
	second := Second{From: from, To: to, Window: l.c.Duration}
	// A generator that is late sends after the window, too.
	sending := from < l.c.Duration
	for i, t := range l.tallies {
		timings, now := t.rotate(to, last)
		l.planned[i] += planned[i]
		if l.calendar != nil && !last {
			now = now.until(l.planned[i])
		}
		l.write(t.name+"/"+latency.Response, from, to, timings.Response)
		l.write(t.name+"/"+latency.Service, from, to, timings.Service)
		l.write(t.name+"/"+latency.Lag, from, to, timings.Lag)
		e := now.since(l.before[i])
		e.Name, e.Planned, e.Timings = t.name, planned[i], timings
		second.Endpoints = append(second.Endpoints, e)
		l.before[i] = now
		sending = sending || e.Scheduled > 0
	}
	second.Generator = l.meter.second(sending)
	if l.c.EachSecond != nil {
		l.c.EachSecond(second)
	}
}

// totals logs what is not kept by the second: good answers and failures apart,
// each as one interval that is as long as the run. A merge of several runs needs
// them.
func (l *intervals) totals(to time.Duration) {
	for _, t := range l.tallies {
		l.write(t.name+"/"+latency.OKResponse, 0, to, t.total.OKResponse)
		l.write(t.name+"/"+latency.FailedResponse, 0, to, t.total.FailedResponse)
	}
}

func (l *intervals) write(tag string, from, to time.Duration, h *latency.Histogram) {
	if l.writer != nil && l.err == nil {
		l.err = l.writer.Write(tag, from, to, h)
	}
}

// close ends the last interval; no worker may be left.
func (l *intervals) close() error {
	close(l.stop)
	<-l.done
	return l.err
}
