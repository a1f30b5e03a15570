package main

import (
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/cli"
	"chokepoint/internal/load/engine"
	"chokepoint/internal/rate"
)

const synopsis = `Usage: loadgen [flags] -rate 20/s -duration 30s URL
       loadgen [flags] -endpoint name=fast,url=URL,rate=20/s[,timeout=10s][,workers=N][,method=GET] ...

Sends requests at the rate given, whatever has become of those before, and
accounts for every one.

Exit codes: 0 done, 1 failure, 2 usage, 3 the run is invalid, 130 interrupted.`

// options is the command line.
type options struct {
	plan     engine.Config
	json     string
	hlog     string
	requests string
}

// parse reads the command line and refuses a plan that cannot be had.
func parse(args []string, stdout io.Writer) (options, error) {
	var o options
	var single engine.Endpoint
	fs := flag.NewFlagSet("loadgen", flag.ContinueOnError)
	fs.Func("endpoint", "an endpoint, as `name=fast,url=URL,rate=20/s,timeout=10s,workers=N,method=GET`; repeat it for more (a comma in a URL is written %2C)", func(s string) error {
		e, err := parseEndpoint(s)
		o.plan.Endpoints = append(o.plan.Endpoints, e)
		return err
	})
	fs.Var(&single.Rate, "rate", "requests per `second` to URL: 20, 20/s or 1200/m")
	fs.DurationVar(&single.Timeout, "timeout", engine.DefaultTimeout, "how long the client waits, from the due time (of URL)")
	fs.IntVar(&single.Workers, "workers", 0, "requests that can be in flight (of URL); 0 computes it from rate and timeout")
	fs.StringVar(&single.Method, "method", "GET", "HTTP method (of URL)")
	fs.DurationVar(&o.plan.Duration, "duration", 10*time.Second, "length of the load window")
	fs.Func("graceful-stop", "how long after the window answers are waited for, a `duration` (default: until every request has its answer or timeout)", func(s string) error {
		d, err := time.ParseDuration(s)
		o.plan.GracefulStop = &d
		return err
	})
	fs.StringVar(&o.plan.Phase, "phase", adminapi.PhaseLoad, "sent with every request as "+adminapi.HeaderPhase)
	fs.Func("start-at", "moment of the first arrival, as RFC 3339 `time` (default: at once)", func(s string) (err error) {
		o.plan.StartAt, err = time.Parse(time.RFC3339Nano, s)
		return err
	})
	fs.Uint64Var(&o.plan.Seed, "seed", 1, "seed of poisson arrivals")
	fs.StringVar((*string)(&o.plan.Arrivals), "arrivals", string(engine.Constant), "constant or poisson")
	fs.DurationVar(&o.plan.MaxLag, "max-lag", engine.DefaultMaxLag, "lag p99 above which the run is invalid")
	fs.StringVar((*string)(&o.plan.Engine), "engine", string(engine.Goroutines), "auto, loop (plain http on Linux) or goroutines")
	fs.DurationVar(&o.plan.Quantum, "quantum", 0, "send at multiples of this `duration` only, which spares CPU and shows as lag; 0 sends each request when it is due")
	fs.StringVar(&o.json, "json", "", "write the result to this `file`")
	fs.StringVar(&o.hlog, "hlog", "", "write the HdrHistogram interval log to this `file`")
	fs.StringVar(&o.requests, "requests", "", "write a row for every arrival to this CSV `file`")
	if err := cli.Parse(fs, args, synopsis, stdout); err != nil {
		return o, err
	}
	if err := o.addSingle(fs, single); err != nil {
		return o, err
	}
	o.plan.KeepRequests = o.requests != ""
	o.plan = o.plan.WithDefaults()
	return o, o.plan.Validate()
}

// addSingle adds the endpoint of the short form, -rate and a URL.
func (o *options) addSingle(fs *flag.FlagSet, e engine.Endpoint) error {
	urls := fs.Args()
	switch {
	case len(urls) > 1:
		return fmt.Errorf("one URL is enough, got %d: %q; flags go before it, and more URLs are given with -endpoint", len(urls), urls)
	case len(urls) == 1 && len(o.plan.Endpoints) > 0:
		return fmt.Errorf("give a URL (%q) or -endpoint, not both", urls[0])
	case len(urls) == 1 && e.Rate == 0:
		return fmt.Errorf("no rate for %s; give -rate 20/s", urls[0])
	case len(urls) == 1:
		e.Name, e.URL = "url", urls[0]
		o.plan.Endpoints = append(o.plan.Endpoints, e)
		return nil
	}
	// Flags of the short form would be ignored, and that is never meant.
	var ignored string
	fs.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "rate", "timeout", "workers", "method":
			ignored = f.Name
		}
	})
	if ignored != "" {
		return fmt.Errorf("-%s belongs to a URL, and none is given; write it into the -endpoint", ignored)
	}
	return nil
}

// parseEndpoint reads key=value pairs.
func parseEndpoint(s string) (engine.Endpoint, error) {
	var e engine.Endpoint
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(s, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return e, fmt.Errorf("%q is not key=value (a comma in a URL is written %%2C)", pair)
		}
		if seen[key] {
			return e, fmt.Errorf("%s is given twice", key)
		}
		seen[key] = true
		var err error
		switch key {
		case "name":
			e.Name = value
		case "url":
			e.URL = value
		case "method":
			e.Method = value
		case "rate":
			e.Rate, err = rate.Parse(value)
		case "timeout":
			if e.Timeout, err = time.ParseDuration(value); err == nil && e.Timeout <= 0 {
				err = fmt.Errorf("timeout %v must be above zero", e.Timeout)
			}
		case "workers":
			if e.Workers, err = strconv.Atoi(value); err != nil || e.Workers < 1 {
				err = fmt.Errorf("workers %q is not a number above zero", value)
			}
		default:
			err = fmt.Errorf("unknown key %q; the keys are name, url, rate, timeout, workers and method (a comma in a URL is written %%2C)", key)
		}
		if err != nil {
			return e, err
		}
	}
	for _, key := range []string{"name", "url", "rate"} {
		if !seen[key] {
			return e, fmt.Errorf("%s is missing", key)
		}
	}
	return e, nil
}
