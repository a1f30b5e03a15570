// Package profile holds the named protections of the victim, as data.
//
// A profile says what guards the shared worker pool and the call to the
// upstream, and how the connections to it are kept. The package parses, scales and validates profiles; it does not
// enforce them (service/guard, service/pool and service/outbound do) and it does not predict what
// they do (evidence/queueing does).
package profile

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Outcome is the verdict that a run of a profile should reach.
type Outcome string

// The two outcomes that a profile can be expected to have.
const (
	Reproduced Outcome = "reproduced" // the failure was shown
	Protected  Outcome = "protected"  // the fix held
)

// Default is the profile of a victim that was told nothing: the right
// configuration. The anti-pattern is only ever switched on by name.
const Default = "fixed"

// Profile is one set of protections. The zero value of a field is "none". All
// durations are scenario time until Scaled has been called.
type Profile struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
	// Timeout bounds one call to the upstream, dial included; 0 waits for ever.
	Timeout time.Duration `json:"timeout_ns"`
	// Permits is how many calls to the upstream may be in flight; 0 is no bulkhead.
	Permits int `json:"permits"`
	// PermitWait is how long a request may wait for a permit before it is
	// answered 503 bulkhead_full.
	PermitWait time.Duration `json:"permit_wait_ns"`
	// BreakerFailures is the number of consecutive failures that opens the
	// breaker around the bulkhead; 0 is no breaker. A full bulkhead is no failure.
	BreakerFailures int `json:"breaker_failures"`
	// BreakerOpenFor is how long the breaker stays open before it lets one probe by.
	BreakerOpenFor time.Duration `json:"breaker_open_for_ns"`
	// MaxQueue bounds the requests that wait for a worker; 0 is unbounded.
	MaxQueue int `json:"max_queue"`
	// MaxQueueWait bounds how long a request waits for a worker; 0 is unbounded.
	MaxQueueWait time.Duration `json:"max_queue_wait_ns"`
	// SkipAbandoned lets a worker drop a request whose client has gone.
	SkipAbandoned bool `json:"skip_abandoned"`
	// Unbounded runs a goroutine per request and has no pool at all.
	Unbounded bool `json:"unbounded"`
	// Connections is the client that calls the upstream, with its defences against
	// dead connections.
	Connections Connections `json:"connections"`
	// Expect is the verdict that the profile should earn in the exhaustion scenario.
	Expect Outcome `json:"expect"`
}

// all is in the order in which reports list profiles: from the outage through
// single protections to combined ones. The values are those of the published
// experiment (read timeout 2 s, 20 permits, 100 ms); the breaker's are
// sony/gobreaker's own default threshold and a pause of five timeouts.
//
// The defences of connections in the profiles that are no anti-pattern are those
// that cost nothing and change no count (ADR 0028): a look before a kept connection
// is used, and Go's own keepalive. Single protections have none, so that each is alone.
func all() []Profile {
	defended := Connections{StaleCheck: StalePeek, KeepAlive: goKeepAlive}
	return []Profile{
		{Name: "anti", Summary: "no timeout, no bulkhead: the outage", Expect: Reproduced},
		{Name: "timeout", Summary: "a 2 s timeout: bounds the time a worker is held, not how many are",
			Timeout: 2 * time.Second, Expect: Protected},
		{Name: "bulkhead", Summary: "20 permits: bounds how many workers are held, not for how long",
			Permits: 20, PermitWait: 100 * time.Millisecond, Expect: Protected},
		{Name: "fixed", Summary: "a 2 s timeout and 20 permits: bounds both",
			Timeout: 2 * time.Second, Permits: 20, PermitWait: 100 * time.Millisecond, Connections: defended, Expect: Protected},
		{Name: "breaker", Summary: "fixed, and a circuit breaker that stops calling a dead upstream",
			Timeout: 2 * time.Second, Permits: 20, PermitWait: 100 * time.Millisecond,
			BreakerFailures: 6, BreakerOpenFor: 10 * time.Second, Connections: defended, Expect: Protected},
		{Name: "shed", Summary: "a bounded queue: fails fast, but still fails",
			MaxQueue: 50, MaxQueueWait: time.Second, Expect: Reproduced},
		{Name: "cancel", Summary: "skips requests whose client has gone: recovers sooner, dies all the same",
			SkipAbandoned: true, Expect: Reproduced},
		{Name: "unbounded", Summary: "a goroutine per request: does not collapse, piles up without limit",
			Unbounded: true, Expect: Protected},
	}
}

// Names lists the profiles in the order of reports.
func Names() []string {
	var names []string
	for _, p := range all() {
		names = append(names, p.Name)
	}
	return names
}

// Lookup finds a profile by name.
func Lookup(name string) (Profile, error) {
	for _, p := range all() {
		if p.Name == name {
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("unknown profile %q; choose one of %s", name, strings.Join(Names(), ", "))
}

// Validate refuses combinations that cannot mean what they say.
func (p Profile) Validate() error {
	switch {
	case p.Timeout < 0:
		return fmt.Errorf("profile %s: timeout %v is negative; use 0 for none", p.Name, p.Timeout)
	case p.Permits < 0:
		return fmt.Errorf("profile %s: permits %d is negative; use 0 for no bulkhead", p.Name, p.Permits)
	case p.PermitWait < 0:
		return fmt.Errorf("profile %s: permit wait %v is negative", p.Name, p.PermitWait)
	case p.BreakerFailures < 0:
		return fmt.Errorf("profile %s: breaker failures %d is negative; use 0 for no breaker", p.Name, p.BreakerFailures)
	case p.BreakerFailures > 0 && p.BreakerOpenFor <= 0:
		return fmt.Errorf("profile %s: breaker open time %v must be above zero", p.Name, p.BreakerOpenFor)
	case p.MaxQueue < 0:
		return fmt.Errorf("profile %s: max queue %d is negative; use 0 for unbounded", p.Name, p.MaxQueue)
	case p.MaxQueueWait < 0:
		return fmt.Errorf("profile %s: max queue wait %v is negative; use 0 for unbounded", p.Name, p.MaxQueueWait)
	case p.Unbounded && (p.MaxQueue > 0 || p.MaxQueueWait > 0 || p.SkipAbandoned):
		return fmt.Errorf("profile %s: unbounded has no queue, so it cannot bound one or skip requests in it", p.Name)
	}
	if err := p.Connections.Validate(); err != nil {
		return fmt.Errorf("profile %s: %w", p.Name, err)
	}
	return nil
}

// Scaled multiplies every duration by scale, to the nanosecond, which turns
// scenario time into real time. Counts stay.
func (p Profile) Scaled(scale float64) Profile {
	for _, d := range []*time.Duration{&p.Timeout, &p.PermitWait, &p.BreakerOpenFor, &p.MaxQueueWait} {
		*d = time.Duration(math.Round(float64(*d) * scale))
	}
	p.Connections = p.Connections.scaled(scale)
	return p
}
