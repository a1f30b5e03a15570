package engine

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/load/arrival"
	"chokepoint/internal/rate"
)

// Defaults of a Config.
const (
	DefaultTimeout = 10 * time.Second
	DefaultMaxLag  = 5 * time.Millisecond
	// WarnLag is the lag p99 from which on a run carries a warning.
	WarnLag = time.Millisecond
	// workerSlack is how long past its timeout a worker may still be busy, and
	// spareWorkers is what a burst of late answers may take beyond that.
	workerSlack  = 250 * time.Millisecond
	spareWorkers = 8
	// maxDuration and maxArrivals bound what a plan may ask for, so that no sum
	// of it leaves its type. Both are beyond any load test. Poisson arrivals are
	// counted before the start, at some 10 ns each.
	maxDuration = 30 * 24 * time.Hour
	maxArrivals = 1e12
	maxPoisson  = 1e9
)

// Arrivals is the process by which requests arrive.
type Arrivals string

// The arrival processes.
const (
	Constant Arrivals = "constant" // evenly spaced
	Poisson  Arrivals = "poisson"  // independent of each other, from a seed
)

// Endpoint is one stream of requests.
type Endpoint struct {
	Name   string // letters, digits, _ and -; part of every request's id
	URL    string
	Method string // default GET
	Rate   rate.Rate
	// Timeout is how long the client waits, counted from the due time.
	Timeout time.Duration
	// Workers is how many requests this generator can have in flight; an arrival
	// that finds none free is dropped. Default: what can fall due within
	// Timeout + 250 ms, divided by the number of shards and rounded up, and 8 more.
	// At a constant rate and in a pattern that cannot run out; of Poisson arrivals
	// it is the mean and six standard deviations.
	Workers int
	// Header is sent with every request, in its order. Host, User-Agent and
	// Authorization replace those that are sent by default.
	Header []Field
	// Body is sent with every request, with its Content-Length, whatever the
	// method.
	Body []byte
	// Rows make the requests differ: request n has what row n mod len(Rows) says.
	Rows []Row
}

// Config is a plan and what to keep of its run.
type Config struct {
	Endpoints []Endpoint
	// Duration is the length of the load window [0, Duration).
	Duration time.Duration
	Arrivals Arrivals // default Constant; a Pattern's own kind where there is one
	Seed     uint64   // of Poisson arrivals
	// Pattern is when requests arrive where the rate is not constant: it replaces
	// the rate of every endpoint and must be as long as the window. Nil is none.
	Pattern arrival.Pattern
	// Warmup is how long load comes before due time 0, at the rate that the plan
	// has there. It is in no figure: not in the ledger, the histograms, the log or
	// the progress. Its requests have a phase of their own, adminapi.PhaseWarmup,
	// and its connections stay for the load.
	Warmup time.Duration
	// Closed, if it is above 0, replaces the rates by a closed model without
	// thinking time: each endpoint has that many workers, and each sends its next
	// request when the last one is over. It is a control. Whatever stands still
	// stops the arrivals too, so nobody is seen waiting outside (coordinated
	// omission).
	Closed int
	// Shard is the part of the plan that this generator plays, the others being
	// played elsewhere from the same StartAt; the zero value is all of it. Rates and
	// patterns are those of the whole plan, Workers those of this generator.
	Shard arrival.Shard
	// Phase is sent with every request, as adminapi.HeaderPhase; default load.
	Phase string
	// GracefulStop is how long after the window answers are waited for; what is
	// in flight then is interrupted. Nil waits until every request has its answer
	// or its timeout.
	GracefulStop *time.Duration
	// StartAt is the moment of due time 0; the zero time starts at once.
	StartAt time.Time
	// Connections is how connections are made and kept.
	Connections Connections
	// Engine plays the plan; default Auto.
	Engine Kind
	// Loops is how many threads Loop plays the plan on, each a shard of it with a
	// share of every endpoint's workers; never more than an endpoint has workers. By
	// default one for every 20,000 arrivals a second, which one core carried where
	// the server had another, but not more than there are processors beside the one
	// for everything else (runtime.GOMAXPROCS less one). A closed model has one.
	Loops int
	// Quantum, if it is above 0, coalesces sends: they leave only at its multiples
	// from the start, each up to a Quantum late, with fewer wake-ups and so less
	// CPU. The lag shows it.
	Quantum time.Duration
	// MaxLag is the lag p99 above which the run is invalid; default 5 ms.
	MaxLag time.Duration
	// KeepRequests keeps a record of every arrival, about 100 bytes each. How many
	// a closed model will have nobody can say before.
	KeepRequests bool
	// Log receives the interval log, if it is not nil.
	Log io.Writer
	// EachSecond is called with every second when it is over, from one goroutine,
	// if it is not nil.
	EachSecond func(Second)
}

// WithDefaults fills in what was left out.
func (c Config) WithDefaults() Config {
	c.Endpoints = slices.Clone(c.Endpoints)
	for i := range c.Endpoints {
		e := &c.Endpoints[i]
		if e.Method == "" {
			e.Method = http.MethodGet
		}
		if e.Timeout == 0 {
			e.Timeout = DefaultTimeout
		}
		if e.Workers == 0 && c.Closed > 0 {
			e.Workers = c.Closed
		}
		if e.Workers == 0 {
			e.Workers = c.workersFor(*e)
		}
	}
	if c.Pattern != nil {
		c.Arrivals = Arrivals(c.Pattern.Kind())
	}
	if c.Arrivals == "" {
		c.Arrivals = Constant
	}
	if c.Phase == "" {
		c.Phase = adminapi.PhaseLoad
	}
	if c.Engine == "" {
		c.Engine = Auto
	}
	if c.MaxLag == 0 {
		c.MaxLag = DefaultMaxLag
	}
	return c
}

// workersFor is how many requests of e can be in flight in the shard, and some
// spare.
func (c Config) workersFor(e Endpoint) int {
	stretch := e.Timeout + workerSlack
	mean := e.Rate.PerSecond() * stretch.Seconds()
	var most float64
	switch {
	case c.Pattern != nil:
		most = float64(c.Pattern.Most(e.Name, stretch))
	case c.Arrivals == Poisson:
		// The number that falls into a stretch has its mean for its variance.
		most = math.Ceil(mean + 6*math.Sqrt(mean))
	default:
		most = math.Ceil(mean)
	}
	// At a rate and timeout that are absurd this is absurd too; Preflight says so
	// with the figure.
	return c.Shard.Most(int(min(most, math.MaxInt32-spareWorkers))) + spareWorkers
}

var (
	nameSyntax   = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	methodSyntax = regexp.MustCompile(`^[A-Z]+$`)
)

// Validate says what is wrong with a plan, in one line with the remedy. It is the
// first of what SettingFaults and EndpointFaults find.
func (c Config) Validate() error {
	faults := c.SettingFaults()
	for i := 0; i < len(c.Endpoints) && len(faults) == 0; i++ {
		faults = c.EndpointFaults(i)
	}
	if len(faults) > 0 {
		return faults[0]
	}
	return nil
}

// check gathers what is wrong.
type check []error

// that adds a fault if it is one.
func (f *check) that(wrong bool, format string, args ...any) {
	if wrong {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// no adds an error if it is one.
func (f *check) no(err error) {
	if err != nil {
		*f = append(*f, err)
	}
}

// SettingFaults are all that is wrong with a plan beside its endpoints, each in one
// line with the remedy.
func (c Config) SettingFaults() []error {
	var f check
	f.that(len(c.Endpoints) == 0, "no endpoint: give a URL and -rate, or -endpoint name=fast,url=URL,rate=20/s")
	f.that(c.Duration <= 0, "duration %v must be above zero", c.Duration)
	f.that(c.Duration > maxDuration, "duration %v is longer than %v", c.Duration, maxDuration)
	if c.Pattern != nil {
		f.that(c.Pattern.Length() != c.Duration, "the %s arrivals last %v, and the duration is %v; make them the same", c.Arrivals, c.Pattern.Length(), c.Duration)
	} else {
		f.that(c.Arrivals != Constant && c.Arrivals != Poisson, "arrivals %q: choose %s or %s", c.Arrivals, Constant, Poisson)
	}
	f.that(c.GracefulStop != nil && *c.GracefulStop < 0, "graceful stop %v is negative; leave it out to wait for every answer", c.patience())
	f.that(c.MaxLag < 0, "maximum lag %v is negative", c.MaxLag)
	f.that(c.Quantum < 0, "quantum %v is negative; 0 sends every request at its due time", c.Quantum)
	f.that(c.Quantum >= c.MaxLag && c.Quantum > 0 && c.MaxLag >= 0, "a quantum of %v makes requests up to %v late, and a maximum lag of %v makes that run invalid; lower the quantum or raise the maximum lag",
		c.Quantum, c.Quantum, c.MaxLag)
	if c.Engine != Auto && c.Engine != Loop && c.Engine != Goroutines {
		f.that(true, "engine %q: choose %s, %s or %s", c.Engine, Auto, Loop, Goroutines)
	} else {
		f.that(c.Loops > 0 && c.engine() != Loop, "%d loops, and the engine is %s, which has none; leave the loops out", c.Loops, c.engine())
	}
	f.that(c.Loops < 0, "%d loops; give one or more, or none to have them computed", c.Loops)
	f.that(c.Engine == Loop && !loopSupported, "engine %s runs on Linux only; choose %s or %s", Loop, Auto, Goroutines)
	f.that(!nameSyntax.MatchString(c.Phase), "phase %q: use letters, digits, _ and - only", c.Phase)
	f.no(c.validateClosed())
	f.no(c.validateWarmup())
	f.no(c.validateShard())
	f.no(c.validateStart())
	f.no(c.Connections.validate())
	return f
}

// patience is GracefulStop, and 0 where there is none.
func (c Config) patience() time.Duration {
	if c.GracefulStop == nil {
		return 0
	}
	return *c.GracefulStop
}

// validateStart says why the start cannot be had, or no longer.
func (c Config) validateStart() error {
	switch ahead := time.Until(c.StartAt); {
	case c.StartAt.IsZero():
		return nil
	case ahead > maxDuration:
		return fmt.Errorf("start at %s is more than %v ahead; give an earlier time", c.StartAt.Format(time.RFC3339Nano), maxDuration)
	case ahead >= c.Warmup:
		return nil
	case ahead < 0:
		return fmt.Errorf("start at %s is in the past; give a later time", c.StartAt.Format(time.RFC3339Nano))
	}
	return fmt.Errorf("start at %s leaves no time for a warm-up of %v before it; give a later time", c.StartAt.Format(time.RFC3339Nano), c.Warmup)
}

// EndpointFaults are all that is wrong with endpoint i, each in one line with the
// remedy.
func (c Config) EndpointFaults(i int) []error {
	e := c.Endpoints[i]
	if !nameSyntax.MatchString(e.Name) {
		return []error{fmt.Errorf("endpoint name %q: use letters, digits, _ and - only", e.Name)}
	}
	var f check
	f.that(slices.ContainsFunc(c.Endpoints[:i], func(before Endpoint) bool { return before.Name == e.Name }),
		"two endpoints are named %q; give each its own name", e.Name)
	for _, err := range e.faults(c) {
		f.no(fmt.Errorf("endpoint %s: %w", e.Name, err))
	}
	return f
}

// faults are what is wrong with e in c, without its name.
func (e Endpoint) faults(c Config) []error {
	var f check
	u, err := target(e.URL)
	if err == nil {
		_, _, err = c.Connections.destination(u)
	}
	f.no(err)
	if err == nil {
		f.that(c.Engine == Loop && u.Scheme != "http", "engine %s speaks plain http only, and %q is not; choose %s or %s", Loop, Redacted(e.URL), Auto, Goroutines)
		f.no(e.validateRequests(u))
	}
	f.that(!methodSyntax.MatchString(e.Method), "method %q is not an HTTP method such as GET", e.Method)
	f.no(e.validateRate(c))
	f.that(c.Closed > 0 && e.Workers != c.Closed, "%d workers, and the closed model gives every endpoint %d; leave the workers out", e.Workers, c.Closed)
	f.that(e.Timeout < 0, "timeout %v is negative", e.Timeout)
	f.that(e.Workers < 0 && c.Closed == 0, "%d workers; give one or more, or none to have them computed", e.Workers)
	return f
}

// validateRate says what is wrong with the number of e's arrivals.
func (e Endpoint) validateRate(c Config) error {
	limit := maxArrivals
	if c.Arrivals == Poisson {
		limit = maxPoisson
	}
	r := e.Rate.PerSecond()
	switch {
	case c.Pattern != nil && r != 0:
		return fmt.Errorf("rate %v belongs to constant or poisson arrivals; %s arrivals have their own", e.Rate, c.Arrivals)
	case c.Pattern != nil && c.Pattern.Count(e.Name) == 0:
		return fmt.Errorf("the %s arrivals have none for it", c.Arrivals)
	case c.Pattern != nil && float64(c.Pattern.Count(e.Name)) > maxArrivals:
		return fmt.Errorf("more than %.0g %s arrivals; lower the rate or the duration", maxArrivals, c.Arrivals)
	case c.Closed > 0 && r != 0:
		return fmt.Errorf("rate %v is of the open model; a closed model sends as fast as it is answered", e.Rate)
	case c.Closed == 0 && c.Pattern == nil && (!(r > 0) || math.IsInf(r, 0)):
		return fmt.Errorf("rate %v must be above zero; give rate=20/s", r)
	case r*c.Duration.Seconds() > limit:
		return fmt.Errorf("%v for %v is more than %.0g %s arrivals; lower the rate or the duration", e.Rate, c.Duration, limit, c.Arrivals)
	}
	return nil
}

// target parses an absolute http or https URL.
func target(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case !strings.Contains(raw, "://"):
		return nil, fmt.Errorf("URL %q must start with http:// or https://", Redacted(raw))
	case err != nil && strings.Contains(raw, "@"):
		// The words of package url may quote a part of the password.
		return nil, fmt.Errorf("URL %q is malformed; in a name or password write %%2F for / and so on", Redacted(raw))
	case err != nil:
		return nil, fmt.Errorf("URL %q: %w", raw, urlSyntax(err))
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("URL %q must start with http:// or https://", Redacted(raw))
	case u.Hostname() == "":
		return nil, fmt.Errorf("URL %q has no host", Redacted(raw))
	case strings.ContainsAny(raw, " \r\n"):
		return nil, fmt.Errorf("URL %q contains a space or a line break; write %%20", Redacted(raw))
	}
	return u, nil
}

// credentials are what a URL has before its host, or what might be that if it is
// malformed.
var credentials = regexp.MustCompile(`//.*@`)

// Redacted is a URL without its credentials, for messages. Those of one without
// a scheme begin where it does.
func Redacted(raw string) string {
	if at := strings.LastIndex(raw, "@"); at >= 0 && !strings.Contains(raw, "//") {
		return "***" + raw[at:]
	}
	return credentials.ReplaceAllLiteralString(raw, "//***@")
}

// urlSyntax is what url.Parse found wrong, without the URL.
func urlSyntax(err error) error {
	if syntax, ok := errors.AsType[*url.Error](err); ok {
		return syntax.Err
	}
	return err
}

// engine is the engine that plays c, Auto decided.
func (c Config) engine() Kind {
	if c.Engine != Auto {
		return c.Engine
	}
	if !loopSupported || c.speaksTLS() {
		return Goroutines
	}
	return Loop
}

// speaksTLS says whether c, which is valid, has an https endpoint.
func (c Config) speaksTLS() bool {
	return slices.ContainsFunc(c.Endpoints, func(e Endpoint) bool {
		u, err := target(e.URL)
		return err == nil && u.Scheme == "https"
	})
}

// loopRate is how many arrivals a second one loop is given by default.
const loopRate = 20_000

// loops is how many threads Loop plays c on.
func (c Config) loops() int {
	n := c.Loops
	if n == 0 && c.Closed == 0 {
		processors := min(runtime.NumCPU(), runtime.GOMAXPROCS(0)-1)
		n = int(min(math.Ceil(c.peakRate()/loopRate), float64(processors)))
	}
	for _, e := range c.Endpoints {
		n = min(n, e.Workers)
	}
	return max(1, n)
}
