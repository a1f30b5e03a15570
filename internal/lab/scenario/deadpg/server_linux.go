package deadpg

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/pgserver"
)

// serverNetwork holds the subnets of all cases on the server's side.
var serverNetwork = netip.MustParsePrefix("10.82.0.0/16")

// memoryFolder is where the cluster is: in a sandbox it is memory of the sandbox's
// own, which is gone with it.
const memoryFolder = "/dev/shm"

// server is the PostgreSQL of all cases, in a host of its own.
type server struct {
	mu    sync.Mutex
	users int
	cases int // that were ever let in, which numbers their subnets
	lab   *netlab.Lab
	host  *netlab.Host
	pg    *pgserver.Server
}

// seat is a case's place at the server.
type seat struct {
	host   *netlab.Host
	pg     *pgserver.Server
	number int // of the case's subnet, from 1
}

// enter starts the server, if no other case has, and gives a case its place. leave must
// follow.
func (s *server) enter(ctx context.Context) (seat, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		if err := s.start(ctx); err != nil {
			return seat{}, err
		}
	}
	s.users++
	s.cases++
	return seat{s.host, s.pg, (s.cases-1)%254 + 1}, nil
}

// leave ends the server if no other case uses it.
func (s *server) leave(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	if s.users > 0 {
		return nil
	}
	return errors.Join(s.pg.Close(context.WithoutCancel(ctx)), s.lab.Close())
}

func (s *server) start(ctx context.Context) (err error) {
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
		NoDownload: true, // there is no way out of a sandbox
	})
	if err != nil {
		return fmt.Errorf("%w; -no-database runs the matrix without these cases", err)
	}
	return nil
}
