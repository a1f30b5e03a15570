package scenario

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/delay"
	"chokepoint/internal/evidence/queueing"
	"chokepoint/internal/profile"
	"chokepoint/internal/rate"
)

// Settings is the whole configuration of an exhaustion run. Durations and rates
// are scenario time unless they say real; the defaults are the published
// experiment's.
type Settings struct {
	Profile profile.Flags
	Scale   float64

	FastRate, UpstreamRate       rate.Rate
	FastTimeout, UpstreamTimeout time.Duration
	Duration                     time.Duration
	GracefulStop                 time.Duration // negative: wait for every answer or timeout
	Arrivals                     string        // "constant" or "poisson"
	Workers                      int           // of the generator, per endpoint; 0 computes what drops nothing
	Seed                         uint64
	MaxLag                       time.Duration // real

	Delay     string
	Fault     string
	FaultRate float64
	// Loss is the share of packets that -fault=loss drops, and KeptConnections how many
	// connections to the stub are open when that begins.
	Loss            float64
	KeptConnections int

	BaselineRate     rate.Rate // real: the one rate that does not scale
	BaselineDuration time.Duration
	DumpAt           string
	RecoveryWait     time.Duration

	MinWorkers, MaxWorkers        int
	AcceptBacklog, MaxConnections int
	DatabaseConns                 int
	GoMaxProcs                    int
	GoMemLimit                    string

	VictimListen, VictimAdmin, StubListen, StubAdmin string

	DatabaseURL, ToxiproxyURL string
	Runtime                   string // "native" or "compose"
	ComposeFile               string
	ResultsDir                string
	BinDir                    string

	// Variant says what a comparison has varied in these settings, such as
	// "accept-backlog=10"; empty if nothing.
	Variant string

	flags        *flag.FlagSet
	profileNamed bool       // by WithProfile
	pathFault    *PathFault // by WithFault; nil: Fault is the user's own, or none
}

const (
	minScale = 0.05
	// maxArrivals bounds the requests to one endpoint: model and generator keep a
	// record of each in memory.
	maxArrivals = 2_000_000
	// maxWorkers and maxConnections bound what the victim makes room for.
	maxWorkers     = 100_000
	maxConnections = 1_000_000
	// longest bounds every duration: a run must end.
	longest = 24 * time.Hour
	// maxBacklog is what listen(2) takes before it wraps around; Linux caps it at
	// net.core.somaxconn besides.
	maxBacklog    = 65535
	maxGoMaxProcs = 1024
	// maxDatabaseConns is what a PostgreSQL takes without being told to (its
	// max_connections is 100, of which 3 are for superusers).
	maxDatabaseConns = 90
	// baselineFloor is the shortest baseline: 300 requests at 100/s.
	baselineFloor = 3 * time.Second // real
	// tickFloor bounds the sampling: real, once a scenario second above it.
	tickFloor = 50 * time.Millisecond
	// waitForAll is the spelling of a graceful stop that waits for every answer.
	waitForAll = "all"
)

// Bind registers a flag for every setting, with its default.
func (s *Settings) Bind(fs *flag.FlagSet) {
	s.flags = fs
	s.Profile.Bind(fs)
	s.FastRate, s.UpstreamRate, s.BaselineRate = 20, 20, 100
	s.GracefulStop = queueing.WaitForAll
	fs.Float64Var(&s.Scale, "scale", 1, "`factor` on every duration, and divisor of every rate: 0.05 to 1")
	fast, upstream := &streamRate{rate: &s.FastRate}, &streamRate{rate: &s.UpstreamRate}
	fs.Func("rate", "requests per second to each endpoint that has no rate of its own: `20`, 20/s or 1200/m (default 20/s)", func(text string) error {
		r, err := rate.Parse(text)
		fast.fallBackTo(r)
		upstream.fallBackTo(r)
		return err
	})
	fs.Var(fast, "fast-rate", "`rate` to /fast alone (default: -rate)")
	fs.Var(upstream, "upstream-rate", "`rate` to /upstream alone (default: -rate)")
	fs.DurationVar(&s.FastTimeout, "fast-timeout", 30*time.Second, "how long a client waits for /fast")
	fs.DurationVar(&s.UpstreamTimeout, "upstream-timeout", 60*time.Second, "how long a client waits for /upstream")
	fs.DurationVar(&s.Duration, "duration", 60*time.Second, "length of the load")
	fs.Func("graceful-stop", "how long after the load answers are waited for: a `duration`, or "+waitForAll+" (default "+waitForAll+": until every request has its answer or timeout)", func(text string) error {
		if text == waitForAll {
			s.GracefulStop = queueing.WaitForAll
			return nil
		}
		d, err := time.ParseDuration(text)
		if err == nil && d < 0 {
			err = errors.New("want 0s or more, or " + waitForAll)
		}
		s.GracefulStop = d
		return err
	})
	fs.StringVar(&s.Arrivals, "arrivals", "constant", "constant or poisson")
	fs.IntVar(&s.Workers, "workers", 0, "requests the generator can have in flight per endpoint; 0 computes what drops nothing")
	fs.Uint64Var(&s.Seed, "seed", 1, "seed of everything that is drawn")
	fs.DurationVar(&s.MaxLag, "max-lag", 5*time.Millisecond, "lag p99 of the generator, in real time, above which the run is invalid")
	fs.StringVar(&s.Delay, "delay", "30s", "the upstream's `delay`: 30s, uniform:10ms..50ms, lognormal:p50=80ms,p99=400ms or file:PATH")
	fs.StringVar(&s.Fault, "fault", "", "what befalls calls to the upstream: error, hang, close, close_mid, reset, reset_mid, refuse, tls_hang; or loss, of packets, in network namespaces of the run's own")
	fs.Float64Var(&s.FaultRate, "fault-rate", 1, "`share` of the calls that the fault befalls")
	fs.Float64Var(&s.Loss, "loss", 1, "`share` of the packets to and from the upstream that -fault=loss drops, from the start of the load on")
	fs.IntVar(&s.KeptConnections, "kept-connections", 10, "connections to the upstream that the victim has open when -fault=loss begins")
	fs.Var(&s.BaselineRate, "baseline-rate", "`rate` of the first baseline on /fast, in real time")
	fs.DurationVar(&s.BaselineDuration, "baseline-duration", 10*time.Second, "length of each baseline; not under 3s real")
	fs.StringVar(&s.DumpAt, "dump-at", "15s,40s,+5s", "`moments` of the dumps under load, and after its end with a +")
	fs.DurationVar(&s.RecoveryWait, "recovery-wait", 45*time.Second, "how long to watch for recovery after the load")
	fs.IntVar(&s.MinWorkers, "min-workers", 10, "workers of the victim at its start")
	fs.IntVar(&s.MaxWorkers, "max-workers", 200, "workers of the victim at most")
	fs.IntVar(&s.AcceptBacklog, "accept-backlog", 100, "connections that the kernel holds unaccepted for the victim")
	fs.IntVar(&s.MaxConnections, "max-connections", 8192, "connections that the victim accepts at a time")
	fs.IntVar(&s.DatabaseConns, "database-conns", 10, "connections of the victim to PostgreSQL")
	fs.IntVar(&s.GoMaxProcs, "gomaxprocs", 2, "GOMAXPROCS of the victim")
	fs.StringVar(&s.GoMemLimit, "gomemlimit", "2GiB", "GOMEMLIMIT of the victim")
	fs.StringVar(&s.VictimListen, "victim-listen", "127.0.0.1:0", "public `address` of the victim; port 0 takes a free one")
	fs.StringVar(&s.VictimAdmin, "victim-admin", "127.0.0.1:0", "admin `address` of the victim")
	fs.StringVar(&s.StubListen, "stub-listen", "127.0.0.1:0", "public `address` of the stub")
	fs.StringVar(&s.StubAdmin, "stub-admin", "127.0.0.1:0", "admin `address` of the stub")
	fs.StringVar(&s.DatabaseURL, "database-url", "", "PostgreSQL `URL` (default: $DATABASE_URL, else a throwaway server)")
	fs.StringVar(&s.ToxiproxyURL, "toxiproxy", "", "API `URL` of a Toxiproxy that adds the delay in front of the stub")
	fs.StringVar(&s.Runtime, "runtime", "native", "native or compose")
	fs.StringVar(&s.ComposeFile, "compose-file", "", "the compose `file` of -runtime compose (default: the repository's docker-compose.yml)")
	s.ResultsDir = "results"
	cli.FileVar(fs, &s.ResultsDir, "results", "`folder` of the results")
	fs.StringVar(&s.BinDir, "bin-dir", "", "`folder` of the programs (default: beside this one)")
}

// streamRate is the rate of one stream as a flag. What is said of the stream
// itself stands, whatever is said of all, and before or after it: a flag and an
// environment variable come in no order that means anything.
type streamRate struct {
	rate *rate.Rate
	own  bool // it was given for this stream
}

// String is called on a zero streamRate too, by package flag.
func (r *streamRate) String() string {
	if r.rate == nil {
		return ""
	}
	return r.rate.String()
}

func (r *streamRate) Set(text string) error {
	r.own = true
	return r.rate.Set(text)
}

// fallBackTo takes the rate of all streams where this one has none of its own.
func (r *streamRate) fallBackTo(all rate.Rate) {
	if !r.own {
		*r.rate = all
	}
}

// Validate refuses what could not run or would not mean what it says. Its
// errors are usage errors.
func (s *Settings) Validate() error {
	if _, err := s.Profile.Profile(); err != nil {
		return err
	}
	if _, err := delay.Parse(s.Delay); err != nil {
		return fmt.Errorf("-delay: %w", err)
	}
	if _, err := s.DumpPoints(); err != nil {
		return err
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"fast-timeout", s.FastTimeout}, {"upstream-timeout", s.UpstreamTimeout}, {"duration", s.Duration},
		{"baseline-duration", s.BaselineDuration}, {"max-lag", s.MaxLag},
	} {
		if d.value <= 0 || d.value > longest {
			return fmt.Errorf("-%s %v: want more than 0s, up to %v", d.flag, d.value, longest)
		}
	}
	if err := s.validateArrivals(); err != nil {
		return err
	}
	if err := s.validateFault(); err != nil {
		return err
	}
	for _, a := range []struct{ flag, value string }{
		{"victim-listen", s.VictimListen}, {"victim-admin", s.VictimAdmin}, {"stub-listen", s.StubListen}, {"stub-admin", s.StubAdmin},
	} {
		if _, err := net.ResolveTCPAddr("tcp", a.value); err != nil {
			return fmt.Errorf("-%s %q: want host:port, such as 127.0.0.1:8080; port 0 takes a free one", a.flag, a.value)
		}
	}
	switch {
	case !(s.Scale >= minScale && s.Scale <= 1):
		return fmt.Errorf("-scale %v: want %v to 1; below it the machine's own milliseconds would be the result", s.Scale, minScale)
	case s.Arrivals != "constant" && s.Arrivals != "poisson":
		return fmt.Errorf("-arrivals %q: want constant or poisson", s.Arrivals)
	case s.Runtime != "native" && s.Runtime != "compose":
		return fmt.Errorf("-runtime %q: want native or compose", s.Runtime)
	case s.Workers < 0 || s.Workers > maxWorkers:
		return fmt.Errorf("-workers %d: want 1 to %d, or 0 to compute it", s.Workers, maxWorkers)
	case s.RecoveryWait < 0 || s.RecoveryWait > longest:
		return fmt.Errorf("-recovery-wait %v: want 0s to %v", s.RecoveryWait, longest)
	case s.MinWorkers < 0 || s.MaxWorkers < 1 || s.MinWorkers > s.MaxWorkers || s.MaxWorkers > maxWorkers:
		return fmt.Errorf("-min-workers %d, -max-workers %d: want 0 <= min <= max and 1 <= max <= %d", s.MinWorkers, s.MaxWorkers, maxWorkers)
	case s.AcceptBacklog < 1 || s.AcceptBacklog > maxBacklog:
		return fmt.Errorf("-accept-backlog %d: want 1 to %d", s.AcceptBacklog, maxBacklog)
	case s.MaxConnections < 1 || s.MaxConnections > maxConnections:
		return fmt.Errorf("-max-connections %d: want 1 to %d", s.MaxConnections, maxConnections)
	case s.DatabaseConns < 1 || s.DatabaseConns > maxDatabaseConns:
		return fmt.Errorf("-database-conns %d: want 1 to %d", s.DatabaseConns, maxDatabaseConns)
	case s.GoMaxProcs < 0 || s.GoMaxProcs > maxGoMaxProcs:
		return fmt.Errorf("-gomaxprocs %d: want 1 to %d, or 0 for the machine's own", s.GoMaxProcs, maxGoMaxProcs)
	case !validMemLimit(s.GoMemLimit):
		return fmt.Errorf("-gomemlimit %q: want bytes such as 2GiB or 512MiB, or off", s.GoMemLimit)
	case s.ToxiproxyURL != "" && !isHTTPURL(s.ToxiproxyURL):
		return fmt.Errorf("-toxiproxy %q: want the URL of its API, such as http://127.0.0.1:8474", s.ToxiproxyURL)
	case s.ToxiproxyURL != "" && (s.Fault != "" || !isDuration(s.Delay)):
		return errors.New("-toxiproxy adds one fixed latency: it goes with a constant -delay and without -fault")
	case s.Runtime == "compose" && s.ToxiproxyURL != "":
		return errors.New("-toxiproxy goes with -runtime native only")
	}
	return nil
}

// validateArrivals bounds how many requests each stream makes: one at least, or
// there is nothing to measure.
func (s *Settings) validateArrivals() error {
	for _, stream := range []struct {
		flag     string
		rate     rate.Rate
		duration time.Duration
	}{
		{"fast-rate", s.FastRate, s.Duration}, {"upstream-rate", s.UpstreamRate, s.Duration},
		{"baseline-rate", s.BaselineRate, s.baselineLength()},
	} {
		if n := stream.rate.PerSecond() * stream.duration.Seconds(); n > maxArrivals {
			return fmt.Errorf("-%s %s for %v is %.4g requests: want at most %d; lower the rate or shorten the duration", stream.flag, stream.rate, stream.duration, n, maxArrivals)
		} else if n < 1 {
			return fmt.Errorf("-%s %s for %v is not one request; raise the rate or lengthen the duration", stream.flag, stream.rate, stream.duration)
		}
	}
	return nil
}

// baselineLength is how long each baseline lasts, in real time.
func (s *Settings) baselineLength() time.Duration {
	return max(s.real(s.BaselineDuration), baselineFloor)
}

// validMemLimit follows the runtime's own rule (runtime.parseByteCount); a
// wrong value would only surface as a crash of the victim.
func validMemLimit(text string) bool {
	if text == "off" || text == "" {
		return true
	}
	number := text
	for _, unit := range []string{"KiB", "MiB", "GiB", "TiB", "B"} {
		if cut, ok := strings.CutSuffix(text, unit); ok {
			number = cut
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	return err == nil && n > 0
}

func isHTTPURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

func isDuration(text string) bool {
	_, err := time.ParseDuration(text)
	return err == nil
}

// DumpPoints are the four dumps, or what -dump-at made of them: one before the
// load, then those that it names.
func (s *Settings) DumpPoints() ([]queueing.DumpPoint, error) {
	return dumpPoints(s.DumpAt, s.Duration)
}

// dumpPoints reads -dump-at for a load of that length.
func dumpPoints(dumpAt string, duration time.Duration) ([]queueing.DumpPoint, error) {
	points := []queueing.DumpPoint{{Name: "before", At: -time.Second}}
	for text := range strings.SplitSeq(dumpAt, ",") {
		text = strings.TrimSpace(text)
		after, isAfter := strings.CutPrefix(text, "+")
		at, err := time.ParseDuration(after)
		if err != nil || at < 0 || at > longest {
			return nil, fmt.Errorf("-dump-at %q: %q is no moment; write 15s under load, or +5s after its end", dumpAt, text)
		}
		point := queueing.DumpPoint{Name: "load_" + after, At: at}
		if isAfter {
			point = queueing.DumpPoint{Name: "after_" + after, At: duration + at}
		} else if at >= duration {
			return nil, fmt.Errorf("-dump-at %q: the load ends at %v, before the dump at %v; move it with -dump-at, or lengthen -duration", dumpAt, duration, at)
		}
		if last := points[len(points)-1]; point.At <= last.At {
			return nil, fmt.Errorf("-dump-at %q: %q does not come after %s", dumpAt, text, last.Name)
		}
		points = append(points, point)
	}
	return points, nil
}

// WithProfile are the same settings with another profile, which is named.
func (s Settings) WithProfile(name string) Settings {
	s.Profile.Name, s.profileNamed = name, true
	return s
}

// Label is the profile with the variant: what the runs of these settings are called
// in a comparison.
func (s *Settings) Label() string { return strings.TrimSpace(s.Profile.Name + " " + s.Variant) }

// aboutTheListener says whether someone has set the limits of the victim's listener:
// then what overflows is what the run is about.
func (s *Settings) aboutTheListener() bool {
	set := false
	s.flags.Visit(func(f *flag.Flag) { set = set || f.Name == "accept-backlog" || f.Name == "max-connections" })
	return set
}

// profileText is the profile's name, and whether anyone has said it.
func (s *Settings) profileText() string {
	named := s.profileNamed
	s.flags.Visit(func(f *flag.Flag) { named = named || f.Name == "profile" })
	if named {
		return s.Profile.Name
	}
	return s.Profile.Name + " (the default)"
}

// model is what the settings mean to the model.
func (s *Settings) model() (queueing.Config, error) {
	p, err := s.Profile.Profile()
	if err != nil {
		return queueing.Config{}, err
	}
	d, err := delay.Parse(s.Delay)
	if err != nil {
		return queueing.Config{}, err
	}
	points, err := s.DumpPoints()
	if err != nil {
		return queueing.Config{}, err
	}
	stream := func(name string, r rate.Rate, timeout time.Duration, callsUpstream bool) queueing.Stream {
		return queueing.Stream{
			Name: name, Rate: r, Timeout: timeout, Workers: s.Workers,
			Poisson: s.Arrivals == "poisson", CallsUpstream: callsUpstream,
		}
	}
	config := queueing.Config{
		Streams: []queueing.Stream{
			stream("fast", s.FastRate, s.FastTimeout, false),
			stream("upstream", s.UpstreamRate, s.UpstreamTimeout, true),
		},
		Duration: s.Duration, GracefulStop: s.GracefulStop,
		Profile: p, PoolMin: s.MinWorkers, PoolMax: s.MaxWorkers,
		MaxConnections: s.MaxConnections, AcceptBacklog: s.AcceptBacklog,
		Delay: d.Sample, Fault: s.stubFault(), FaultRate: s.FaultRate,
		Scale: s.Scale, DumpAt: points, RecoveryWait: s.RecoveryWait, Seed: s.Seed,
	}
	if s.Loses() {
		config.Loss, config.Kept = s.Loss, s.KeptConnections
	}
	return config, nil
}

// Effective is the whole configuration, flag by flag, as a run has it: for the
// manifest. It holds no secret.
func (s *Settings) Effective() map[string]string {
	all := map[string]string{}
	s.flags.VisitAll(func(f *flag.Flag) { all[f.Name] = f.Value.String() })
	p, _ := s.Profile.Profile() // Validate has resolved it
	all["profile"] = s.Profile.Name
	all["fault"], all["delay"] = s.Fault, s.Delay // as WithFault has them
	all["timeout"], all["permits"], all["permit-wait"] = p.Timeout.String(), strconv.Itoa(p.Permits), p.PermitWait.String()
	all["breaker-failures"], all["breaker-open-for"] = strconv.Itoa(p.BreakerFailures), p.BreakerOpenFor.String()
	all["max-queue"], all["max-queue-wait"] = strconv.Itoa(p.MaxQueue), p.MaxQueueWait.String()
	all["skip-abandoned"], all["unbounded"] = strconv.FormatBool(p.SkipAbandoned), strconv.FormatBool(p.Unbounded)
	maps.Copy(all, p.Connections.Settings())
	all["graceful-stop"] = waitForAll
	if s.GracefulStop >= 0 {
		all["graceful-stop"] = s.GracefulStop.String()
	}
	// What one flag stands for is in others, or must not be shown.
	for _, name := range []string{"rate", "config", "version", "database-url"} {
		delete(all, name)
	}
	return all
}

// real turns scenario time into real time.
func (s *Settings) real(d time.Duration) time.Duration {
	return time.Duration(math.Round(float64(d) * s.Scale))
}

// scenarioSeconds turns real time into scenario seconds.
func (s *Settings) scenarioSeconds(d time.Duration) float64 { return d.Seconds() / s.Scale }

// realRate turns a scenario rate into a real one.
func (s *Settings) realRate(r rate.Rate) rate.Rate { return rate.Rate(r.PerSecond() / s.Scale) }

// tick is the real time between two samples: a scenario second, but not under
// 50 ms.
func (s *Settings) tick() time.Duration { return max(s.real(time.Second), tickFloor) }
