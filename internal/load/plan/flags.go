package plan

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/cli"
	"chokepoint/internal/load/arrival"
	"chokepoint/internal/load/engine"
	"chokepoint/internal/load/threshold"
	"chokepoint/internal/rate"
)

// The flags that the rules of a plan speak of.
const (
	flagPlan        = "plan"
	flagEndpoint    = "endpoint"
	flagOnly        = "only"
	flagRate        = "rate"
	flagDuration    = "duration"
	flagCount       = "count"
	flagArrivals    = "arrivals"
	flagClosed      = "closed"
	flagQuantum     = "quantum"
	flagMaxLag      = "max-lag"
	flagThreshold   = "threshold"
	flagInsecure    = "insecure"
	flagCACert      = "cacert"
	flagCert        = "cert"
	flagKey         = "key"
	flagKeepAlive   = "keepalive"
	flagMaxAge      = "max-age"
	flagMaxRequests = "max-requests"
)

// Groups are the flags of a plan by purpose, for -h.
func Groups() []cli.Group {
	return []cli.Group{
		{Title: "What is sent", Flags: []string{flagPlan, flagEndpoint, flagOnly, "method", "header", "body", "rows", "phase"}},
		{Title: "When it is sent", Flags: []string{flagRate, flagDuration, flagCount, flagArrivals, "seed", "warmup", "start-at", flagClosed, flagQuantum}},
		{Title: "How it is waited for", Flags: []string{"timeout", "workers", "graceful-stop", flagMaxLag, "engine", "loops"}},
		{Title: "Connections", Flags: []string{flagInsecure, flagCACert, flagCert, flagKey, "server-name", "connect-to", "resolve", "source", flagKeepAlive, flagMaxAge, flagMaxRequests}},
	}
}

// Flags are the flags that describe a plan.
type Flags struct {
	fs         *flag.FlagSet
	config     engine.Config // what needs no more than its own flag
	file       string        // of -plan
	arrivals   string
	count      int
	every      description   // of every endpoint: -timeout, -header, ...
	endpoints  []description // of -endpoint
	only       []string      // the endpoints that are sent to; nil is all
	syntax     Faults        // of -endpoint
	thresholds []threshold.Threshold
	keepAlive  bool
	cacert     string
	cert, key  string
}

// Shard is the part of the plan that this generator plays. It has no key in the
// file, which is the same for all.
func (f *Flags) Shard() *arrival.Shard { return &f.config.Shard }

// value is a flag.Value of any type.
type value[T any] struct {
	to    *T
	parse func(string) (T, error)
}

func (v *value[T]) Set(text string) error {
	parsed, err := v.parse(text)
	if err == nil {
		*v.to = parsed
	}
	return err
}

// String is empty for the zero value, as package flag demands.
func (v *value[T]) String() string {
	if v.to == nil {
		return ""
	}
	return fmt.Sprint(*v.to)
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("not a duration such as 500ms, 30s or 5m")
	}
	return d, nil
}

func parseNumber(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("not a whole number")
	}
	return n, nil
}

func parseSeed(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("not a whole number from 0 to %d", uint64(math.MaxUint64))
	}
	return n, nil
}

func parseBoolean(text string) (bool, error) {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, errors.New("not true or false")
	}
	return b, nil
}

// IsBoolFlag says, for package flag, that -name alone means true.
func (v *value[T]) IsBoolFlag() bool {
	_, ok := any(v.to).(*bool)
	return ok
}

func (f *Flags) boolean(to *bool, name, usage string) {
	f.fs.Var(&value[bool]{to, parseBoolean}, name, usage)
}

func (f *Flags) duration(to *time.Duration, name, usage string) {
	f.fs.Var(&value[time.Duration]{to, parseDuration}, name, usage)
}

func (f *Flags) number(to *int, name, usage string) {
	f.fs.Var(&value[int]{to, parseNumber}, name, usage)
}

// addLoad adds the flags of the load as a whole.
func (f *Flags) addLoad() {
	c := &f.config
	c.Duration, c.MaxLag = 10*time.Second, engine.DefaultMaxLag
	cli.FileVar(f.fs, &f.file, flagPlan, "read the plan from this YAML `file`; a flag wins over it")
	f.duration(&c.Duration, flagDuration, "the load window takes this `duration`")
	f.number(&f.count, flagCount, "send exactly `N` requests: the window is N / rate")
	f.fs.StringVar(&f.arrivals, flagArrivals, string(engine.Constant), "a `pattern`: poisson, "+arrival.PatternSyntax)
	c.Seed = 1
	f.fs.Var(&value[uint64]{&c.Seed, parseSeed}, "seed", "draw poisson arrivals from this `number`")
	f.duration(&c.Warmup, "warmup", "load for this `duration` before the window, which is in no figure")
	f.fs.Func("start-at", "the first arrival is at this RFC 3339 `time` (default: at once)", func(s string) (err error) {
		if c.StartAt, err = time.Parse(time.RFC3339Nano, s); err != nil {
			return errors.New("not a time such as 2026-01-31T15:04:05Z")
		}
		return nil
	})
	f.number(&c.Closed, flagClosed, "closed model, a control: `N` workers that each send when they are answered")
	f.duration(&c.Quantum, flagQuantum, "send at multiples of this `duration` only: less CPU, more lag")
	f.fs.Func("graceful-stop", "wait for answers this `duration` after the window (default: for the last)", func(s string) error {
		d, err := parseDuration(s)
		c.GracefulStop = &d
		return err
	})
	f.duration(&c.MaxLag, flagMaxLag, "a lag p99 above this `duration` makes the run invalid")
	f.fs.StringVar((*string)(&c.Engine), "engine", string(engine.Auto), "play it with the engine of this `kind`: auto, loop (plain http on Linux) or goroutines")
	f.number(&c.Loops, "loops", "`threads` of engine loop (default: one for every 20,000/s, as far as there are CPUs)")
	f.fs.StringVar(&c.Phase, "phase", adminapi.PhaseLoad, "a `word` that is sent as "+adminapi.HeaderPhase)
	threshold.AddFlag(f.fs, &f.thresholds)
}

// addRequests adds the flags of endpoints. What they get is checked later, where
// it can be said without showing a password.
func (f *Flags) addRequests() {
	f.every = newDescription("")
	f.fs.Func(flagEndpoint, "an endpoint by its `keys`, as name=a,url=URL,rate=20/s; repeat it for more", func(s string) error {
		d, err := parseEndpoint(s)
		if err != nil {
			f.syntax.add("", fmt.Errorf("-endpoint: %w", err))
			return nil
		}
		f.endpoints = append(f.endpoints, d)
		return nil
	})
	f.fs.Func(flagOnly, "of the plan's endpoints send to these `names` alone, with commas between them", func(s string) error {
		f.only = strings.Split(s, ",")
		return nil
	})
	usages := map[string]string{
		"rate":    "send at this `rate`, as 20, 20/s or 1200/m",
		"method":  "use this HTTP `method` (default GET, with a body POST)",
		"header":  "send this header `line`, 'Name: value', as well; repeat it for more",
		"body":    "send this `text` as the body, or with @file what is in the file",
		"rows":    "take url and body of each request in turn from this CSV or JSON Lines `file`",
		"timeout": "the client waits this `duration` from the due time (default " + engine.DefaultTimeout.String() + ")",
		"workers": "`N` requests can be in flight to an endpoint (default: by rate and timeout)",
	}
	for _, k := range endpointKeys {
		if usage, ok := usages[k.name]; ok {
			f.fs.Func(k.name, usage, func(s string) error {
				v := datum{text: s}
				f.every.put(k, v)
				if k.reads || k.secret {
					return nil
				}
				return k.set(&engine.Endpoint{}, v)
			})
		}
	}
}

// addConnections adds the flags of how connections are made and kept.
func (f *Flags) addConnections() {
	c := &f.config.Connections
	f.keepAlive = true
	f.boolean(&c.Insecure, flagInsecure, "do not verify the server's certificate")
	cli.FileVar(f.fs, &f.cacert, flagCACert, "verify it with the authorities of this PEM `file` alone")
	cli.FileVar(f.fs, &f.cert, flagCert, "client certificate, a PEM `file`")
	cli.FileVar(f.fs, &f.key, flagKey, "its key, a PEM `file` (default: that of -cert)")
	f.fs.StringVar(&c.ServerName, "server-name", "", "ask for and verify this `name` with TLS (default: the URL's host)")
	f.fs.Func("connect-to", "connect elsewhere by this `rule`, HOST1:PORT1:HOST2:PORT2; repeat it for more", func(s string) error {
		r, err := engine.ParseConnectTo(s)
		c.ConnectTo = append(c.ConnectTo, r)
		return err
	})
	f.fs.Func("resolve", "give a name its address by this `rule`, HOST:PORT:ADDRESS; repeat it for more", func(s string) error {
		r, err := engine.ParseResolve(s)
		c.Resolve = append(c.Resolve, r)
		return err
	})
	f.fs.Func("source", "connect from these local `addresses` in turn, with commas between them", func(s string) error {
		for text := range strings.SplitSeq(s, ",") {
			source, err := netip.ParseAddr(strings.TrimSpace(text))
			if err != nil {
				return fmt.Errorf("%q is not an IP address", text)
			}
			c.Sources = append(c.Sources, source)
		}
		return nil
	})
	f.boolean(&f.keepAlive, flagKeepAlive, "use a connection again; -keepalive=false makes one for each request")
	f.duration(&c.MaxAge, flagMaxAge, "close a connection that is older than this `duration`")
	f.number(&c.MaxRequests, flagMaxRequests, "close a connection after `N` requests")
}

// addAliases adds the short names that other load generators and curl have for
// the same things. A rate of hey's -q is one of each worker, and ours is of all.
func (f *Flags) addAliases() {
	for _, a := range [][2]string{
		{"c", "workers"}, {"z", flagDuration}, {"q", flagRate}, {"n", flagCount},
		{"H", "header"}, {"m", "method"}, {"d", "body"}, {"k", flagInsecure},
	} {
		cli.Alias(f.fs, a[0], a[1])
	}
}

// parseRate reads a rate for a key of an endpoint.
func parseRate(e *engine.Endpoint, v datum) (err error) {
	e.Rate, err = rate.Parse(v.text)
	return err
}
