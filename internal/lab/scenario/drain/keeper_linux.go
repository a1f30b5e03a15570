package drain

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// keeper is a client that keeps a connection.
type keeper struct {
	*caller
	name  string
	every time.Duration
	sent  []sending
}

// placeTries is how often a keeper connects, for each gateway, to get the one that it
// is meant for; the balancer gives them out in turn.
const placeTries = 3

// legWait bounds the wait for the balancer's line about a connection.
const legWait = 5 * time.Second

// placeKeepers has each keeper make its connection. Those that it returns are to be
// closed, if there is an error too.
func (w *world) placeKeepers(ctx context.Context) ([]*keeper, error) {
	var all []*keeper
	for i, wanted := range w.setup.Keepers {
		k := &keeper{name: fmt.Sprintf("%s%d", keeperPrefix, i+1), every: wanted.Every}
		k.caller = newCaller(w.hosts.client, w.setup.Protocol, w.entrance())
		all = append(all, k)
		if w.setup.Edge > 0 {
			continue // which gateway gets it is the edge's to say
		}
		if err := w.place(ctx, k); err != nil {
			return all, err
		}
	}
	return all, nil
}

// place connects until the connection is one to the first gateway.
func (w *world) place(ctx context.Context, k *keeper) error {
	tries := placeTries * w.setup.Gateways
	for try := range tries {
		s := k.send(ctx, order{id: fmt.Sprintf("%s-place%d", k.name, try)})
		if !s.ok {
			return fmt.Errorf("keeper %s: its first request: %s", k.name, s.err)
		}
		server, err := w.serverOf(ctx, s.local)
		if err != nil {
			return err
		}
		if server == gatewayName(0) {
			return nil
		}
		k.kept.CloseIdleConnections()
	}
	return fmt.Errorf("keeper %s: %d connections, and the balancer gave none to %s", k.name, tries, gatewayName(0))
}

// serverOf is the gateway to which the balancer gave a client's connection.
func (w *world) serverOf(ctx context.Context, client string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, legWait, fmt.Errorf("the balancer has no line about %s within %v", client, legWait))
	defer cancel()
	for {
		legs, err := w.legs()
		if err != nil {
			return "", err
		}
		for _, l := range legs {
			if l.client == client {
				return l.server, nil
			}
		}
		if err := sleepUntil(ctx, time.Now().Add(pollEvery)); err != nil {
			return "", err
		}
	}
}

// keep sends the keeper's requests until the gateways have ended.
func (k *keeper) keep(ctx context.Context, ended *atomic.Bool, attempts int) {
	next := time.Now()
	for i := 0; ; i++ {
		s := k.send(ctx, order{id: fmt.Sprintf("%s-%d", k.name, i), attempts: attempts})
		if ctx.Err() != nil {
			return
		}
		s.keeping = true
		k.sent = append(k.sent, s)
		if k.every == 0 {
			return
		}
		for next = next.Add(k.every); time.Now().Before(next); {
			if ended.Load() || sleepUntil(ctx, earlier(next, time.Now().Add(pollEvery))) != nil {
				return
			}
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
