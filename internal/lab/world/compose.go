package world

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/result"
)

const (
	// composeReadyWait bounds the wait for a server in a container: PostgreSQL makes
	// its cluster first.
	composeReadyWait = 60 * time.Second
	// composeCloseWait bounds the removal of the containers.
	composeCloseWait = 60 * time.Second
	// readyEvery is how often a starting server is asked, and readyAsk how long.
	readyEvery = 200 * time.Millisecond
	readyAsk   = 2 * time.Second
	// logEndWait bounds the wait for the last lines of a stopped container's log.
	logEndWait = 2 * time.Second
)

// Compose runs the programs in containers, as docker-compose.yml says: all in
// one network namespace, which nothing of the load leaves. The project's name is
// the run's own, so that several can go on at once.
type Compose struct {
	cfg         Config
	launcher    *proc.Launcher
	engine      *engine
	composeFile string
	project     string
	programs    map[string]string // name -> path
	hashes      map[string]string
	images      map[string]string // program -> name of its image
	settings    string            // of docker-compose.yml

	cleanup    *proc.LastCommand // nil until there is something to remove
	logs       *proc.Group       // docker logs, one per service, named like it
	containers map[string]container
	postgres   string // its version
	ports      map[int]string
	loads      int

	died         chan Death
	stopWatching context.CancelFunc
}

// StartCompose builds the images and starts a database, the stub and the victim
// in containers. If it fails, it has removed what it started. It also removes
// what labs that are gone have left with this engine.
func StartCompose(ctx context.Context, cfg Config, launcher *proc.Launcher) (_ *Compose, err error) {
	w := &Compose{
		cfg: cfg, launcher: launcher, logs: proc.NewGroup(), died: make(chan Death, 1),
		images: map[string]string{}, containers: map[string]container{},
	}
	watchCtx, cancel := context.WithCancel(context.Background())
	w.stopWatching = cancel
	defer func() {
		if err != nil {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), composeCloseWait)
			defer cancel()
			err = errors.Join(err, w.Close(closing))
		}
	}()
	if err := w.prepare(ctx); err != nil {
		return nil, err
	}
	if err := w.startProject(); err != nil {
		return nil, err
	}
	if err := w.startServices(ctx); err != nil {
		return nil, err
	}
	go w.watch(watchCtx)
	return w, nil
}

// prepare finds out whether a run is possible, and gets the images.
func (w *Compose) prepare(ctx context.Context) (err error) {
	switch {
	case w.cfg.DatabaseURL != "":
		return errors.New("a database URL is given, and containers bring their own PostgreSQL; unset DATABASE_URL, or run without containers (-runtime native)")
	case w.cfg.ToxiproxyURL != "":
		return fmt.Errorf("containers cannot reach the Toxiproxy at %s; run without them (-runtime native)", w.cfg.ToxiproxyURL)
	}
	if w.cfg.RunDir, err = filepath.Abs(w.cfg.RunDir); err != nil {
		return err
	}
	if w.settings, err = variables(w.cfg); err != nil {
		return err
	}
	if w.programs, w.hashes, err = FindPrograms(w.cfg.BinDir, worldPrograms...); err != nil {
		return err
	}
	if w.composeFile, err = findComposeFile(w.cfg, w.programs); err != nil {
		return err
	}
	if w.engine, err = findEngine(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(w.cfg.RunDir, result.LogsDir), 0o755); err != nil {
		return err
	}
	w.sweep(ctx)
	if err := w.havePostgresImage(ctx); err != nil {
		return err
	}
	return w.buildImages(ctx)
}

// sweep removes the projects of labs that are gone. What cannot be removed is no
// reason not to run.
func (w *Compose) sweep(ctx context.Context) {
	projects, err := w.engine.deadProjects(ctx)
	if err != nil {
		w.cfg.Progress("cannot look for containers of former runs: %v", err)
	}
	for _, project := range projects {
		w.cfg.Progress("removing %s, which a former run has left", project)
		if err := w.do(ctx, "compose down", w.engine.downArgs(project, w.composeFile, 0)); err != nil {
			w.cfg.Progress("%s stays: %v", project, err)
		}
	}
}

// startProject names the project and makes sure that it ends with the lab,
// before anything of it is there.
func (w *Compose) startProject() error {
	var random [4]byte
	rand.Read(random[:])
	w.project = fmt.Sprintf("chokepoint-%d-%s", os.Getpid(), hex.EncodeToString(random[:]))
	lab, err := proc.Self()
	if err != nil {
		return err
	}
	if err := w.writeFiles(lab, w.settings); err != nil {
		return err
	}
	w.cleanup, err = w.launcher.AtLast(w.engine.downArgs(w.project, w.composeFile, 0)...)
	return err
}

// startServices starts the services in the order in which they need each other,
// and waits for each. It asks them itself: the health checks are put off,
// since they would run in the middle of the measurement.
func (w *Compose) startServices(ctx context.Context) error {
	w.cfg.Progress("starting containers (%s)", w.project)
	if err := w.up(ctx, "upstream", "postgres"); err != nil {
		return err
	}
	err := w.await(ctx, "postgres", func(ctx context.Context) error {
		_, err := w.engine.ask(ctx, "exec", w.containers["postgres"].ID,
			"pg_isready", "--host=127.0.0.1", "--username=chokepoint", "--dbname=postgres")
		return err
	})
	if err != nil {
		return err
	}
	if w.postgres, err = w.postgresVersion(ctx); err != nil {
		return err
	}
	w.cfg.Progress("PostgreSQL %s", w.postgres)
	if err := w.up(ctx, "victim"); err != nil {
		return err
	}
	if w.ports, err = w.engine.ports(ctx, w.containers["upstream"].ID); err != nil {
		return err
	}
	for _, port := range []int{victimPort, victimAdminPort, stubPort, stubAdminPort} {
		if w.ports[port] == "" {
			return fmt.Errorf("%s does not publish port %d of the service upstream", w.composeFile, port)
		}
	}
	if err := w.await(ctx, "upstream", ready(w.StubAdmin())); err != nil {
		return err
	}
	return w.await(ctx, "victim", ready(w.VictimAdmin()))
}

// up starts services and follows their logs.
func (w *Compose) up(ctx context.Context, services ...string) error {
	args := append(w.composeArgs(), "up", "--detach", "--no-build", "--no-deps")
	upErr := w.do(ctx, "compose up", append(args, services...))
	if ctx.Err() != nil {
		return upErr
	}
	ids, err := w.engine.services(ctx, w.project)
	if err != nil {
		return errors.Join(upErr, err)
	}
	ended := false
	for _, name := range services {
		if ids[name] == "" {
			continue
		}
		c, err := w.engine.inspect(ctx, ids[name])
		if err != nil {
			return errors.Join(upErr, err)
		}
		w.containers[name] = c
		if c.State.Status == "created" {
			continue
		}
		// docker logs ends when the container does.
		follower, err := w.launcher.Start(ctx, proc.Spec{
			Name: name, Path: w.engine.docker, Args: []string{"logs", "--follow", c.ID}, LogPath: w.logPath(name),
		})
		if err != nil {
			return err
		}
		w.logs.Add(follower)
		ended = ended || c.State.Status == "exited"
	}
	if upErr != nil && ended {
		// One that has ended says more than compose about the one that needed it.
		return w.await(ctx, "compose up", func(context.Context) error { return upErr })
	}
	return upErr
}

// composeArgs begins the compose commands of this run.
func (w *Compose) composeArgs() []string {
	return append(w.engine.composeArgs(w.project, w.composeFile, w.overrideFile()),
		"--env-file", w.variablesFile(), "--ansi", "never")
}

// await asks a service until it is ready, or one of the containers has ended.
func (w *Compose) await(ctx context.Context, service string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, composeReadyWait, fmt.Errorf("not ready after %s", composeReadyWait))
	defer cancel()
	ticker := time.NewTicker(readyEvery)
	defer ticker.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, readyAsk)
		err := ask(asking)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case c := <-w.logs.Died():
			return errors.New(w.death(ctx, c).String())
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; the last answer: %v", service, context.Cause(ctx), err)
		}
	}
}

// ready asks an admin listener whether its server is ready.
func ready(admin string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+adminapi.PathReady, nil)
		if err != nil {
			return err
		}
		// No proxy of the environment, and nothing kept open.
		transport := &http.Transport{DisableKeepAlives: true}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
}

// postgresVersion asks the program, so that nothing here needs a connection.
func (w *Compose) postgresVersion(ctx context.Context) (string, error) {
	text, err := w.engine.ask(ctx, "exec", w.containers["postgres"].ID, "postgres", "--version")
	if err != nil {
		return "", err
	}
	// "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"
	fields := strings.Fields(text)
	if len(fields) < 3 {
		return "", fmt.Errorf("postgres --version says %q", text)
	}
	return fields[2], nil
}

func (w *Compose) logPath(name string) string {
	return filepath.Join(w.cfg.RunDir, result.LogsDir, name+".log")
}

// watch passes on the first death.
func (w *Compose) watch(ctx context.Context) {
	select {
	case c := <-w.logs.Died():
		w.died <- w.death(ctx, c)
	case <-ctx.Done():
	}
}

// death describes the end of the container whose log has ended.
func (w *Compose) death(ctx context.Context, follower *proc.Child) Death {
	d := Death{Name: follower.Name(), Status: "its log has ended", Log: follower.LastLog(5)}
	if c, err := w.engine.inspect(ctx, w.containers[d.Name].ID); err == nil && !c.State.Running {
		d.Status = c.status()
	}
	return d
}

// VictimURL implements World.
func (w *Compose) VictimURL() string { return "http://127.0.0.1:" + strconv.Itoa(victimPort) }

// ProbeURL implements World.
func (w *Compose) ProbeURL() string { return "http://" + w.ports[victimPort] }

// VictimAdmin implements World.
func (w *Compose) VictimAdmin() string { return "http://" + w.ports[victimAdminPort] }

// StubURL implements World.
func (w *Compose) StubURL() string { return "http://" + w.ports[stubPort] + "/" }

// StubAdmin implements World.
func (w *Compose) StubAdmin() string { return "http://" + w.ports[stubAdminPort] }

// LoadPath implements World.
func (w *Compose) LoadPath(name string) string { return resultsMount + "/" + filepath.ToSlash(name) }

// LoadLead implements World: compose and the engine need 1.3 s for a container
// on an idle machine, and several times that on a crowded one.
func (w *Compose) LoadLead() time.Duration { return 8 * time.Second }

// Died implements World.
func (w *Compose) Died() <-chan Death { return w.died }

// Usage implements World.
func (w *Compose) Usage() map[string]proc.Usage {
	all := map[string]proc.Usage{}
	for _, name := range []string{"upstream", "victim"} {
		if u, err := w.containers[name].usage(); err == nil {
			all[name] = u
		}
	}
	return all
}

// Describe implements World.
func (w *Compose) Describe() Description {
	limits := w.cfg.victimLimits()
	images := map[string]string{}
	for name, c := range w.containers {
		images[name] = c.Image
		prefix := name + "."
		if name == "victim" {
			prefix = ""
		}
		limits[prefix+"cpus"] = strconv.FormatFloat(float64(c.HostConfig.NanoCpus)/1e9, 'g', -1, 64)
		limits[prefix+"memory_bytes"] = strconv.FormatInt(c.HostConfig.Memory, 10)
	}
	return Description{
		Runtime: "compose", Postgres: w.postgres + " (image " + postgresImage() + ")",
		Limits: limits, Programs: w.hashes, Images: images,
	}
}

// Close implements World.
func (w *Compose) Close(ctx context.Context) error {
	w.stopWatching()
	if w.cleanup == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, composeCloseWait)
	defer cancel()
	downErr := w.do(ctx, "compose down", w.engine.downArgs(w.project, w.composeFile, stopGrace))
	w.awaitLogs()
	logsErr := w.logs.Stop(ctx, stopGrace)
	if downErr == nil {
		w.cleanup.Cancel()
	}
	return errors.Join(downErr, logsErr, os.RemoveAll(w.overrideFile()), os.RemoveAll(w.variablesFile()))
}

// awaitLogs lets docker logs write the last lines of containers that are gone.
func (w *Compose) awaitLogs() {
	timer := time.NewTimer(logEndWait)
	defer timer.Stop()
	for _, follower := range slices.Clone(w.logs.Children()) {
		select {
		case <-follower.Done():
		case <-timer.C:
			return
		}
	}
}
