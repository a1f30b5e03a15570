// Package victim tests the victim against a real PostgreSQL, a real stub and
// real sockets: what it answers, what it counts and what its dumps show. What is
// asserted are counts and structure, never how long something took.
package victim

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"chokepoint/internal/lab/pgserver"
	"chokepoint/internal/lab/proc"
)

// patience bounds every wait of these tests; nothing is expected to take it.
const patience = 20 * time.Second

// databaseURL is the PostgreSQL of all tests.
var databaseURL string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case proc.ReaperArg:
			os.Exit(proc.RunReaper(os.Stdin, os.Stdout, os.Stderr))
		case pgserver.DownloadArg:
			os.Exit(pgserver.RunDownload(os.Args[2:], os.Stderr))
		}
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	reaper, err := proc.StartReaper()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer reaper.Close()
	launcher := proc.NewLauncher(reaper)
	server, err := pgserver.Open(context.Background(), pgserver.Config{Launcher: launcher, DatabaseURL: os.Getenv("DATABASE_URL")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	databaseURL = server.URL()
	code = m.Run()
	if err := server.Close(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	launcher.Close()
	// The reaper is a process, watched until the very end.
	if err := goleak.Find(
		// fasthttp refreshes the Date header for the life of the process.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		// Its idle-connection cleaner sleeps between its rounds and cannot be stopped.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
	); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}
