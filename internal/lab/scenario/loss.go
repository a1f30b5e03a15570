package scenario

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/result"
)

// Lossy is a path that loses packets.
type Lossy interface {
	// Counts are the packets that were lost and that passed, both directions together.
	Counts() (lost, passed uint64, err error)
	// End lets all packets pass again.
	End() error
}

// Lose has the kernel drop a share (0..1) of the packets to and from a TCP port of the
// loopback, on open connections and on new ones alike.
type Lose func(port uint16, share float64) (Lossy, error)

const (
	// lossLead is how long before the load the path begins to lose: nothing is on it
	// then, and the first call of the load meets it. Real.
	lossLead = 50 * time.Millisecond
	// keepTries bounds the rounds in which the connections to be kept are opened.
	keepTries = 5
	// keepDelay is the stub's delay while they are opened, real: calls that are under
	// way at the same time need a connection each. A timeout of the victim's own may
	// ask for less.
	keepDelay = 250 * time.Millisecond
)

// keepConnections has the victim open connections to the stub, which it keeps idle: so
// many calls at one time, to a stub that takes a moment. What a load of a dead path
// then meets is both, connections that were open and those that cannot be made.
func (p *phases) keepConnections(ctx context.Context) error {
	s := p.e.settings
	if s.KeptConnections == 0 {
		return nil
	}
	slow := keepDelay
	if profile, err := s.Profile.Profile(); err == nil && profile.Timeout > 0 {
		slow = min(slow, s.real(profile.Timeout)/2)
	}
	behaviour := adminapi.Behaviour{Delay: time.Duration(float64(slow) / s.Scale).String(), FaultRate: 1}
	stub := p.world.StubAdmin() + adminapi.PathBehaviour
	if err := p.observer.putJSON(ctx, stub, behaviour); err != nil {
		return err
	}
	var accepted int
	for range keepTries {
		var before, after adminapi.StubStats
		if err := p.observer.getJSON(ctx, p.world.StubAdmin()+adminapi.PathStats, &before); err != nil {
			return err
		}
		var calls sync.WaitGroup
		for range s.KeptConnections {
			// Whether a call came back is the stub's to say.
			calls.Go(func() {
				_, _ = p.observer.probe(ctx, p.world.ProbeURL()+"/upstream", adminapi.PhaseWarmup)
			})
		}
		calls.Wait()
		if err := p.observer.getJSON(ctx, p.world.StubAdmin()+adminapi.PathStats, &after); err != nil {
			return err
		}
		accepted += after.Connections - before.Connections
		if accepted >= s.KeptConnections {
			break
		}
	}
	if accepted != s.KeptConnections {
		p.e.faults = append(p.e.faults, fmt.Sprintf("the victim has opened %d connections to the stub before the load, and %d were to be kept", accepted, s.KeptConnections))
	}
	behaviour.Delay = s.Delay
	return p.observer.putJSON(ctx, stub, behaviour)
}

// lose makes the path to the stub lose packets as the load begins, until the run ends.
// It runs beside the dumps, so what it notes is for endLoss to write down.
func (p *phases) lose(ctx context.Context) {
	defer close(p.lossBegun)
	s := p.e.settings
	if !sleepUntil(ctx, p.e.loadOn.Add(-lossLead)) {
		return
	}
	port, err := portOf(p.world.StubURL())
	if err == nil {
		p.lossy, err = p.run.Lose(port, s.Loss)
	}
	if err != nil {
		p.end(fmt.Errorf("the path to the upstream cannot be made to lose packets: %w", err))
		return
	}
	p.lossLate = time.Since(p.e.loadOn)
	p.progress("the path to the upstream loses %.4g %% of its packets from now on", 100*s.Loss)
}

// endLoss ends that, and notes what was lost.
func (p *phases) endLoss() {
	if !p.e.settings.Loses() {
		return
	}
	<-p.lossBegun
	if p.lossy == nil {
		return
	}
	if p.lossLate > 0 {
		p.e.faults = append(p.e.faults, fmt.Sprintf("the path began to lose packets %v after the load", p.lossLate.Round(time.Millisecond)))
	}
	p.event(p.e.loadOn, "loss_on", fmt.Sprintf("%.4g %% of the packets to and from the upstream", 100*p.e.settings.Loss))
	lost, passed, err := p.lossy.Counts()
	if err == nil {
		p.e.loss = &result.PathLoss{Share: p.e.settings.Loss, Lost: lost, Passed: passed, Kept: p.e.settings.KeptConnections}
		if lost == 0 {
			p.e.faults = append(p.e.faults, "the path to the upstream was to lose packets and lost none")
		}
	} else {
		p.e.faults = append(p.e.faults, "the packets that the path lost: "+err.Error())
	}
	if err := p.lossy.End(); err != nil {
		p.e.warnings = append(p.e.warnings, "the end of the loss: "+err.Error())
	}
}

func portOf(rawURL string) (uint16, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return 0, err
	}
	var port uint16
	if _, err := fmt.Sscanf(u.Port(), "%d", &port); err != nil {
		return 0, fmt.Errorf("%s names no port", rawURL)
	}
	return port, nil
}
