package engine

import (
	"time"

	"chokepoint/internal/load/latency"
)

// intervals closes one second after the other, for the interval log, the totals
// and the progress.
type intervals struct {
	c       Config
	tallies []*tally
	start   time.Time
	writer  *latency.LogWriter
	err     error
	stop    chan struct{}
	done    chan struct{}
}

func newIntervals(c Config, tallies []*tally, start time.Time) *intervals {
	l := &intervals{c: c, tallies: tallies, start: start, stop: make(chan struct{}), done: make(chan struct{})}
	if c.Log != nil {
		l.writer, l.err = latency.NewLogWriter(c.Log, start)
	}
	go l.run()
	return l
}

func (l *intervals) run() {
	defer close(l.done)
	var from time.Duration
	for {
		to := from + time.Second
		timer := time.NewTimer(time.Until(l.start.Add(to)))
		select {
		case <-timer.C:
			l.cut(from, to)
			l.progress(to)
			from = to
		case <-l.stop:
			timer.Stop()
			l.cut(from, max(from, time.Since(l.start)))
			return
		}
	}
}

// cut ends the interval [from, to). An error of the log is kept and ends the
// log, not the run.
func (l *intervals) cut(from, to time.Duration) {
	for _, t := range l.tallies {
		timings := t.rotate()
		l.write(t.name+"/response", from, to, timings.response)
		l.write(t.name+"/service", from, to, timings.service)
		l.write(t.name+"/lag", from, to, timings.lag)
		timings.reset()
	}
}

func (l *intervals) write(tag string, from, to time.Duration, h *latency.Histogram) {
	if l.writer != nil && l.err == nil {
		l.err = l.writer.Write(tag, from, to, h)
	}
}

func (l *intervals) progress(at time.Duration) {
	if l.c.Progress == nil {
		return
	}
	p := Progress{Elapsed: at, Window: l.c.Duration}
	for _, t := range l.tallies {
		p.Scheduled += int(t.scheduled.Load())
		p.Dropped += int(t.dropped.Load())
		p.InFlight += t.inFlight()
	}
	l.c.Progress(p)
}

// close ends the last interval; no worker may be left.
func (l *intervals) close() error {
	close(l.stop)
	<-l.done
	return l.err
}
