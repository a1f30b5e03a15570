// Package overhead measures what the lab itself costs (make bench-self): /fast
// through the victim's pool, guard and accounting beside the same query behind
// a bare handler, and how long a goroutine dump stops the world. Beside it, what it
// costs to look at a kept connection before each request, with both clients.
//
// It holds benchmarks only. They print figures and fail on none: a figure that
// decides a test on a shared machine is a coin.
package overhead

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/valyala/fasthttp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/pgserver"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/service/victim"
)

const (
	// bareArg makes the test binary the bare server, in front of the database of
	// its second argument.
	bareArg = "bare"
	// databaseConns is the victim's default.
	databaseConns = 10
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case proc.ReaperArg:
			os.Exit(proc.RunReaper(os.Stdin, os.Stdout, os.Stderr))
		case pgserver.DownloadArg:
			os.Exit(pgserver.RunDownload(os.Args[2:], os.Stderr))
		case bareArg:
			if err := serveBare(os.Args[2]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// serveBare answers /fast with the victim's own query and nothing around it: no
// pool, no admin listener, no accounting.
func serveBare(databaseURL string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	items, err := victim.OpenItems(ctx, databaseURL, databaseConns, victim.DatabasePool{})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	server := &fasthttp.Server{Handler: func(r *fasthttp.RequestCtx) {
		id, err := r.QueryArgs().GetUint("id")
		if err != nil {
			r.Error(err.Error(), fasthttp.StatusBadRequest)
			return
		}
		item, err := items.Read(context.Background(), id)
		if err != nil {
			r.Error(err.Error(), fasthttp.StatusInternalServerError)
			return
		}
		r.SetContentType("application/json")
		json.NewEncoder(r).Encode(item)
	}}
	if err := json.NewEncoder(os.Stdout).Encode(adminapi.Listening{Program: bareArg, Public: l.Addr().String()}); err != nil {
		return err
	}
	if err := server.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}

// processes is what a benchmark starts; all of it is gone when the benchmark is.
type processes struct {
	b        *testing.B
	launcher *proc.Launcher
	database string // URL, of a PostgreSQL that withDatabase started
	dir      string
}

func newProcesses(b *testing.B) *processes {
	b.Helper()
	reaper, err := proc.StartReaper()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { reaper.Close() })
	p := &processes{b: b, launcher: proc.NewLauncher(reaper), dir: b.TempDir()}
	b.Cleanup(p.launcher.Close)
	return p
}

// withDatabase finds or makes a PostgreSQL as well.
func withDatabase(b *testing.B) *processes {
	b.Helper()
	p := newProcesses(b)
	server, err := pgserver.Open(b.Context(), pgserver.Config{Launcher: p.launcher, DatabaseURL: os.Getenv("DATABASE_URL")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Close(context.Background()) })
	p.database = server.URL()
	return p
}

// start starts a program, with the victim's default of two CPUs.
func (p *processes) start(name, path string, announces bool, args ...string) *proc.Child {
	p.b.Helper()
	child, err := p.launcher.Start(p.b.Context(), proc.Spec{
		Name: name, Path: path, Args: args, Env: append(os.Environ(), "GOMAXPROCS=2"),
		LogPath: filepath.Join(p.dir, name+".log"), Announces: announces,
	})
	if err != nil {
		p.b.Fatal(err)
	}
	return child
}

// serve starts a server and returns its public address.
func (p *processes) serve(name, path string, args ...string) string {
	p.b.Helper()
	child := p.start(name, path, true, args...)
	p.b.Cleanup(func() { child.Stop(context.Background(), 0) })
	listening, err := child.Listening(p.b.Context())
	if err != nil {
		p.b.Fatal(err)
	}
	return listening.Public
}

// program is one that make build has built.
func (p *processes) program(name string) string {
	p.b.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		p.b.Fatalf("%v; run make bench-self, which builds it", err)
	}
	return path
}
