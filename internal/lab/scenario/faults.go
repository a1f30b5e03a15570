package scenario

import (
	"fmt"
	"slices"
	"strings"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/profile"
	"chokepoint/internal/result"
)

// faultLoss, as -fault, is the one that is none of the stub's: the kernel drops the
// packets between victim and stub.
const faultLoss = "loss"

// PathFault is a fault on the path to the upstream, as lab compare -faults runs it.
type PathFault struct {
	Name  string // as -faults spells it
	Fault string // as -fault does; empty is none
	// Slow says that the upstream takes -delay to answer. Of every other fault it would
	// answer at once, so that nothing but the fault can hold a worker.
	Slow bool
	Does string // what befalls a call
	// Holds says that a call holds its worker for as long as nothing bounds it; Why is
	// the rule that this follows from. What is expected of a run follows from the two
	// and from its profile (see Want), and is fixed before it.
	Holds bool
	Why   string
}

// pathFaults are all of them, in the order of reports.
var pathFaults = []PathFault{
	{
		Name: "slow", Slow: true, Holds: true,
		Does: "the upstream answers, late",
		Why:  "a worker waits in the read for as long as the upstream takes",
	},
	{
		Name: "hang", Fault: string(adminapi.FaultHang), Holds: true,
		Does: "the upstream reads the request and never answers",
		Why:  "nothing but a timeout of the victim ends the read, so a worker is held for ever without one",
	},
	{
		Name: "refused", Fault: string(adminapi.FaultRefuse),
		Does: "nothing listens: connections are refused",
		Why:  "a RST answers the SYN, so the call fails within a round trip and its worker is free",
	},
	{
		Name: "reset", Fault: string(adminapi.FaultReset),
		Does: "the upstream resets the connection in place of an answer",
		Why:  "the RST ends the read at once, so the call fails within a round trip and its worker is free",
	},
	{
		Name: faultLoss, Fault: faultLoss, Holds: true,
		Does: "packets to and from the upstream are lost",
		Why:  "nobody says no: a SYN is sent again for 131 s and a request on an open connection for 925 s, in real time whatever the scale, before the kernel gives up",
	},
	{
		Name: "tls_hang", Fault: string(adminapi.FaultTLSHang), Holds: true,
		Does: "the upstream accepts and never shakes hands",
		Why:  "the connection stands, so no timeout of the kernel runs, and the handshake waits for ever without one of the victim",
	},
}

// LookupFault finds a fault by the name that -faults has for it.
func LookupFault(name string) (PathFault, error) {
	var names []string
	for _, f := range pathFaults {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return PathFault{}, fmt.Errorf("unknown fault %q; choose of %s", name, strings.Join(names, ", "))
}

// Want is what a run with that profile must come to: what the profile promises, or
// that /fast survives if the fault frees every worker at once. That is protected too
// of a profile that protects nothing.
func (f PathFault) Want(p profile.Profile) result.Outcome {
	if !f.Holds {
		return result.Protected
	}
	return result.Outcome(p.Expect)
}

// WithFault are the same settings with a fault on the path.
func (s Settings) WithFault(f PathFault) Settings {
	s.Fault, s.FaultRate, s.pathFault = f.Fault, 1, &f
	if !f.Slow {
		s.Delay = "0s"
	}
	s.Variant = strings.TrimSpace(s.Variant + " fault=" + f.Name)
	return s
}

// Cell is what these settings are in a comparison by fault, before any run; nil if
// that is none.
func (s *Settings) Cell() *result.FaultCell {
	f := s.pathFault
	if f == nil {
		return nil
	}
	why := f.Why
	if p, err := s.Profile.Profile(); err == nil && f.Holds && p.Expect == profile.Protected {
		why += "; the profile bounds that: " + p.Summary
	}
	return &result.FaultCell{
		Fault: f.Name, Does: f.Does, Profile: s.Profile.Name, Label: s.Label(), Want: s.Expected(), Why: why,
		Got: []result.Outcome{}, Figures: []result.FaultFigure{},
	}
}

// Expected is the outcome that a run of these settings should come to.
func (s *Settings) Expected() result.Outcome {
	p, err := s.Profile.Profile()
	if err != nil {
		return ""
	}
	if s.pathFault != nil {
		return s.pathFault.Want(p)
	}
	return result.Outcome(p.Expect)
}

// Loses says that packets are dropped on the path to the stub.
func (s *Settings) Loses() bool { return s.Fault == faultLoss }

// stubFault is what the stub is told.
func (s *Settings) stubFault() adminapi.Fault {
	if s.Loses() {
		return adminapi.FaultNone
	}
	return adminapi.Fault(s.Fault)
}

func (s *Settings) validateFault() error {
	known := []string{
		string(adminapi.FaultError), string(adminapi.FaultHang), string(adminapi.FaultClose), string(adminapi.FaultCloseMid),
		string(adminapi.FaultReset), string(adminapi.FaultResetMid), string(adminapi.FaultRefuse), string(adminapi.FaultTLSHang), faultLoss,
	}
	switch {
	case s.Fault != "" && !slices.Contains(known, s.Fault):
		return fmt.Errorf("-fault %q: want one of %s; none without it", s.Fault, strings.Join(known, ", "))
	case !(s.FaultRate >= 0 && s.FaultRate <= 1):
		return fmt.Errorf("-fault-rate %v: want a share from 0 to 1", s.FaultRate)
	case !(s.Loss > 0 && s.Loss <= 1):
		return fmt.Errorf("-loss %v: want a share of the packets above 0, up to 1", s.Loss)
	case s.KeptConnections < 0 || s.KeptConnections > maxKept:
		return fmt.Errorf("-kept-connections %d: want 0 to %d", s.KeptConnections, maxKept)
	}
	if s.Loses() {
		return s.validateLoss()
	}
	return nil
}

// validateLoss refuses what does not go with packets that are lost, which happens in
// network namespaces of the run's own.
func (s *Settings) validateLoss() error {
	p, err := s.Profile.Profile()
	switch {
	case err != nil:
		return err
	case s.FaultRate != 1:
		return fmt.Errorf("-fault-rate %v: -fault=loss befalls packets, not calls; say -loss %v", s.FaultRate, s.FaultRate)
	case s.Runtime != "native":
		return fmt.Errorf("-runtime %s: -fault=loss runs in network namespaces of its own; it goes with -runtime native only", s.Runtime)
	}
	most := s.MaxWorkers
	if p.Permits > 0 {
		most = min(most, p.Permits)
	}
	if s.KeptConnections > most {
		return fmt.Errorf("-kept-connections %d: profile %s lets no more than %d calls in at a time to open them; give fewer", s.KeptConnections, p.Name, most)
	}
	return nil
}

// maxKept bounds the connections that are opened before the load.
const maxKept = 1000
