package sizing

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"chokepoint/internal/delay"
	"chokepoint/internal/load/latency"
	"chokepoint/internal/result"
)

// Latency is how long the healthy upstream takes to answer.
type Latency struct {
	delay.Delay
	// Samples is how many answers were measured; 0 where the distribution is known
	// by its formula, and every quantile with it.
	Samples int64
	// Slowest is the slowest answer that was measured; 0 where none was.
	Slowest time.Duration
	// Points are what Delay is drawn from where it was measured; nil else.
	Points []time.Duration
}

// logPoints is how many points stand for a measured distribution: enough for its
// p99.99, few enough for a file that the stub reads.
const logPoints = 10_000

// maxFailed is the share of failures above which a log is not of a healthy
// upstream. The time of a failure is a timeout's or a refusal's: a few are lost in
// the tail, but those of an outage would be taken for the latency.
const maxFailed = 0.01

// ReadLatency reads what text names:
//
//	p50=80ms,p99=400ms   log-normal with these quantiles
//	load.hlog            an interval log of loadgen
//	results/<run>        the interval log of a run; so is any other path
//	anything else        a distribution of package delay, such as file:PATH
//
// Of a log it takes the service times of endpoint: from the first connect or
// write call to the answer, so the generator's own lag is not in them. An empty
// endpoint is the only one of the log, or "upstream".
func ReadLatency(text, endpoint string) (Latency, error) {
	if strings.HasPrefix(text, "p50=") || strings.HasPrefix(text, "p99=") {
		text = "lognormal:" + text
	}
	path := text
	if info, err := os.Stat(text); err == nil && info.IsDir() {
		path = filepath.Join(text, result.HistogramFile)
	} else if !strings.HasSuffix(text, filepath.Ext(result.HistogramFile)) && (strings.HasPrefix(text, "file:") || !strings.ContainsRune(text, filepath.Separator)) {
		d, err := delay.Parse(text)
		return Latency{Delay: d}, err
	}
	return readLog(path, endpoint)
}

func readLog(path, endpoint string) (Latency, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return Latency{}, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Latency{}, fmt.Errorf("%w; write one with loadgen -hlog", err)
	}
	if err != nil {
		return Latency{}, err
	}
	defer f.Close()
	log, err := latency.ReadLog(f)
	if err != nil {
		return Latency{}, fmt.Errorf("%s: %w", path, err)
	}
	var names []string
	for _, tag := range slices.Sorted(maps.Keys(log.Series)) {
		if name, ok := strings.CutSuffix(tag, "/"+latency.Service); ok {
			names = append(names, name)
		}
	}
	switch {
	case len(names) == 0:
		return Latency{}, fmt.Errorf("%s has no service times; write it with loadgen -hlog", path)
	case endpoint == "" && len(names) == 1:
		endpoint = names[0]
	case endpoint == "":
		endpoint = "upstream"
	}
	if !slices.Contains(names, endpoint) {
		return Latency{}, fmt.Errorf("%s has no endpoint %q; -endpoint takes one of %s", path, endpoint, strings.Join(names, ", "))
	}
	total := log.Series[endpoint+"/"+latency.Service].Total
	if failed, ok := log.Series[endpoint+"/"+latency.FailedResponse]; ok && float64(failed.Total.Count()) > maxFailed*float64(total.Count()) {
		return Latency{}, fmt.Errorf("%s: %d of the %d requests to %s failed, more than 1 %%; measure the upstream while it is healthy", path, failed.Total.Count(), total.Count(), endpoint)
	}
	points := make([]time.Duration, logPoints)
	for i := range points {
		points[i] = total.Quantile((float64(i) + 0.5) / logPoints)
	}
	return Latency{Delay: delay.Of(path+" "+endpoint, points), Samples: total.Count(), Slowest: total.Quantile(1), Points: points}, nil
}

// knows reports whether the quantile q rests on at least one answer beyond it.
func (l *Latency) knows(q float64) bool {
	return l.Samples == 0 || float64(l.Samples)*(1-q) >= 1
}

// meanWithin is the mean time that a call takes which is given up at bound, by
// the midpoint rule over the quantiles.
func (l *Latency) meanWithin(bound time.Duration) time.Duration {
	var sum float64
	for i := range logPoints {
		sum += float64(min(l.Quantile((float64(i)+0.5)/logPoints), bound))
	}
	return time.Duration(sum / logPoints)
}

// beyond is the share of the answers that take longer than d, to one in 2^40.
func (l *Latency) beyond(d time.Duration) float64 {
	low, high := 0.0, 1.0 // Quantile(low) <= d, or low is 0
	if l.Quantile(1) <= d {
		return 0
	}
	for range 40 {
		if middle := (low + high) / 2; l.Quantile(middle) <= d {
			low = middle
		} else {
			high = middle
		}
	}
	return 1 - low
}

// DrawFrom replaces a measured distribution by the same one in a file.
func (l *Latency) DrawFrom(path string) error {
	d, err := delay.Parse("file:" + path)
	if err == nil {
		l.Delay = d
	}
	return err
}
