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
	before  []counts // at the last cut, by endpoint
	writer  *latency.LogWriter
	err     error
	stop    chan struct{}
	done    chan struct{}
}

func newIntervals(c Config, tallies []*tally, start time.Time) *intervals {
	l := &intervals{c: c, tallies: tallies, start: start, before: make([]counts, len(tallies)), stop: make(chan struct{}), done: make(chan struct{})}
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
			to := max(from, time.Since(l.start))
			l.cut(from, to)
			l.totals(to)
			return
		}
	}
}

// cut ends the interval [from, to). An error of the log is kept and ends the
// log, not the run.
func (l *intervals) cut(from, to time.Duration) {
	second := Second{From: from, To: to}
	for i, t := range l.tallies {
		timings, now := t.rotate()
		l.write(t.name+"/"+latency.Response, from, to, timings.response)
		l.write(t.name+"/"+latency.Service, from, to, timings.service)
		l.write(t.name+"/"+latency.Lag, from, to, timings.lag)
		if l.c.EachSecond != nil {
			second.Endpoints = append(second.Endpoints, now.since(l.before[i], t.name, timings.response))
			l.before[i] = now
		}
		timings.reset()
	}
	if l.c.EachSecond != nil {
		l.c.EachSecond(second)
	}
}

// totals logs what is not kept by the second: good answers and failures apart,
// each as one interval that is as long as the run. A merge of several runs needs
// them.
func (l *intervals) totals(to time.Duration) {
	for _, t := range l.tallies {
		l.write(t.name+"/"+latency.OKResponse, 0, to, t.ok)
		l.write(t.name+"/"+latency.FailedResponse, 0, to, t.failed)
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
