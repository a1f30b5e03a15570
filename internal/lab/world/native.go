package world

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/pgserver"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/lab/toxiproxy"
	"chokepoint/internal/result"
)

const (
	startWait = 30 * time.Second // for a server to say that it listens
	stopGrace = 3 * time.Second  // between SIGTERM and SIGKILL
)

// Native runs the programs as processes of this machine.
type Native struct {
	cfg      Config
	launcher *proc.Launcher
	group    *proc.Group
	database *pgserver.Server
	proxy    *toxiproxy.Proxy
	removal  *proc.LastCommand // of the proxy, if the lab is killed
	programs map[string]string // name -> path
	hashes   map[string]string

	stubURL, stubAdmin     string
	victimURL, victimAdmin string
	died                   chan Death
	stopWatching           context.CancelFunc
}

// StartNative starts a database, the stub and the victim. If it fails, it has
// stopped what it started.
func StartNative(ctx context.Context, cfg Config, launcher *proc.Launcher) (_ *Native, err error) {
	w := &Native{cfg: cfg, launcher: launcher, group: proc.NewGroup(), died: make(chan Death, 1)}
	watchCtx, cancel := context.WithCancel(context.Background())
	w.stopWatching = cancel
	defer func() {
		if err != nil {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			defer cancel()
			w.Close(closing)
		}
	}()
	if w.programs, w.hashes, err = FindPrograms(cfg.BinDir, worldPrograms...); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(cfg.RunDir, result.LogsDir), 0o755); err != nil {
		return nil, err
	}
	cfg.Progress("finding a PostgreSQL")
	w.database, err = pgserver.Open(ctx, pgserver.Config{
		Launcher: launcher, DatabaseURL: cfg.DatabaseURL, LogPath: w.logPath("postgres"),
	})
	if err != nil {
		return nil, err
	}
	cfg.Progress("PostgreSQL %s from %s", w.database.Version(), w.database.Source())
	if err := w.startStub(ctx); err != nil {
		return nil, err
	}
	if err := w.startVictim(ctx); err != nil {
		return nil, err
	}
	go w.watch(watchCtx)
	return w, nil
}

func (w *Native) startStub(ctx context.Context) error {
	args := append([]string{"-listen=" + w.cfg.StubListen, "-admin=" + w.cfg.StubAdmin}, w.cfg.StubArgs...)
	where, err := w.startServer(ctx, "upstream", args, nil)
	if err != nil {
		return err
	}
	w.stubAdmin = "http://" + where.Admin
	address := where.Public
	if w.cfg.ToxiproxyURL != "" {
		if w.proxy, err = toxiproxy.Open(ctx, w.cfg.ToxiproxyURL, where.Public, w.cfg.Latency, w.guardProxy); err != nil {
			return err
		}
		address = w.proxy.Addr()
		w.cfg.Progress("Toxiproxy at %s adds %v", w.cfg.ToxiproxyURL, w.cfg.Latency)
	}
	w.stubURL = w.cfg.stubScheme() + "://" + address + "/"
	return nil
}

// guardProxy has the reaper remove the proxy, which is no child of the lab, if
// the lab cannot.
func (w *Native) guardProxy(removal []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w.removal, err = w.launcher.AtLast(append([]string{self}, removal...)...)
	return err
}

func (w *Native) startVictim(ctx context.Context) error {
	args := append([]string{
		"-listen=" + w.cfg.VictimListen, "-admin=" + w.cfg.VictimAdmin, "-upstream=" + w.stubURL,
	}, w.cfg.VictimArgs...)
	// By environment: the URL may hold a password, and arguments are for everyone
	// to see.
	env := append(os.Environ(), "DATABASE_URL="+w.database.URL())
	env = append(env, w.cfg.victimEnv()...)
	where, err := w.startServer(ctx, "victim", args, env)
	if err != nil {
		return err
	}
	w.victimURL, w.victimAdmin = "http://"+where.Public, "http://"+where.Admin
	return nil
}

func (w *Native) startServer(ctx context.Context, name string, args, env []string) (adminapi.Listening, error) {
	child, err := w.launcher.Start(ctx, proc.Spec{
		Name: name, Path: w.programs[name], Args: args, Env: env, LogPath: w.logPath(name), Announces: true,
	})
	if err != nil {
		return adminapi.Listening{}, err
	}
	w.group.Add(child)
	wait, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	return child.Listening(wait)
}

func (w *Native) logPath(name string) string {
	return filepath.Join(w.cfg.RunDir, result.LogsDir, name+".log")
}

// watch passes on the first death.
func (w *Native) watch(ctx context.Context) {
	select {
	case c := <-w.group.Died():
		w.died <- Death{Name: c.Name(), Status: c.Status(), Log: c.LastLog(5)}
	case <-w.database.Died():
		w.died <- Death{Name: "postgres", Status: w.database.Status(), Log: w.database.LastLog(5)}
	case <-ctx.Done():
	}
}

// VictimURL implements World.
func (w *Native) VictimURL() string { return w.victimURL }

// VictimAdmin implements World.
func (w *Native) VictimAdmin() string { return w.victimAdmin }

// StubURL implements World.
func (w *Native) StubURL() string { return w.stubURL }

// StubAdmin implements World.
func (w *Native) StubAdmin() string { return w.stubAdmin }

// LoadPath implements World.
func (w *Native) LoadPath(name string) string { return filepath.Join(w.cfg.RunDir, name) }

// LoadLead implements World.
func (w *Native) LoadLead() time.Duration { return nativeLead }

// Died implements World.
func (w *Native) Died() <-chan Death { return w.died }

// ProbeURL implements World.
func (w *Native) ProbeURL() string { return w.victimURL }

// StartLoad implements World.
func (w *Native) StartLoad(ctx context.Context, args []string) (Load, error) {
	return startLoad(ctx, w.launcher, w.programs[loadgen], args, w.logPath(loadgen))
}

// Usage implements World.
func (w *Native) Usage() map[string]proc.Usage {
	all := map[string]proc.Usage{}
	for _, child := range w.group.Children() {
		if u, err := child.Usage(); err == nil {
			all[child.Name()] = u
		}
	}
	return all
}

// Describe implements World.
func (w *Native) Describe() Description {
	return Description{
		Runtime: "native", Postgres: w.database.Version() + " (" + w.database.Source() + ")",
		Limits: w.cfg.victimLimits(), Programs: w.hashes,
	}
}

// Close implements World.
func (w *Native) Close(ctx context.Context) error {
	w.stopWatching()
	err := w.group.Stop(ctx, stopGrace)
	if w.proxy != nil {
		closeErr := w.proxy.Close(ctx)
		if closeErr == nil && w.removal != nil {
			w.removal.Cancel()
		}
		if err == nil {
			err = closeErr
		}
	}
	if w.database != nil {
		if closeErr := w.database.Close(ctx); err == nil {
			err = closeErr
		}
	}
	return err
}
