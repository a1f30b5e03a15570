// Package pghost is a PostgreSQL in a host of package netlab, for cases of a matrix that
// share it: each has a subnet of its own to it. It makes no tables, and it never serves
// the machine's own network.
package pghost

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/pgserver"
)

// serverNetwork holds the subnets of all cases on the server's side.
var serverNetwork = netip.MustParsePrefix("10.82.0.0/16")

// memoryFolder is where the cluster is: in a sandbox it is memory of the sandbox's
// own, which is gone with it.
const memoryFolder = "/dev/shm"

// Server is the PostgreSQL of all cases of a process, in a host of its own. It begins
// with the first that enters and ends with the last that leaves. The zero value is ready.
type Server struct {
	mu    sync.Mutex
	users int
	cases int // that were ever let in, which numbers their subnets
	lab   *netlab.Lab
	host  *netlab.Host
	pg    *pgserver.Server
	// failed is why the server did not start: for the next case it would not either.
	failed error
}

// Seat is a case's place at the server.
type Seat struct {
	// Host is the server's: a case links it to its own network.
	Host *netlab.Host
	PG   *pgserver.Server
	// Number is that of the case's subnet, from 1.
	Number int
}

// Addr is an address of the case's subnet, of which the server listens on every one
// that its host has.
func (s Seat) Addr(host byte) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 82, byte(s.Number), host})
}

// Ended says how the server ended before the case left it; nil while it serves. What
// the case got is then of no worth.
func (s Seat) Ended() error {
	select {
	case <-s.PG.Died():
		return fmt.Errorf("PostgreSQL ended: %s: %s", s.PG.Status(), strings.Join(s.PG.LastLog(1), ""))
	default:
		return nil
	}
}

// Interface is the name for the server's end of the case's link, new to its host.
func (s Seat) Interface() string { return fmt.Sprintf("case%d", s.Number) }

// Enter starts the server, if no other case has, and gives a case its place. Leave must
// follow, after the case has ended what it has in the server's host.
func (s *Server) Enter(ctx context.Context) (Seat, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 && s.failed == nil {
		s.failed = s.start(ctx)
	}
	if s.failed != nil {
		return Seat{}, s.failed
	}
	s.users++
	s.cases++
	return Seat{s.host, s.pg, (s.cases-1)%254 + 1}, nil
}

// Leave ends the server if no other case uses it.
func (s *Server) Leave(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	if s.users > 0 {
		return nil
	}
	return errors.Join(s.pg.Close(context.WithoutCancel(ctx)), s.lab.Close())
}

func (s *Server) start(ctx context.Context) (err error) {
	if s.lab, err = netlab.New(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.lab.Close())
		}
	}()
	if s.host, err = s.lab.Host("postgres"); err != nil {
		return err
	}
	folder := memoryFolder
	if _, err := os.Stat(folder); err != nil {
		folder = os.TempDir()
	}
	s.pg, err = pgserver.Open(ctx, pgserver.Config{
		Launcher: s.host.Launcher(), TempParent: folder, Network: serverNetwork,
		NoDownload: true, // there is no way out of a sandbox; see pgserver.Prepare
	})
	return err
}
