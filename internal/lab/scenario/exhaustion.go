// Package scenario drives the experiments: their phases, the moments of their
// dumps, what is checked at the end. One file per scenario; this one is the
// exhaustion of a shared worker pool by one slow upstream.
//
// A scenario asks the programs over HTTP and reads the files that they write. It
// links none of them.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/live"
	"chokepoint/internal/evidence/queueing"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

// Exhaustion is the name of the scenario in results.
const Exhaustion = "exhaustion"

// Starter starts the world of a run in its folder.
type Starter func(ctx context.Context, cfg world.Config) (world.World, error)

// Run is one run of the exhaustion scenario.
type Run struct {
	Settings Settings
	Start    Starter
	// Progress is told what happens, a line at a time, by several goroutines.
	Progress func(format string, args ...any)
	// Lose makes the path to the stub lose packets; it is needed where Settings.Loses.
	Lose Lose
	// Live is shown the run while it goes; nil is nobody.
	Live *live.View
}

// ErrInterrupted is why a run ended early when its caller said so.
var ErrInterrupted = errors.New("interrupted")

// evidence is what a run has gathered.
type evidence struct {
	dir        string // the run's folder, which gets another name in the end
	settings   *Settings
	prediction queueing.Prediction
	startedAt  time.Time
	loadOn     time.Time // zero: the load never began
	baselines  []result.Baseline
	load       *result.Load
	requests   []result.Request
	dumps      []result.Dump
	windows    [][2]time.Time // of the full dumps, as the lab saw them
	samples    []sample
	final      *adminapi.VictimStats
	stub       *adminapi.StubStats
	seen       adminapi.Seen
	visits     adminapi.Visits
	doseMS     *float64
	loss       *result.PathLoss
	via        string
	recovery   result.Recovery
	usage      map[string]proc.Usage // while the load ran
	describe   world.Description
	events     []result.Event
	warnings   []string
	faults     []string // of the evidence: what should be in it and is not
	ended      error    // why the run ended early; nil if it did not
}

// Outcome is what a run has given.
type Outcome struct {
	Summary result.Summary // its id is not set yet
	World   world.Description
}

// Into runs the scenario with dir as its folder and fills it, but for summary,
// manifest and report. The summary is complete also when the run was cut short:
// then it is invalid and says why. The error is of what kept the run from being
// one at all: nothing was measured; it is ErrInterrupted if that was ctx.
func (r *Run) Into(ctx context.Context, dir string) (Outcome, error) {
	s := &r.Settings
	config, err := s.model()
	if err != nil {
		return Outcome{}, err
	}
	e := &evidence{dir: dir, settings: s, startedAt: time.Now().UTC()}
	// Before the run, from the configuration alone.
	if e.prediction, err = queueing.Predict(config); err != nil {
		return Outcome{}, err
	}
	if err := s.preflight(); err != nil {
		return Outcome{}, err
	}
	r.Progress("profile %s; %s", s.profileText(), s.upstreamText())
	o := newObserver()
	defer o.close()
	phases := &phases{run: r, e: e, observer: o, dir: dir, feed: newFeed(r.Live, o, s, r.Progress)}
	phases.say("start", startSentence(s))
	cfg := s.world(dir)
	cfg.Progress = r.Progress
	e.via = cfg.Via()
	w, err := r.Start(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil {
			err = beforeTheLoad(interruption(ctx))
		}
		return Outcome{}, err
	}
	defer r.close(ctx, w)
	e.describe = w.Describe()

	// Not ctx's own child: it would end with ctx's cause, which does not say what
	// it means to the run.
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stopWatching := make(chan struct{})
	defer close(stopWatching)
	go func() {
		select {
		case death := <-w.Died():
			cancel(errors.New(death.String()))
		case <-ctx.Done():
			cancel(interruption(ctx))
		case <-stopWatching:
		}
	}()
	phases.world, phases.end = w, cancel
	defer phases.feed.start(running, w.VictimAdmin())()
	if err := phases.all(running); err != nil {
		e.ended = err
		if cause := context.Cause(running); cause != nil {
			e.ended = cause
		}
	}
	if errors.Is(e.ended, ErrInterrupted) && !e.loaded() {
		return Outcome{}, beforeTheLoad(e.ended)
	}
	r.Progress("writing the result")
	summary, err := e.write()
	return Outcome{summary, e.describe}, err
}

// interruption says that ctx is done, and by what: "interrupted (interrupt
// signal received)".
func interruption(ctx context.Context) error {
	return fmt.Errorf("%w (%w)", ErrInterrupted, context.Cause(ctx))
}

func beforeTheLoad(err error) error {
	return fmt.Errorf("%w before the load: nothing was measured", err)
}

// close stops the world, also when ctx is done.
func (r *Run) close(ctx context.Context, w world.World) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := w.Close(closing); err != nil {
		r.Progress("stopping: %v", err)
	}
}

// loaded reports whether any request of the load fell due.
func (e *evidence) loaded() bool { return anyScheduled(e.load) }

// world is the configuration of what the run needs, in real time.
func (s *Settings) world(dir string) world.Config {
	victim := append(s.Profile.Args(),
		"-scale="+formatFloat(s.Scale),
		"-min-workers="+strconv.Itoa(s.MinWorkers), "-max-workers="+strconv.Itoa(s.MaxWorkers),
		"-accept-backlog="+strconv.Itoa(s.AcceptBacklog), "-max-connections="+strconv.Itoa(s.MaxConnections),
		"-database-conns="+strconv.Itoa(s.DatabaseConns))
	delay := s.Delay
	var latency time.Duration
	if s.ToxiproxyURL != "" {
		// The toxic adds the delay, so the stub behind it answers at once.
		asked, _ := time.ParseDuration(s.Delay) // Validate has read it
		delay, latency = "0s", s.real(asked)
	}
	stub := []string{
		"-delay=" + delay, "-scale=" + formatFloat(s.Scale), "-fault=" + string(s.stubFault()),
		"-fault-rate=" + formatFloat(s.FaultRate), "-seed=" + strconv.FormatUint(s.Seed, 10),
	}
	return world.Config{
		RunDir: dir, BinDir: s.BinDir, ComposeFile: s.ComposeFile, VictimArgs: victim, StubArgs: stub,
		VictimListen: s.VictimListen, VictimAdmin: s.VictimAdmin, StubListen: s.StubListen, StubAdmin: s.StubAdmin,
		StubTLS:     s.stubFault() == adminapi.FaultTLSHang,
		DatabaseURL: s.DatabaseURL, ToxiproxyURL: s.ToxiproxyURL, Latency: latency,
		GoMaxProcs: s.GoMaxProcs, GoMemLimit: s.GoMemLimit,
	}
}

func formatFloat(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// preflight finds out before anything runs whether the processes may open as
// many files as they will need.
func (s *Settings) preflight() error {
	var inFlight int
	for _, stream := range []struct {
		perSecond float64
		timeout   time.Duration
	}{{s.FastRate.PerSecond(), s.FastTimeout}, {s.UpstreamRate.PerSecond(), s.UpstreamTimeout}} {
		n := s.Workers
		if n == 0 {
			n = int(stream.perSecond*stream.timeout.Seconds()) + 64
		}
		inFlight += n
	}
	// The victim holds a client's connection and one to the stub for each.
	return NeedFiles(2*inFlight + s.DatabaseConns + 64)
}

// phases drives one run through its phases.
type phases struct {
	run      *Run
	e        *evidence
	world    world.World
	observer *observer
	feed     *feed
	dir      string
	end      context.CancelCauseFunc // ends the run, and says why
	// What lose has found when it closes lossBegun: the path, nil if it loses nothing,
	// and how long after the load it began to.
	lossBegun chan struct{}
	lossy     Lossy
	lossLate  time.Duration
}

// all runs every phase. It returns at the first that could not end.
func (p *phases) all(ctx context.Context) error {
	if err := p.baselines(ctx); err != nil {
		return err
	}
	if p.e.settings.Loses() {
		if err := p.keepConnections(ctx); err != nil {
			return fmt.Errorf("connections to keep: %w", err)
		}
		p.measureDose(ctx)
	}
	// The extremes of the run are those of the load: a stall in a baseline is not.
	if err := p.observer.post(ctx, p.world.VictimAdmin()+adminapi.PathReset); err != nil {
		return err
	}
	return p.loaded(ctx)
}

func (p *phases) progress(format string, args ...any) { p.run.Progress(format, args...) }

func (p *phases) event(at time.Time, name, detail string) {
	e := result.Event{AtS: p.e.settings.scenarioSeconds(at.Sub(p.e.loadOn)), Name: name, Detail: detail}
	p.e.events = append(p.e.events, e)
}

// baselines measures /fast in peace: at the published rate, and at the load's own.
func (p *phases) baselines(ctx context.Context) error {
	s := p.e.settings
	length := s.baselineLength()
	p.say("baseline", baselineSentence(s))
	for _, b := range []struct {
		name string
		rate float64
	}{{"fixed_rate", s.BaselineRate.PerSecond()}, {"load_rate", s.realRate(s.FastRate).PerSecond()}} {
		p.progress("baseline: /fast at %s/s for %v", formatFloat(b.rate), length)
		name := "baseline-" + b.name + ".json"
		args := []string{
			"-quiet", "-phase=" + adminapi.PhaseBaseline, "-duration=" + length.String(), "-json=" + p.world.LoadPath(name),
			"-max-lag=" + s.MaxLag.String(),
			"-endpoint=" + endpointArg("fast", p.world.VictimURL()+"/fast", b.rate, s.real(s.FastTimeout), 0),
		}
		load, err := p.generate(ctx, args, filepath.Join(p.dir, name))
		if err != nil {
			return fmt.Errorf("baseline %s: %w", b.name, err)
		}
		fast := load.Endpoints["fast"]
		p.e.baselines = append(p.e.baselines, result.Baseline{
			Name: b.name, Rate: b.rate, Seconds: length.Seconds(),
			Failed: fast.Scheduled - fast.OK, Response: fast.Response, Disturbed: !load.Validity.Valid,
		})
		for _, reason := range load.Validity.Reasons {
			p.e.warnings = append(p.e.warnings, "baseline "+b.name+": "+reason)
		}
	}
	return nil
}

func endpointArg(name, url string, perSecond float64, timeout time.Duration, workers int) string {
	arg := "name=" + name + ",url=" + url + ",rate=" + formatFloat(perSecond) + "/s,timeout=" + timeout.String()
	if workers > 0 {
		arg += ",workers=" + strconv.Itoa(workers)
	}
	return arg
}

// generate runs a load generator to its end and reads its result.
func (p *phases) generate(ctx context.Context, args []string, path string) (*result.Load, error) {
	load, err := p.world.StartLoad(ctx, args)
	if err != nil {
		return nil, err
	}
	return await(ctx, load, path)
}

// await waits for a load generator and reads its result. When ctx ends it asks
// the generator to stop; then it returns both what that wrote and ctx's cause.
func await(ctx context.Context, load world.Load, path string) (*result.Load, error) {
	var stopped error
	select {
	case <-load.Done():
	case <-ctx.Done():
		stopped = context.Cause(ctx)
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := load.Stop(stopping); err != nil {
			return nil, err
		}
	}
	l, err := result.ReadLoad(path)
	switch {
	case err == nil:
		return &l, stopped
	case !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("the load generator's result: %w", err)
	case stopped != nil:
		return nil, stopped
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("%s, without a result", generatorDeath(load))
}

// generatorDeath tells how a load generator ended that should not have.
func generatorDeath(load world.Load) world.Death {
	status := fmt.Sprintf("exit status %d", load.ExitCode())
	if load.ExitCode() < 0 {
		status = "killed by a signal"
	}
	return world.Death{Name: "loadgen", Status: status, Log: load.LastLog(5)}
}
