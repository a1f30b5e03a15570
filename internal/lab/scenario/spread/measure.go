package spread

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/cli"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

const (
	// tickFloor bounds the sampling: real, once a scenario second above it.
	tickFloor = 50 * time.Millisecond
	// dumpLateness is how late a dump may be and still show its moment, real.
	dumpLateness = 250 * time.Millisecond
	// logWait is for the last lines of nginx's log, of clients that have gone.
	logWait = 2 * time.Second
)

// measurement is that of one cell.
type measurement struct {
	cell
	settings Settings
	programs programs
	folder   string

	place  *place
	loadOn time.Time
	pools  [len(names)]*poolWatch
}

// run measures the cell and judges it.
func (m *measurement) run(ctx context.Context, c *result.Case) (err error) {
	m.place, err = m.start(ctx, m.programs, m.settings, m.folder)
	defer func() { err = errors.Join(err, m.place.close(ctx)) }()
	if err != nil {
		return err
	}
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		if death := m.place.died(running); death != nil {
			end(death)
		}
	}()
	began := time.Now()
	evidence, err := m.load(running, end)
	if cause := context.Cause(running); cause != nil {
		return cause // what else went wrong followed from it
	}
	if err != nil {
		return err
	}
	c.Seconds = time.Since(began).Seconds()
	joined, err := join(evidence)
	if err != nil {
		return err
	}
	if m.handling == waits && joined.sentTwice > 0 {
		return fmt.Errorf("nginx sent %d requests again, and was told not to", joined.sentTwice)
	}
	m.fill(c, evidence, joined)
	return nil
}

// evidence is what a cell has given.
type evidence struct {
	requests []result.Request
	access   []balancer.Access
	visits   [len(names)]adminapi.Visits
	dumps    [len(names)]result.Dump
	// addresses are those of the victims in access.
	addresses [len(names)]string
	late      time.Duration // real: from when on an answer is late
}

// load runs the load and watches both victims beside it.
func (m *measurement) load(ctx context.Context, end context.CancelCauseFunc) (evidence, error) {
	generator, err := world.NewGenerator(filepath.Dir(m.programs.paths["loadgen"]), m.folder, m.programs.launcher)
	if err != nil {
		return evidence{}, err
	}
	m.loadOn = time.Now().Add(generator.LoadLead() + 200*time.Millisecond)
	loadOff := m.loadOn.Add(m.settings.real(loadFor))
	load, err := generator.StartLoad(ctx, m.loadArgs())
	if err != nil {
		return evidence{}, err
	}
	var beside sync.WaitGroup
	watching, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		beside.Wait()
	}()
	e := evidence{late: m.settings.real(patience)}
	for i, v := range m.place.victims {
		e.addresses[i] = v.address.Public
		m.pools[i] = &poolWatch{place: m.place, victim: v, loadOn: m.loadOn, tick: max(m.settings.real(time.Second), tickFloor)}
		beside.Go(func() { m.pools[i].run(watching) })
		beside.Go(func() {
			if err := m.dump(watching, v, &e.dumps[i]); err != nil {
				end(err)
			}
		})
	}
	if err := awaitLoad(ctx, load); err != nil {
		return e, err
	}
	m.awaitIdle(ctx, loadOff)
	stop()
	beside.Wait()
	return e, errors.Join(m.collect(ctx, &e), m.writePools())
}

// awaitIdle returns when both pools are idle after the load, or the watch is over.
func (m *measurement) awaitIdle(ctx context.Context, loadOff time.Time) {
	for end := loadOff.Add(m.settings.real(watchFor)); time.Now().Before(end); {
		idle := 0
		for i := range m.pools {
			if m.pools[i].watched(loadOff).idle {
				idle++
			}
		}
		if idle == len(m.pools) || !sleepUntil(ctx, time.Now().Add(m.pools[0].tick)) {
			return
		}
	}
}

// loadArgs are the arguments of the load generator.
func (m *measurement) loadArgs() []string {
	s := m.settings
	endpoint := func(name string, perSecond float64, timeout time.Duration) string {
		return fmt.Sprintf("-endpoint=name=%s,url=http://%s/%s,rate=%g/s,timeout=%v", name, m.place.listen, name, perSecond/s.Scale, s.real(timeout))
	}
	file := func(name string) string { return filepath.Join(m.folder, name) }
	return []string{
		"-quiet", "-phase=" + adminapi.PhaseLoad, "-duration=" + s.real(loadFor).String(),
		"-start-at=" + m.loadOn.UTC().Format(time.RFC3339Nano), "-arrivals=poisson",
		fmt.Sprintf("-seed=%d", s.Seed), "-max-lag=" + s.MaxLag.String(),
		"-json=" + file(result.LoadFile), "-requests=" + file(result.RequestsFile),
		endpoint("fast", fastRate, fastTimeout), endpoint("upstream", upstreamRate, upstreamTimeout),
	}
}

// awaitLoad waits for the load generator, or stops it when ctx ends. Its error says why
// what it measured may not be believed.
func awaitLoad(ctx context.Context, load world.Load) error {
	select {
	case <-load.Done():
	case <-ctx.Done():
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*stopGrace)
		defer cancel()
		return errors.Join(context.Cause(ctx), load.Stop(stopping))
	}
	if code := load.ExitCode(); code != cli.ExitOK && code != cli.ExitInvalid {
		return errors.New(world.Death{Name: "loadgen", Status: fmt.Sprintf("exit status %d", code), Log: load.LastLog(5)}.String())
	}
	return nil
}

// dump takes the dump of a victim under load.
func (m *measurement) dump(ctx context.Context, v victim, to *result.Dump) error {
	due := m.loadOn.Add(m.settings.real(dumpAt))
	if !sleepUntil(ctx, due) {
		return nil
	}
	late := time.Since(due)
	if late > max(dumpLateness, m.settings.real(time.Second)) {
		return fmt.Errorf("the machine was too busy: the dump of victim %s was %v late", v.name, late.Round(time.Millisecond))
	}
	d, err := m.place.dump(ctx, v)
	if err != nil && ctx.Err() != nil {
		return nil
	}
	*to = d
	return err
}

// collect reads the generator's files, nginx's log and what the victims saw.
func (m *measurement) collect(ctx context.Context, e *evidence) error {
	load, err := result.ReadLoad(filepath.Join(m.folder, result.LoadFile))
	if err != nil {
		return err
	}
	if !load.Validity.Valid {
		return fmt.Errorf("the load may not be believed: %s", strings.Join(load.Validity.Reasons, "; "))
	}
	if e.requests, err = result.ReadRequests(filepath.Join(m.folder, result.RequestsFile)); err != nil {
		return err
	}
	for i, v := range m.place.victims {
		if err := m.place.getJSON(ctx, v, adminapi.PathVisits+"?phase="+adminapi.PhaseLoad, &e.visits[i]); err != nil {
			return err
		}
	}
	for deadline := time.Now().Add(logWait); ; {
		if e.access, err = m.place.nginx.AccessLog(); err != nil {
			return err
		}
		if missing, _ := unlogged(e.requests, logged(e.access)); missing == 0 || time.Now().After(deadline) {
			return nil // join says what is missing
		}
		if !sleepUntil(ctx, time.Now().Add(tickFloor)) {
			return context.Cause(ctx)
		}
	}
}

// fill judges the cell and writes down what was observed.
func (m *measurement) fill(c *result.Case, e evidence, j joined) {
	v := seen{figures: j.figures()}
	for i, read := range []figure{readOne, readTwo} {
		v.figures[read] = float64(e.dumps[i].Where[stacks.UpstreamRead])
	}
	c.Counts, c.HandlerRuns = j.counts, j.runs
	for i, victim := range m.place.victims {
		of := j.shares[i]
		pool := m.pools[i]
		watched := pool.watched(m.loadOn.Add(m.settings.real(loadFor)))
		one := result.CaseVictim{
			Name: victim.name, Slow: victim.slow, Fast: of.fast, FastFailed: of.fastFailed,
			Upstream: of.upstream, UpstreamFailed: of.upstreamFailed, Retried: of.retried,
			Where:    maps.Clone(e.dumps[i].Where),
			WatchedS: m.settings.scenarioSeconds(watched.watched),
		}
		one.MaxBusy, one.MaxQueued = pool.most()
		idle := [...]figure{idleOne, idleTwo}[i]
		v.figures[idle] = never
		if watched.idle {
			seconds := m.settings.scenarioSeconds(watched.after)
			one.RecoveredS, v.figures[idle] = &seconds, seconds
		}
		c.Victims = append(c.Victims, one)
	}
	v.outcome = m.outcome(j)
	c.Got, c.OK = m.want.got(v), m.want.met(v)
	c.Files = []result.EvidenceFile{
		{Name: result.RequestsFile, What: "every request, as its client saw it"},
		{Name: balancerName + "-access.log", What: "every request, as nginx saw it: the victims that it was sent to, and what they answered"},
		{Name: balancerName + ".conf", What: "nginx's configuration: what it does with a request"},
		{Name: balancerName + "-frame.conf", What: "the frame around it"},
		{Name: balancerName + ".log", What: "what nginx says of itself"},
		{Name: result.PoolsFile, What: "both pools over time"},
		{Name: dumpFile(names[0]), What: fmt.Sprintf("the goroutines of victim one, %v into the load", dumpAt)},
		{Name: dumpFile(names[1]), What: "and of victim two"},
		{Name: result.LoadFile, What: "the load generator's own result"},
	}
}

// sleepUntil reports false if ctx was done first.
func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
