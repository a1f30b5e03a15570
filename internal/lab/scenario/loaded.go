package scenario

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/cli"
	"chokepoint/internal/evidence/queueing"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

// loaded is the load itself with all that goes on beside it: samples, dumps, the
// dose, and the watch for recovery.
func (p *phases) loaded(ctx context.Context) error {
	s := p.e.settings
	points, err := s.DumpPoints()
	if err != nil {
		return err
	}
	// The dump before the load needs a lead of a scenario second, and the load
	// generator one to start.
	lead := max(s.real(-points[0].At), p.world.LoadLead())
	loadOn := time.Now().Add(lead + 200*time.Millisecond)
	p.e.loadOn = loadOn
	loadOff := loadOn.Add(s.real(s.Duration))

	sampling, stopSampling := context.WithCancel(ctx)
	sampler := &sampler{observer: p.observer, url: p.world.VictimAdmin() + adminapi.PathStats, loadOn: loadOn, tick: s.tick()}
	var background sync.WaitGroup
	background.Go(func() { sampler.run(sampling) })
	defer func() {
		stopSampling()
		background.Wait()
		p.e.samples = sampler.all()
		p.e.faults = append(p.e.faults, sampler.faults(min(s.real(s.Duration), time.Since(loadOn)))...)
	}()

	load, err := p.world.StartLoad(ctx, p.loadArgs(loadOn))
	if err != nil {
		return err
	}
	p.progress("load begins in %.1f s: %v/s to /fast and %v/s to /upstream for %v", max(time.Until(loadOn), 0).Seconds(), s.realRate(s.FastRate).PerSecond(), s.realRate(s.UpstreamRate).PerSecond(), s.real(s.Duration))
	p.say("load", loadSentence(s, p.e.prediction))
	if s.Loses() {
		p.lossBegun = make(chan struct{})
		background.Go(func() { p.lose(sampling) })
	} else {
		background.Go(func() {
			if sleepUntil(sampling, loadOn) {
				p.measureDose(sampling)
			}
		})
	}
	background.Go(func() { watchGenerator(sampling, load, p.end) })

	observeErr := p.observeLoad(ctx, points, loadOff, sampler)
	loadErr := p.finishLoad(ctx, load)
	p.collect(ctx)
	p.endLoss()
	if observeErr != nil {
		return observeErr
	}
	return loadErr
}

// watchGenerator ends the run if the load generator ends otherwise than with a
// result.
func watchGenerator(ctx context.Context, load world.Load, end context.CancelCauseFunc) {
	select {
	case <-load.Done():
	case <-ctx.Done():
		return
	}
	switch load.ExitCode() {
	case cli.ExitOK, cli.ExitInvalid, cli.ExitThreshold:
	default:
		end(errors.New(generatorDeath(load).String()))
	}
}

// loadArgs are the arguments of the load generator.
func (p *phases) loadArgs(loadOn time.Time) []string {
	s, w := p.e.settings, p.world
	args := []string{
		"-quiet", "-phase=" + adminapi.PhaseLoad, "-duration=" + s.real(s.Duration).String(),
		"-start-at=" + loadOn.UTC().Format(time.RFC3339Nano),
		"-arrivals=" + s.Arrivals, fmt.Sprintf("-seed=%d", s.Seed), "-max-lag=" + s.MaxLag.String(),
		"-json=" + w.LoadPath(result.LoadFile), "-hlog=" + w.LoadPath(result.HistogramFile),
		"-requests=" + w.LoadPath(result.RequestsFile),
		"-endpoint=" + endpointArg("fast", w.VictimURL()+"/fast", s.realRate(s.FastRate).PerSecond(), s.real(s.FastTimeout), s.Workers),
		"-endpoint=" + endpointArg("upstream", w.VictimURL()+"/upstream", s.realRate(s.UpstreamRate).PerSecond(), s.real(s.UpstreamTimeout), s.Workers),
	}
	if s.GracefulStop >= 0 {
		args = append(args, "-graceful-stop="+s.real(s.GracefulStop).String())
	}
	return args
}

// observeLoad takes the dumps at their moments and watches for recovery. Its
// error is that of ctx.
func (p *phases) observeLoad(ctx context.Context, points []queueing.DumpPoint, loadOff time.Time, sampler *sampler) error {
	s := p.e.settings
	before := p.world.Usage()
	var watch sync.WaitGroup
	watch.Go(func() {
		if !sleepUntil(ctx, p.e.loadOn) {
			return
		}
		before = p.world.Usage()
		p.feed.tell("load_on", "load on", "load on")
		if !sleepUntil(ctx, loadOff) {
			return
		}
		p.e.usage = usedSince(before, p.world.Usage())
		p.progress("load off; watching for recovery, at most %v", s.real(s.RecoveryWait))
		p.feed.tell("load_off", "load off", "load off")
		p.say("recovery", recoverySentence(s, p.e.prediction))
		w := recoveryWatch{
			sampler: sampler, observer: p.observer, fastURL: p.world.ProbeURL() + "/fast",
			bound: unharmed(p.e.baselines), timeout: s.real(s.FastTimeout), loadOff: loadOff, wait: s.real(s.RecoveryWait),
		}
		p.e.recovery = w.run(ctx, s.scenarioSeconds)
	})
	p.takeDumps(ctx, points)
	watch.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.event(p.e.loadOn, "load_on", "")
	p.event(loadOff, "load_off", "")
	if seconds := p.e.recovery.Seconds; seconds != nil {
		p.event(loadOff.Add(s.real(time.Duration(*seconds*float64(time.Second)))), "recovered", "")
		p.progress("recovered %s after the load", s.spanText(*seconds))
		p.feed.tell("recovered", "recovered", fmt.Sprintf("recovered: the pool was idle %s after the load", s.spanText(*seconds)))
	}
	return nil
}

// takeDumps takes each dump at its moment. One that fails is a fault of the
// evidence; those after it are still worth having.
func (p *phases) takeDumps(ctx context.Context, points []queueing.DumpPoint) {
	fault := func(err error) {
		if err != nil && ctx.Err() == nil {
			p.progress("%v", err)
			p.e.faults = append(p.e.faults, err.Error())
		}
	}
	for i, point := range points {
		due := p.dumpDue(point)
		if !sleepUntil(ctx, due) {
			return
		}
		d, window, err := p.observer.dump(ctx, p.world.VictimAdmin(), p.dir, i+1, point.Name)
		if err != nil {
			fault(err)
			continue
		}
		d.AtS = p.e.settings.scenarioSeconds(window[0].Sub(p.e.loadOn))
		if late := window[0].Sub(due); late > p.mostDumpLate() || point.At < 0 && window[1].After(p.e.loadOn) {
			p.e.faults = append(p.e.faults, fmt.Sprintf("dump %s was taken %v late, at %.1f s: the lab had no CPU", point.Name, late.Round(time.Millisecond), d.AtS))
		}
		p.e.dumps, p.e.windows = append(p.e.dumps, d), append(p.e.windows, window)
		p.e.events = append(p.e.events, result.Event{AtS: d.AtS, Name: "dump", Detail: d.Point, PauseMS: d.PauseMS})
		p.feed.tellDump(d, window[0])
		p.progress("dump %s: %d workers, %s, %d queued", d.Point, d.Workers, inCalls(d), d.Queued)
		fault(p.observer.metrics(ctx, p.world.VictimAdmin(), p.dir, "victim-"+point.Name))
	}
}

// inCalls says how many workers stand in a call to the upstream.
func inCalls(d result.Dump) string {
	text := fmt.Sprintf("%d in the upstream read", d.Where[stacks.UpstreamRead])
	if n := d.Where[stacks.UpstreamConnect]; n > 0 {
		text = fmt.Sprintf("%d connecting to the upstream and %s", n, text)
	}
	return text
}

// A dump before the load is taken this long ahead of it, and one under load is
// of its moment if it is not later than this: real, not scaled.
const (
	dumpLead     = 250 * time.Millisecond
	dumpLateness = 250 * time.Millisecond
)

// dumpDue is the moment of a dump. One before the load leaves time, at any
// scale, to be over when the load begins.
func (p *phases) dumpDue(point queueing.DumpPoint) time.Time {
	at := p.e.settings.real(point.At)
	if at < 0 {
		at = min(at, -dumpLead)
	}
	return p.e.loadOn.Add(at)
}

// mostDumpLate is how late a dump may be and still show its moment.
func (p *phases) mostDumpLate() time.Duration {
	return max(dumpLateness, p.e.settings.real(time.Second))
}

// finishLoad waits for the load generator and reads what it wrote. Its error is
// that of ctx.
func (p *phases) finishLoad(ctx context.Context, load world.Load) error {
	var err error
	p.e.load, err = await(ctx, load, filepath.Join(p.dir, result.LoadFile))
	if err != nil && ctx.Err() == nil {
		p.e.faults = append(p.e.faults, err.Error())
		return nil
	}
	if p.e.load != nil {
		var rowsErr error
		if p.e.requests, rowsErr = result.ReadRequests(filepath.Join(p.dir, result.RequestsFile)); rowsErr != nil {
			p.e.faults = append(p.e.faults, "the load generator's rows: "+rowsErr.Error())
		}
	}
	return err
}

// collect asks the servers for their counts at the end. What a dead server
// cannot tell any more is missing from the evidence, and said to be.
func (p *phases) collect(ctx context.Context) {
	patience := askTimeout
	if ctx.Err() != nil {
		patience = hurriedAskTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	miss := func(err error) {
		if err != nil {
			p.e.warnings = append(p.e.warnings, "at the end: "+err.Error())
		}
	}
	var victim adminapi.VictimStats
	if err := p.observer.getJSON(ctx, p.world.VictimAdmin()+adminapi.PathStats, &victim); err != nil {
		miss(err)
	} else {
		p.e.final = &victim
		miss(p.observer.getJSON(ctx, p.world.VictimAdmin()+adminapi.PathSeen+"?phase="+adminapi.PhaseLoad, &p.e.seen))
		miss(p.observer.getJSON(ctx, p.world.VictimAdmin()+adminapi.PathVisits+"?phase="+adminapi.PhaseLoad, &p.e.visits))
		miss(p.observer.metrics(ctx, p.world.VictimAdmin(), p.dir, "victim-end"))
	}
	var stub adminapi.StubStats
	if err := p.observer.getJSON(ctx, p.world.StubAdmin()+adminapi.PathStats, &stub); err != nil {
		miss(err)
		return
	}
	p.e.stub = &stub
	miss(p.observer.metrics(ctx, p.world.StubAdmin(), p.dir, "upstream-end"))
}

// measureDose sends one request to the upstream on the victim's own path: the delay
// that the victim meets is measured, not assumed. That is as the load begins, or
// before a path begins to lose packets, since what it loses is counted.
func (p *phases) measureDose(ctx context.Context) {
	took, err := p.observer.probe(ctx, p.world.StubURL(), adminapi.PhaseDose)
	if err == nil {
		ms := took.Seconds() * 1000
		p.e.doseMS = &ms
	}
}

func usedSince(before, after map[string]proc.Usage) map[string]proc.Usage {
	used := map[string]proc.Usage{}
	for name, a := range after {
		b := before[name]
		used[name] = proc.Usage{CPUSeconds: a.CPUSeconds - b.CPUSeconds, RunQueueWait: a.RunQueueWait - b.RunQueueWait}
	}
	return used
}
