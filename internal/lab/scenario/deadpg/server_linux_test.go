package deadpg

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/netlabtest"
	"chokepoint/internal/lab/pghost"
)

func TestMain(m *testing.M) { os.Exit(netlabtest.Main(m)) }

// query asks the server for a number through the case's router.
func query(ctx context.Context, n *network, at pghost.Seat) (int, error) {
	config, err := pgx.ParseConfig(at.PG.URLAt(n.serverAddr))
	if err != nil {
		return 0, err
	}
	config.DialFunc = func(ctx context.Context, _, addr string) (net.Conn, error) { return n.caller.Dial(ctx, addr) }
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return 0, err
	}
	var got int
	err = errors.Join(conn.QueryRow(ctx, "select 6 * 7").Scan(&got), conn.Close(ctx))
	return got, err
}

// TestServerIsShared: two cases have their own ways to one server, which ends, with
// its files, when both have left.
func TestServerIsShared(t *testing.T) {
	netlabtest.Need(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var s pghost.Server
	var seats [2]pghost.Seat
	for i := range seats {
		at, err := s.Enter(ctx)
		if err != nil {
			t.Fatal(err)
		}
		seats[i] = at
		n, err := newNetwork(netlab.Device{Mode: netlab.Drop}, at)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := query(ctx, n, at); got != 42 || err != nil {
			t.Errorf("case %d: the server says %d, %v", at.Number, got, err)
		}
		if o, err := n.observe(); err != nil || len(o.entries) != 1 {
			t.Errorf("case %d: the device has %v, %v; want the one connection", at.Number, o.entries, err)
		}
		if err := n.close(); err != nil {
			t.Error(err)
		}
	}
	if seats[0].PG != seats[1].PG || seats[0].Number == seats[1].Number {
		t.Errorf("seats %+v: want one server and two subnets", seats)
	}
	if err := s.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case <-seats[1].PG.Died():
		t.Error("the server ended while a case used it")
	default:
	}
	if err := seats[1].Ended(); err != nil {
		t.Errorf("the server has ended too early: %v", err)
	}
	if err := s.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	<-seats[1].PG.Died()
	if err := seats[1].Ended(); err == nil || !strings.Contains(err.Error(), "PostgreSQL ended: ") {
		t.Errorf("the end of the server: %v", err)
	}
	if left, err := filepath.Glob("/dev/shm/*"); len(left) != 0 || err != nil {
		t.Errorf("left of the server: %v, %v", left, err)
	}
}
