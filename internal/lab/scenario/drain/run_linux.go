package drain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/lab/pghost"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/result"
)

const (
	startWait = 60 * time.Second // for everything to listen
	stopGrace = 2 * time.Second  // between SIGTERM and SIGKILL
	stopWait  = 20 * time.Second // for everything to have ended
	// idleWait is how long the application may take to be done after its last client.
	idleWait = 30 * time.Second
	// pollEvery is the time between two looks at what is waited for.
	pollEvery = 10 * time.Millisecond
)

// Database is the PostgreSQL of all setups of a process: each has a table of its own. It
// is there while a setup uses it, and has the setups start one after the other: to start
// a world takes the whole machine for a moment, and would disturb those that run. The
// zero value is ready.
type Database struct {
	host     pghost.Server
	once     sync.Once
	starting chan struct{} // holds whoever starts
}

// start runs f when nobody else starts.
func (d *Database) start(ctx context.Context, f func(context.Context) error) error {
	d.once.Do(func() { d.starting = make(chan struct{}, 1) })
	select {
	case d.starting <- struct{}{}:
		defer func() { <-d.starting }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	return f(ctx)
}

// world is a setup that runs.
type world struct {
	setup    Setup
	programs Programs
	folder   string
	hosts    *hosts
	seat     pghost.Seat
	table    string
	edge     *balancer.Balancer
	balancer *balancer.Balancer
	app      *proc.Child
	gateways []*gateway // in the order of their hosts: the newest of each
	fail     context.CancelCauseFunc
	watchers sync.WaitGroup

	mu      sync.Mutex // of what follows
	told    time.Time  // when the first gateway was told to end
	signals []signalled
	events  []moment
	ended   []Ended
}

// moment is something that happened.
type moment struct {
	at                  time.Time
	where, what, detail string
}

func (w *world) note(where, what, detail string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, moment{time.Now(), where, what, detail})
}

// tries is how often a setup is carried out at most, if the machine is too busy.
const tries = 3

// Carry carries a setup out in hosts of its own, within a sandbox, and writes its
// evidence into folder, which exists and is empty. Whatever it started has ended when it
// returns. A setup of which something was done too late is carried out anew, up to three
// times. The error is one line, of what could not be had or has died by itself: a
// *balancer.Rejected where a configuration is not taken, a *Late where the machine was
// too busy each time. What became of requests is no error.
func Carry(ctx context.Context, programs Programs, database *Database, s Setup, folder string) (out Outcome, err error) {
	for range tries {
		var late *Late
		if out, err = carry(ctx, programs, database, s, folder); !errors.As(err, &late) {
			return out, err
		}
		if errClear := clear(folder); errClear != nil {
			return Outcome{}, errors.Join(err, errClear)
		}
	}
	return Outcome{}, err
}

// clear removes what is in a folder: logs are added to.
func clear(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// carry is one try.
func carry(ctx context.Context, programs Programs, database *Database, s Setup, folder string) (out Outcome, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &world{setup: s, programs: programs, folder: folder, fail: cancel}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
		defer cancel()
		err = errors.Join(err, w.stop(ctx))
		if w.seat.PG != nil {
			err = errors.Join(err, database.host.Leave(ctx))
		}
	}()
	err = database.start(ctx, func(ctx context.Context) (err error) {
		if w.seat, err = database.host.Enter(ctx); err != nil {
			return err
		}
		w.table = fmt.Sprintf("work_%d", w.seat.Number)
		return w.start(ctx)
	})
	if err != nil {
		return Outcome{}, err
	}
	sent, err := w.happen(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return Outcome{}, cause // of which err is what it led to
	}
	if err != nil {
		return Outcome{}, err
	}
	return w.report(ctx, sent)
}

// start starts the application, the gateways, the balancer and the edge.
func (w *world) start(ctx context.Context) (err error) {
	if w.hosts, err = newHosts(w.setup, w.seat); err != nil {
		return err
	}
	args := []string{
		"-listen=" + serviceAt(appAddr), "-admin=" + adminAt, "-profile=anti", "-name=app", "-max-workers=2000", "-max-connections=20000",
		"-database-url=" + w.seat.PG.URLAt(w.seat.Addr(10)), "-database-conns=2", "-work-table=" + w.table,
	}
	if w.setup.Idempotent {
		args = append(args, "-idempotency-key")
	}
	if w.app, err = startProgram(ctx, w.hosts.app, "app", w.programs.Victim, args, w.folder); err != nil {
		return err
	}
	w.gateways = make([]*gateway, w.setup.Gateways)
	for i := range w.gateways {
		if err = w.begin(ctx, i); err != nil {
			return err
		}
	}
	w.balancer, err = w.programs.HAProxy.Start(ctx, w.hosts.balancer.Launcher(), balancer.Options{
		Name: "balancer", Folder: w.folder, Config: balancerConfig(w.setup.Gateways)})
	if err != nil {
		return err
	}
	w.watch(w.balancer.Child, w.balancer.Died)
	w.watch(w.app, func() error { return fmt.Errorf("the application ended by itself: %s", w.app.Status()) })
	if w.setup.Edge > 0 {
		w.edge, err = w.programs.Nginx.Start(ctx, w.hosts.edge.Launcher(), balancer.Options{
			Name: "edge", Folder: w.folder, Config: edgeConfig(w.setup.Edge)})
		if err != nil {
			return err
		}
		w.watch(w.edge.Child, w.edge.Died)
	}
	return nil
}

// begin starts the gateway of a host.
func (w *world) begin(ctx context.Context, i int) error {
	g, err := w.startGateway(ctx, i)
	if err != nil {
		return err
	}
	w.gateways[i] = g
	w.watch(g.child, func() error {
		if g.told.Load() {
			return nil
		}
		return g.died()
	})
	return nil
}

// watch fails the run if a program ends while it should not; died is nil if it should.
func (w *world) watch(child *proc.Child, died func() error) {
	w.watchers.Go(func() {
		<-child.Done()
		if err := died(); err != nil {
			w.fail(err)
		}
	})
}

// stop ends what runs, those who are in front first.
func (w *world) stop(ctx context.Context) error {
	w.fail(nil) // whoever ends from now on should
	var errs []error
	for _, b := range []*balancer.Balancer{w.edge, w.balancer} {
		if b != nil {
			errs = append(errs, b.Stop(ctx))
		}
	}
	for _, g := range w.gateways {
		if g != nil {
			errs = append(errs, g.stop(ctx))
		}
	}
	if w.app != nil {
		errs = append(errs, w.app.Stop(ctx, stopGrace))
	}
	w.watchers.Wait()
	if w.hosts != nil {
		errs = append(errs, w.hosts.close())
	}
	return errors.Join(errs...)
}

// entrance is where the clients send to.
func (w *world) entrance() string {
	if w.setup.Edge > 0 {
		return serviceAt(edgeAddr)
	}
	return serviceAt(balancerAddr)
}

// happen sends the load, ends the gateways meanwhile, and returns what was sent when the
// application is done with all of it.
func (w *world) happen(ctx context.Context) ([]sending, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := w.newLoad()
	for _, c := range l.callers {
		defer c.close()
	}
	if err := w.warm(ctx, l); err != nil {
		return nil, err
	}
	keepers, err := w.placeKeepers(ctx)
	for _, k := range keepers {
		defer k.close()
	}
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	var sent []sending
	begin := time.Now()
	wg.Go(func() {
		all, err := l.run(ctx, w.setup.Load, begin, w.setup.Rolling)
		if err != nil {
			cancel(err)
		}
		sent = all
	})
	for _, k := range keepers {
		wg.Go(func() { k.keep(ctx, &l.ended, w.setup.Load.Attempts) })
	}
	due := begin.Add(w.setup.Load.Before)
	err = sleepUntil(ctx, due)
	if err == nil && w.setup.End.AllAtWork {
		err = w.awaitAtWork(ctx, l, due)
	}
	if err == nil {
		err = w.endGateways(ctx)
	}
	if err != nil {
		cancel(err)
	}
	l.ended.Store(true)
	wg.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	for _, k := range keepers {
		sent = append(sent, k.sent...)
	}
	if err := stalled(sent); err != nil && !w.setup.End.OnZero { // which no answer bears on
		return nil, err
	}
	return sent, w.awaitIdle(ctx)
}

// warm has each client of HTTP/2 make its connection, one after the other, so that the
// balancer gives every gateway as many.
func (w *world) warm(ctx context.Context, l *load) error {
	if w.setup.Protocol != HTTP2 {
		return nil
	}
	for i, c := range l.callers {
		if s := c.send(ctx, order{id: fmt.Sprintf("warm%d", i)}); !s.ok {
			return fmt.Errorf("the first request of a client failed: %s", s.err)
		}
	}
	return nil
}

// awaitAtWork waits until the application is at work on the whole load: what has not
// reached it cannot be cut off there. What has its answer already is not waited for, as
// it may be one that says that it will never reach it. The error is a *Late if that comes
// too long after it is due.
func (w *world) awaitAtWork(ctx context.Context, l *load, due time.Time) error {
	const what = "the application's beginning of all work"
	ctx, cancel := context.WithDeadlineCause(ctx, due.Add(maxLate), &Late{what, maxLate})
	defer cancel()
	return w.awaitPool(ctx, func(p adminapi.PoolStats) bool { return p.Busy+int(l.answered.Load()) >= w.setup.Load.Requests })
}

// awaitIdle waits until the application has nothing to do: what it was at when its
// client had gone has its row.
func (w *world) awaitIdle(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, idleWait, fmt.Errorf("the application was not done within %v", idleWait))
	defer cancel()
	return w.awaitPool(ctx, func(p adminapi.PoolStats) bool { return p.Busy == 0 && p.Queued == 0 })
}

// awaitPool waits until the application's workers are as they should be, or returns the
// cause of the context's end.
func (w *world) awaitPool(ctx context.Context, is func(adminapi.PoolStats) bool) error {
	for {
		var stats adminapi.VictimStats
		if err := askAdmin(ctx, w.hosts.app, adminapi.PathStats, &stats); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return fmt.Errorf("ask the application: %w", err)
		}
		if is(stats.Pool) {
			return nil
		}
		if err := sleepUntil(ctx, time.Now().Add(pollEvery)); err != nil {
			return err
		}
	}
}

// evidenceFile is a file of the folder that a program wrote.
func evidenceFile(name, what string) result.EvidenceFile {
	return result.EvidenceFile{Name: filepath.ToSlash(name), What: what}
}
