// Package world is what a scenario runs in: a database, the stub, the victim and
// a place to run the load generator, each a process of its own. It starts them,
// says where they are, tells when one dies, and leaves nothing behind. It knows
// no phases and judges nothing; that is lab/scenario.
package world

import (
	"context"
	"fmt"
	"time"

	"chokepoint/internal/lab/proc"
)

// World is a set of running programs.
type World interface {
	// VictimURL is the victim's public address as the load generator sees it,
	// without a path; ProbeURL is the same as the lab sees it, for the probes of
	// recovery. VictimAdmin and StubAdmin are the admin addresses as the lab sees
	// them, and StubURL is where the lab measures the dose.
	VictimURL() string
	ProbeURL() string
	VictimAdmin() string
	StubURL() string
	StubAdmin() string
	// StartLoad runs the load generator; files that its arguments name lie in the
	// folder that LoadPath maps to.
	StartLoad(ctx context.Context, args []string) (Load, error)
	// LoadPath is what the load generator calls a file of the run's folder.
	LoadPath(name string) string
	// LoadLead is how long a load generator takes, at most, from StartLoad until
	// it can send: its -start-at must lie that far ahead.
	LoadLead() time.Duration
	// Died delivers the first program that ended by itself.
	Died() <-chan Death
	// Usage is what each program has used so far, by name; programs whose use
	// cannot be read are left out.
	Usage() map[string]proc.Usage
	// Describe tells the conditions for the manifest.
	Describe() Description
	// Close stops everything and removes what was temporary.
	Close(ctx context.Context) error
}

// Load is a load generator at work.
type Load interface {
	Done() <-chan struct{}
	// ExitCode is the generator's exit code, once it is done; -1 if a signal ended it.
	ExitCode() int
	// Interrupt stops the load: the generator then writes a whole result.
	Interrupt() error
	// Stop ends the generator: it gets a moment to write its result.
	Stop(ctx context.Context) error
	// LastLog is the end of what it logged.
	LastLog(lines int) []string
	// Usage is what the generator has used so far, or an error if that cannot be read.
	Usage() (proc.Usage, error)
}

// Death is a program that ended by itself.
type Death struct {
	Name   string
	Status string
	Log    []string // its last lines
}

func (d Death) String() string {
	s := fmt.Sprintf("%s ended by itself (%s)", d.Name, d.Status)
	if len(d.Log) == 0 {
		s += "; it logged nothing"
	}
	for i, line := range d.Log {
		if i == 0 {
			s += "; its last lines: "
		} else {
			s += " | "
		}
		s += line
	}
	return s
}

// Description goes into a run's manifest.
type Description struct {
	Runtime  string            // "native" or "compose"
	Postgres string            // version and where it came from, without secrets
	Limits   map[string]string // of the victim
	Programs map[string]string // name -> SHA-256 of the file that ran
	Images   map[string]string // service -> id of its image; nil without containers
}

// Config says what to start.
type Config struct {
	// RunDir is where logs and the load generator's files go.
	RunDir string
	// BinDir holds the programs; empty means beside this one.
	BinDir string
	// ComposeFile is the docker-compose.yml of a world of containers; empty looks
	// for it above BinDir and in the working folder.
	ComposeFile string
	// VictimArgs and StubArgs are flags of the programs, without addresses.
	VictimArgs, StubArgs []string
	// VictimListen, VictimAdmin, StubListen and StubAdmin are addresses; empty
	// takes a free port of the loopback.
	VictimListen, VictimAdmin, StubListen, StubAdmin string
	// StubTLS has the victim call the stub by https, of which the stub speaks nothing: a
	// handshake with it never ends.
	StubTLS bool
	// DatabaseURL is the PostgreSQL to use; empty finds or makes one.
	DatabaseURL string
	// ToxiproxyURL is the API of a Toxiproxy that adds Latency in front of the
	// stub; empty is none.
	ToxiproxyURL string
	Latency      time.Duration
	// GoMaxProcs and GoMemLimit are the victim's limits.
	GoMaxProcs int
	GoMemLimit string
	// Progress is told what happens.
	Progress func(format string, args ...any)
}

// stubScheme is that of the stub's URL as the victim has it.
func (c Config) stubScheme() string {
	if c.StubTLS {
		return "https"
	}
	return "http"
}

// Via names what adds the delay.
func (c Config) Via() string {
	if c.ToxiproxyURL != "" {
		return "toxiproxy"
	}
	return "stub"
}
