package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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

const synopsis = `Usage: loadgen [flags] -rate 20/s -duration 30s URL
       loadgen [flags] -endpoint name=fast,url=URL,rate=20/s[,timeout=10s][,workers=N][,method=GET] ...
       loadgen report load.json ...   merge the results of several generators or runs
       loadgen diff BASE NEW          compare repeated runs

Sends requests at the rate given, whatever has become of those before, and
accounts for every one.

Exit codes: 0 done, 1 failure, 2 usage, 3 the run is invalid, 99 a threshold is
not met, 130 interrupted. An invalid run is 3 whatever its thresholds say.`

// options is the command line.
type options struct {
	plan       engine.Config
	thresholds []threshold.Threshold
	json       string
	hlog       string
	hgrm       string // with {endpoint} for the name
	perSecond  string
	requests   string
	quiet      bool
	sharding   sharding
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
	o.sharding.addFlags(fs, &o.plan.Shard)
	fs.Uint64Var(&o.plan.Seed, "seed", 1, "seed of poisson arrivals")
	arrivals := fs.String("arrivals", string(engine.Constant), "`pattern` of the arrivals: constant, poisson, "+arrival.PatternSyntax+
		"; the last three take the place of every rate, the last two also of the duration")
	thresholds(fs, &o.thresholds)
	fs.DurationVar(&o.plan.MaxLag, "max-lag", engine.DefaultMaxLag, "lag p99 above which the run is invalid")
	fs.StringVar((*string)(&o.plan.Engine), "engine", string(engine.Auto), "auto, loop (plain http on Linux) or goroutines")
	fs.DurationVar(&o.plan.Quantum, "quantum", 0, "send at multiples of this `duration` only, which spares CPU and shows as lag; 0 sends each request when it is due")
	fs.StringVar(&o.json, "json", "", "write the result to this `file`")
	fs.StringVar(&o.hlog, "hlog", "", "write the HdrHistogram interval log to this `file`")
	fs.StringVar(&o.hgrm, "hgrm", "", "write the percentile distribution of the response times to this `file`; with several endpoints its name needs {endpoint}")
	fs.StringVar(&o.perSecond, "per-second", "", "write a row for every second and endpoint to this CSV `file`")
	fs.BoolVar(&o.quiet, "quiet", false, "show no progress on stderr")
	fs.StringVar(&o.requests, "requests", "", "write a row for every arrival to this CSV `file`")
	if err := cli.Parse(fs, args, synopsis, stdout); err != nil {
		return o, err
	}
	if err := o.setArrivals(*arrivals, given(fs, "duration")); err != nil {
		return o, err
	}
	if err := o.addSingle(fs, single); err != nil {
		return o, err
	}
	if given(fs, "timeout") && single.Timeout == 0 {
		return o, errors.New("timeout 0s must be above zero")
	}
	if given(fs, "max-lag") && o.plan.MaxLag == 0 {
		return o, errors.New("maximum lag 0s must be above zero: no generator is that punctual")
	}
	o.plan.KeepRequests = o.requests != ""
	o.plan = o.plan.WithDefaults()
	if err := o.checkNames(); err != nil {
		return o, err
	}
	return o, o.plan.Validate()
}

// thresholds adds the flag -threshold to fs.
func thresholds(fs *flag.FlagSet, all *[]threshold.Threshold) {
	fs.Func("threshold", "a `condition` to hold, as fast:p(95)<200ms, failed<1% or dropped==0; repeat it for more. Metrics: p(N), med, min, max, failed, dropped, count; without an endpoint it is of all together", func(s string) error {
		t, err := threshold.Parse(s)
		*all = append(*all, t)
		return err
	})
}

// given says whether the flag was set, on the command line or elsewhere.
func given(fs *flag.FlagSet, name string) bool {
	set := false
	fs.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// setArrivals reads -arrivals. A pattern that has a length of its own is the
// duration.
func (o *options) setArrivals(text string, durationGiven bool) error {
	if text == string(engine.Constant) || text == string(engine.Poisson) {
		o.plan.Arrivals = engine.Arrivals(text)
		return nil
	}
	pattern, err := arrival.ParsePattern(text, o.plan.Duration)
	if err != nil {
		return err
	}
	if length := pattern.Length(); durationGiven && length != o.plan.Duration {
		return fmt.Errorf("arrivals %q last %v, and the duration is %v; leave -duration out", text, length, o.plan.Duration)
	}
	o.plan.Pattern, o.plan.Duration = pattern, pattern.Length()
	return nil
}

// checkNames says which option needs an endpoint that the plan does not have, or
// the other way round.
func (o *options) checkNames() error {
	var names []string
	for _, e := range o.plan.Endpoints {
		names = append(names, e.Name)
		if e.Rate == 0 && o.plan.Pattern == nil {
			return fmt.Errorf("endpoint %s: rate is missing", e.Name)
		}
	}
	if recording, ok := o.plan.Pattern.(*arrival.Recording); ok {
		for _, name := range recording.Endpoints() {
			if !slices.Contains(names, name) {
				return fmt.Errorf("the recording has arrivals of endpoint %q, and the plan has only %s; give -endpoint name=%s,url=URL", name, strings.Join(names, ", "), name)
			}
		}
	}
	if err := checkEndpoints(o.thresholds, names); err != nil {
		return err
	}
	if o.hgrm != "" && len(names) > 1 && !strings.Contains(o.hgrm, endpointMark) {
		return fmt.Errorf("-hgrm %q: %d endpoints cannot go into one file; put %s into its name", o.hgrm, len(names), endpointMark)
	}
	if err := o.checkSharding(); err != nil {
		return err
	}
	return o.checkOutputs()
}

// checkOutputs refuses two outputs in one file.
func (o *options) checkOutputs() error {
	files := o.outputFiles()
	for i, f := range files {
		for _, other := range files[:i] {
			if sameFile(f.path, other.path) {
				return fmt.Errorf("-%s %s and -%s %s are the same file; give each its own", other.flag, other.path, f.flag, f.path)
			}
		}
	}
	return nil
}

// sameFile says whether two paths lead to one file, which need not exist.
func sameFile(a, b string) bool {
	if absA, err := filepath.Abs(a); err == nil {
		if absB, err := filepath.Abs(b); err == nil && absA == absB {
			return true
		}
	}
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// checkEndpoints refuses a threshold of an endpoint that there is not.
func checkEndpoints(all []threshold.Threshold, names []string) error {
	for _, t := range all {
		if t.Endpoint() != "" && !slices.Contains(names, t.Endpoint()) {
			return fmt.Errorf("threshold %q: there is no endpoint %s, only %s", t, t.Endpoint(), strings.Join(names, ", "))
		}
	}
	return nil
}

// addSingle adds the endpoint of the short form, -rate and a URL.
func (o *options) addSingle(fs *flag.FlagSet, e engine.Endpoint) error {
	urls := fs.Args()
	switch {
	case len(urls) > 1:
		return fmt.Errorf("one URL is enough, got %d: %q; flags go before it, and more URLs are given with -endpoint", len(urls), urls)
	case len(urls) == 1 && len(o.plan.Endpoints) > 0:
		return fmt.Errorf("give a URL (%q) or -endpoint, not both", urls[0])
	case len(urls) == 1 && e.Rate == 0 && o.plan.Pattern == nil:
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
	for _, key := range []string{"name", "url"} {
		if !seen[key] {
			return e, fmt.Errorf("%s is missing", key)
		}
	}
	return e, nil
}
