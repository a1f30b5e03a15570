package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/evidence/queueing"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

// UsageError is what is wrong with the settings and can only be told with the plan.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// planSchema is the version of the plans that the lab reads.
const planSchema = "chokepoint/plan/v1"

// loadPlan is what the lab must know of the plan that loadgen will play; loadgen
// plan -json writes it.
type loadPlan struct {
	Schema    string         `json:"schema"`
	Model     string         `json:"model"`
	DurationS float64        `json:"duration_s"`
	WarmupS   float64        `json:"warmup_s"`
	Endpoints []planEndpoint `json:"endpoints"`
	Needs     struct {
		Ports []struct {
			Address string `json:"address"` // host:port that is connected to
		} `json:"ports"`
		Lacks string `json:"lacks"`
	} `json:"needs"`
}

type planEndpoint struct {
	Name    string  `json:"name"`
	Method  string  `json:"method"`
	URL     string  `json:"url"`  // without a password
	Rate    float64 `json:"rate"` // 0 of a pattern
	Planned int     `json:"planned"`
}

func (p loadPlan) duration() time.Duration { return seconds(p.DurationS) }
func (p loadPlan) warmup() time.Duration   { return seconds(p.WarmupS) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// meanRate is the endpoint's arrivals over the window, per second.
func (p loadPlan) meanRate(e planEndpoint) float64 {
	if e.Rate > 0 {
		return e.Rate
	}
	return float64(e.Planned) / p.DurationS
}

func (p loadPlan) names() []string {
	var names []string
	for _, e := range p.Endpoints {
		names = append(names, e.Name)
	}
	return names
}

// readPlan has loadgen read the plan, and write what it would do to dir. Nothing is
// sent. A plan that is none is a *UsageError.
func readPlan(ctx context.Context, g Generator, args []string, dir string) (loadPlan, error) {
	path := filepath.Join(dir, result.PlanFile)
	load, err := g.StartLoad(ctx, append([]string{"plan", "-json=" + path}, args...))
	if err != nil {
		return loadPlan{}, err
	}
	select {
	case <-load.Done():
	case <-ctx.Done():
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		load.Stop(stopping)
		return loadPlan{}, context.Cause(ctx)
	}
	switch code := load.ExitCode(); code {
	case cli.ExitOK:
	case cli.ExitUsage:
		return loadPlan{}, &UsageError{fmt.Errorf("-plan: %s", faultsIn(load.LastLog(5)))}
	default:
		return loadPlan{}, fmt.Errorf("%s", generatorDeath(load))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return loadPlan{}, err
	}
	var p loadPlan
	if err := json.Unmarshal(text, &p); err != nil || p.Schema != planSchema {
		return loadPlan{}, fmt.Errorf("loadgen's plan has the schema %q, and this lab reads %s; build both of one revision", p.Schema, planSchema)
	}
	return p, nil
}

// faultsIn are the lines of loadgen in one.
func faultsIn(log []string) string {
	var faults []string
	for _, line := range log {
		if fault, ok := strings.CutPrefix(line, "loadgen: "); ok {
			faults = append(faults, fault)
		}
	}
	if len(faults) == 0 {
		faults = log
	}
	return strings.Join(faults, "; ")
}

// check refuses what the plan and the settings cannot be together, and gives the
// endpoint that must survive.
func (s *AttachSettings) check(ctx context.Context, p loadPlan) (planEndpoint, []queueing.DumpPoint, error) {
	fail := func(format string, args ...any) (planEndpoint, []queueing.DumpPoint, error) {
		return planEndpoint{}, nil, &UsageError{fmt.Errorf(format, args...)}
	}
	if p.Model != result.ModelOpen {
		return fail("-plan %s is a closed model, whose arrivals stop with the service; give rates", s.Plan)
	}
	if p.Needs.Lacks != "" {
		return fail("-plan %s: %s", s.Plan, p.Needs.Lacks)
	}
	name := s.Protect
	if name == "" && len(p.Endpoints) == 1 {
		name = p.Endpoints[0].Name
	}
	i := slices.IndexFunc(p.Endpoints, func(e planEndpoint) bool { return e.Name == name })
	switch {
	case name == "":
		return fail("-protect is missing; name the endpoint that must survive: one of %s", strings.Join(p.names(), ", "))
	case i < 0:
		return fail("-protect %q: the plan has no such endpoint; give one of %s", name, strings.Join(p.names(), ", "))
	case p.Endpoints[i].Planned == 0:
		return fail("-protect %s: the plan has no arrival of it", name)
	}
	at := s.DumpAt
	if at == "" {
		at = defaultDumpAt(p.duration())
	}
	points, err := dumpPoints(at, p.duration())
	if err != nil {
		return planEndpoint{}, nil, &UsageError{err}
	}
	for _, port := range p.Needs.Ports {
		if err := s.allowed(ctx, port.Address); err != nil {
			return planEndpoint{}, nil, &UsageError{err}
		}
	}
	return p.Endpoints[i], points, nil
}

// defaultDumpAt has the published experiment's moments in its load of a minute.
func defaultDumpAt(load time.Duration) string {
	round := func(d time.Duration) time.Duration {
		if load >= 6*time.Second {
			return d.Round(time.Second)
		}
		return d.Round(10 * time.Millisecond)
	}
	return fmt.Sprintf("%v,%v,+5s", round(load/4), round(load*2/3))
}

// allowed refuses a target that is not on this machine's loopback and that nobody
// has named: a wrong line in a plan must not break somebody else's service.
func (s *AttachSettings) allowed(ctx context.Context, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	for _, allowed := range s.AllowTargets {
		if strings.EqualFold(allowed, host) || strings.EqualFold(allowed, address) {
			return nil
		}
	}
	var ips []netip.Addr
	if ip, err := netip.ParseAddr(host); err == nil {
		ips = []netip.Addr{ip}
	} else if ips, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
		return fmt.Errorf("cannot resolve %s: %w; check the URL in the plan", host, err)
	}
	for _, ip := range ips {
		if !ip.Unmap().IsLoopback() {
			return fmt.Errorf("the load would go to %s, which is not this machine; if it is yours to break, say so with -allow-target %s", address, address)
		}
	}
	return nil
}

// Generator starts load generators.
type Generator interface {
	StartLoad(ctx context.Context, args []string) (world.Load, error)
	LoadLead() time.Duration
	Describe() world.Description
}
