package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/queueing"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

// Attach is one run against a service that is not ours: the exhaustion experiment
// with the load of a plan, and with the dumps and metrics that the service has. What
// only the victim could tell (which requests it read, its queue, its waits) is
// missing, and nothing is predicted.
type Attach struct {
	Settings AttachSettings
	// Start finds the load generator of a run whose folder is dir.
	Start func(dir string) (Generator, error)
	// Progress is told what happens, a line at a time, by several goroutines.
	Progress func(format string, args ...any)
}

// attachEvidence is what such a run has gathered.
type attachEvidence struct {
	dir       string
	settings  *AttachSettings
	plan      loadPlan
	protect   planEndpoint
	points    []queueing.DumpPoint
	startedAt time.Time
	loadOn    time.Time // zero: the load never began
	baselines []result.Baseline
	load      *result.Load
	requests  []result.Request
	dumps     []result.Dump
	windows   [][2]time.Time // of the dumps, as the lab saw them
	readings  readings
	recovery  result.Recovery
	events    []result.Event
	warnings  []string
	faults    []string // of the evidence: what should be in it and is not
	ended     error    // why the run ended early; nil if it did not
}

// Into runs the experiment with dir as its folder and fills it, but for summary,
// manifest and reports. Its error is of what kept the run from being one at all: it
// is a *UsageError, or ErrInterrupted, or says what is wrong.
func (a *Attach) Into(ctx context.Context, dir string) (Outcome, error) {
	s := &a.Settings
	e := &attachEvidence{dir: dir, settings: s, startedAt: time.Now().UTC()}
	g, err := a.Start(dir)
	if err != nil {
		return Outcome{}, err
	}
	forget, err := s.writeHeaders(dir)
	if err != nil {
		return Outcome{}, err
	}
	defer forget()
	e.plan, err = readPlan(ctx, g, s.loadArgs(dir), dir)
	if err == nil {
		e.protect, e.points, err = s.check(ctx, e.plan)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = beforeTheLoad(interruption(ctx))
		}
		return Outcome{}, err
	}
	for _, endpoint := range e.plan.Endpoints {
		a.Progress("target: %s %s (%s), %s/s, %d requests", endpoint.Method, endpoint.URL, endpoint.Name, formatRate(e.plan.meanRate(endpoint)), endpoint.Planned)
	}
	a.Progress("%s must survive; dumps from %s", e.protect.Name, withoutSecrets(s.DumpURL))

	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(interruption(ctx)) })()
	p := &attachPhases{run: a, e: e, generator: g, client: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}, end: cancel}
	defer p.client.CloseIdleConnections()
	if err := p.all(running); err != nil {
		if e.loadOn.IsZero() {
			if cause := context.Cause(running); errors.Is(cause, ErrInterrupted) {
				err = beforeTheLoad(cause)
			}
			return Outcome{}, err
		}
		e.ended = err
		if cause := context.Cause(running); cause != nil {
			e.ended = cause
		}
	}
	if errors.Is(e.ended, ErrInterrupted) && !anyScheduled(e.load) {
		return Outcome{}, beforeTheLoad(e.ended)
	}
	a.Progress("writing the result")
	summary, err := e.write()
	return Outcome{summary, g.Describe()}, err
}

func formatRate(perSecond float64) string { return fmt.Sprintf("%.4g", perSecond) }

// headersFile holds the headers of the load while the run goes on: they may be
// secret, and arguments are for everyone to see.
const headersFile = ".headers"

func (s *AttachSettings) writeHeaders(dir string) (forget func(), err error) {
	if len(s.LoadHeader) == 0 {
		return func() {}, nil
	}
	path := filepath.Join(dir, headersFile)
	text := "header " + strings.Join(s.LoadHeader, "\nheader ") + "\n"
	return func() { os.Remove(path) }, os.WriteFile(path, []byte(text), 0o600)
}

// loadArgs are the arguments of every load generator of the run in dir.
func (s *AttachSettings) loadArgs(dir string) []string {
	args := []string{"-plan=" + s.Plan}
	if len(s.LoadHeader) > 0 {
		args = append(args, "-config="+filepath.Join(dir, headersFile))
	}
	for _, t := range s.Thresholds {
		args = append(args, "-threshold="+t)
	}
	return args
}

// attachPhases drives one run through its phases.
type attachPhases struct {
	run       *Attach
	e         *attachEvidence
	generator Generator
	client    *http.Client
	end       context.CancelCauseFunc // ends the run, and says why
}

func (p *attachPhases) progress(format string, args ...any) { p.run.Progress(format, args...) }

// all runs every phase. It returns at the first that could not end.
func (p *attachPhases) all(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	m := newMeter(p.e.settings, p.client)
	var background sync.WaitGroup
	background.Go(func() { m.run(watching) })
	defer func() {
		stop()
		background.Wait()
		p.e.readings = m.all()
	}()
	if err := p.baseline(ctx); err != nil {
		return err
	}
	return p.loaded(ctx, m)
}

// alone are the arguments of a load on the protected endpoint alone, of a constant
// rate whatever the plan's arrivals are.
func (p *attachPhases) alone(phase, file string, perSecond float64) []string {
	rate := "-rate=" + formatFloat(perSecond) + "/s"
	if len(p.e.plan.Endpoints) > 1 {
		rate = "-endpoint=name=" + p.e.protect.Name + ",rate=" + formatFloat(perSecond) + "/s"
	}
	return append(p.run.Settings.loadArgs(p.e.dir), rate,
		"-only="+p.e.protect.Name, "-arrivals=constant", "-warmup=0s", "-quiet", "-phase="+phase, "-json="+file)
}

// baseline measures the protected endpoint in peace. A service that answers none of
// it is not loaded: nothing could be learnt of it.
func (p *attachPhases) baseline(ctx context.Context) error {
	s := p.e.settings
	perSecond := p.e.plan.meanRate(p.e.protect)
	if s.BaselineRate > 0 {
		perSecond = s.BaselineRate.PerSecond()
	}
	// One request at the least.
	length := max(s.BaselineDuration, seconds(1/perSecond))
	p.progress("baseline: %s at %s/s for %v", p.e.protect.Name, formatRate(perSecond), length)
	file := filepath.Join(p.e.dir, "baseline-load_rate.json")
	started, err := p.generator.StartLoad(ctx, append(p.alone(adminapi.PhaseBaseline, file, perSecond), "-duration="+length.String()))
	if err != nil {
		return err
	}
	load, err := await(ctx, started, file)
	if err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	got := load.Endpoints[p.e.protect.Name]
	if got.OK == 0 {
		return fmt.Errorf("none of the %d requests of the baseline to %s got a good answer (%s); see that %s is up, and what it answers; nothing was measured",
			got.Scheduled, p.e.protect.Name, failureWords(got), p.e.protect.URL)
	}
	p.e.baselines = append(p.e.baselines, result.Baseline{
		Name: "load_rate", Rate: perSecond, Seconds: length.Seconds(),
		Failed: got.Scheduled - got.OK, Response: got.Response, Disturbed: !load.Validity.Valid,
	})
	for _, reason := range load.Validity.Reasons {
		p.e.warnings = append(p.e.warnings, "baseline: "+reason)
	}
	if got.OK < got.Scheduled {
		p.e.warnings = append(p.e.warnings, fmt.Sprintf("baseline: %d of %d requests to %s failed before there was any load (%s)",
			got.Scheduled-got.OK, got.Scheduled, p.e.protect.Name, failureWords(got)))
	}
	return nil
}

// failureWords are the outcomes other than ok, and the statuses.
func failureWords(e result.Endpoint) string {
	var words []string
	for _, outcome := range []struct {
		name string
		n    int
	}{{outcomeHTTPError, e.HTTPError}, {outcomeTimeout, e.Timeout}, {outcomeConnect, e.ConnectError}, {outcomeTransport, e.TransportError}, {outcomeInterrupted, e.Interrupted}, {outcomeDropped, e.Dropped}} {
		if outcome.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", outcome.n, outcome.name))
		}
	}
	for _, counts := range []map[string]int{e.Status, e.Causes} {
		for _, key := range sortedKeys(counts) {
			words = append(words, fmt.Sprintf("%s: %d", key, counts[key]))
		}
	}
	return strings.Join(words, ", ")
}

// loaded is the load itself with the dumps and the watch for recovery.
func (p *attachPhases) loaded(ctx context.Context, m *meter) error {
	e, s := p.e, p.e.settings
	warmup := e.plan.warmup()
	// The dump before the load is over when the first request leaves.
	lead := p.generator.LoadLead() - e.points[0].At + s.dumpLead() + warmup
	e.loadOn = time.Now().Add(lead)
	loadOff := e.loadOn.Add(e.plan.duration())
	m.setLoadOn(e.loadOn)

	args := append(s.loadArgs(e.dir), "-quiet", "-phase="+adminapi.PhaseLoad, "-start-at="+e.loadOn.UTC().Format(time.RFC3339Nano),
		"-json="+filepath.Join(e.dir, result.LoadFile), "-hlog="+filepath.Join(e.dir, result.HistogramFile), "-requests="+filepath.Join(e.dir, result.RequestsFile))
	load, err := p.generator.StartLoad(ctx, args)
	if err != nil {
		return err
	}
	p.progress("load begins in %.1f s, for %v", time.Until(e.loadOn).Seconds(), e.plan.duration())
	watching, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { watchGenerator(watching, load, p.end) })
	defer background.Wait()
	defer stop()

	var watch sync.WaitGroup
	watch.Go(func() {
		if !sleepUntil(ctx, loadOff) {
			return
		}
		p.progress("load off; watching for recovery, at most %v", s.RecoveryWait)
		e.recovery = p.recover(ctx, m, loadOff)
	})
	p.takeDumps(ctx, warmup)
	watch.Wait()
	loadErr := p.finishLoad(ctx, load)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.event(e.loadOn, "load_on")
	p.event(loadOff, "load_off")
	if seconds := e.recovery.Seconds; seconds != nil {
		p.event(loadOff.Add(time.Duration(*seconds*float64(time.Second))), "recovered")
		p.progress("recovered %.1f s after the load", *seconds)
	}
	return loadErr
}

func (p *attachPhases) event(at time.Time, name string) {
	p.e.events = append(p.e.events, result.Event{AtS: at.Sub(p.e.loadOn).Seconds(), Name: name})
}

// finishLoad waits for the load generator and reads what it wrote. Its error is
// that of ctx.
func (p *attachPhases) finishLoad(ctx context.Context, load world.Load) error {
	var err error
	p.e.load, err = await(ctx, load, filepath.Join(p.e.dir, result.LoadFile))
	if err != nil && ctx.Err() == nil {
		p.e.faults = append(p.e.faults, err.Error())
		return nil
	}
	if p.e.load != nil {
		var rowsErr error
		if p.e.requests, rowsErr = result.ReadRequests(filepath.Join(p.e.dir, result.RequestsFile)); rowsErr != nil {
			p.e.faults = append(p.e.faults, "the load generator's rows: "+rowsErr.Error())
		}
	}
	return err
}

// anyScheduled reports whether any request of a load fell due.
func anyScheduled(load *result.Load) bool {
	if load == nil {
		return false
	}
	for _, endpoint := range load.Endpoints {
		if endpoint.Scheduled > 0 {
			return true
		}
	}
	return false
}
