package draining

import (
	"fmt"
	"strings"
	"time"

	"chokepoint/internal/delay"
	"chokepoint/internal/evidence/sizing"
)

const (
	// points is how many stand for a distribution, evenly over its quantiles.
	points = 1_000
	// ofSlowest is the share that the slowest response has beside them in a mean: little,
	// and above 0, so that a mean of losses is 0 only if the slowest is not lost either.
	ofSlowest = 0.0001
)

// Response is how long requests take.
type Response struct {
	// Text is what it was read from.
	Text string
	// Slowest is the slowest response that counts: a setting is safe that covers it.
	Slowest time.Duration
	// Beyond is the share of responses that take longer still. It is 0 where Slowest is
	// a bound that somebody keeps, and where nothing slower was measured.
	Beyond float64
	// Bounded says that the bound was given, such as a timeout that somebody keeps.
	// Else Slowest may be exceeded tomorrow.
	Bounded bool
	// Samples is how many responses were measured; 0 where the distribution is a formula.
	Samples int64

	of     delay.Delay
	sorted []time.Duration // points of it, none above Slowest
}

// ResponseOf are the responses that d describes, with slowest as the slowest that counts.
func ResponseOf(d delay.Delay, slowest time.Duration) Response {
	r := Response{Text: d.String(), Slowest: slowest, of: d, sorted: make([]time.Duration, points)}
	for i := range r.sorted {
		r.sorted[i] = min(d.Quantile((float64(i)+0.5)/points), slowest)
	}
	return r
}

// Quantile is the response time that the share q (0 to 1) does not exceed.
func (r Response) Quantile(q float64) time.Duration { return min(r.of.Quantile(q), r.Slowest) }

// mean is that of f over the responses.
func (r Response) mean(f func(time.Duration) float64) float64 {
	var sum float64
	for _, takes := range r.sorted {
		sum += f(takes)
	}
	return (1-ofSlowest)*sum/float64(len(r.sorted)) + ofSlowest*f(r.Slowest)
}

// ReadResponse reads a distribution:
//
//	p50=80ms,p99=4s,max=30s   log-normal with these quantiles, and no response longer
//	                          than max, which may be left out
//	anything else             a distribution of package delay; ,max= may follow
//
// The slowest response that counts is max. Without it that is the distribution's own
// longest, or where it has none the quantile 1 - cut, and a share of cut takes longer.
func ReadResponse(text string, cut float64) (Response, error) {
	if !(cut > 0 && cut < 1) {
		return Response{}, fmt.Errorf("max-cut %g: want a share above 0 and below 1", cut)
	}
	rest, value, limited := strings.Cut(text, ",max=")
	limit := delay.Max
	if limited {
		var err error
		if limit, err = time.ParseDuration(value); err != nil || limit <= 0 || limit > delay.Max {
			return Response{}, fmt.Errorf("max=%s: want a duration above 0s and up to %s, at the end, such as p50=80ms,p99=4s,max=30s", value, delay.Max)
		}
	}
	if strings.HasPrefix(rest, "p50=") || strings.HasPrefix(rest, "p99=") {
		rest = "lognormal:" + rest
	}
	d, err := delay.Parse(rest)
	if err != nil {
		return Response{}, err
	}
	if median := d.Median(); limit < median {
		return Response{}, fmt.Errorf("max=%s is below the median, %s", limit, median)
	}
	slowest, beyond := min(d.Quantile(1), limit), 0.
	if slowest == delay.Max { // a log-normal distribution without a bound
		slowest, beyond = d.Quantile(1-cut), cut
	}
	r := ResponseOf(d, slowest)
	r.Text, r.Beyond, r.Bounded = text, beyond, limited
	return r, nil
}

// ReadMeasured reads what loadgen measured: a .hlog, or the folder of a run. An empty
// endpoint is the log's only one, or "upstream". The slowest response that counts is the
// slowest that was measured.
func ReadMeasured(path, endpoint string) (Response, error) {
	l, err := sizing.ReadLatency(path, endpoint)
	switch {
	case err != nil:
		return Response{}, err
	case l.Samples == 0:
		return Response{}, fmt.Errorf("%s: not a .hlog of loadgen, nor the folder of a run; give a distribution to -response", path)
	}
	r := ResponseOf(l.Delay, l.Slowest)
	r.Samples = l.Samples
	return r, nil
}
