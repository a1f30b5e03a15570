package draining

import (
	"fmt"
	"math"
	"time"

	"chokepoint/internal/delay"
)

// Question is what an advice is asked about.
type Question struct {
	Traffic
	// DeregistrationDelay is for how long the balancer calls the gateway draining; 0 is
	// not known.
	DeregistrationDelay time.Duration
	// Terminate: the balancer cuts the clients' side of the gateway's connections when
	// DeregistrationDelay is over.
	Terminate bool
	// Margin is added to what was measured, as a share of it: to the propagation, and to
	// the slowest response unless it is bounded.
	Margin float64
}

// check says what no question can have. The names are those of the flags.
func (q Question) check() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"propagation", q.Propagation}, {"keepalive-idle", q.KeepaliveIdle}, {"deregistration-delay", q.DeregistrationDelay}} {
		if d.value < 0 || d.value > delay.Max {
			return fmt.Errorf("-%s %s: want 0s to %s", d.name, d.value, delay.Max)
		}
	}
	switch {
	case !(q.Rate > 0 && q.Rate <= maxRate):
		return fmt.Errorf("-rate %g: want more than 0 and at most %g", q.Rate, maxRate)
	case !(q.Margin >= 0 && q.Margin <= 10):
		return fmt.Errorf("-margin %g: want 0 to 10", q.Margin)
	case q.Terminate && q.DeregistrationDelay == 0:
		return fmt.Errorf("-terminate acts when the deregistration delay is over; give -deregistration-delay")
	}
	return nil
}

// Option is a setting with what it loses, on average, as one gateway is ended.
type Option struct {
	PreStopS float64 `json:"pre_stop_s"`
	DrainS   float64 `json:"drain_s"`
	Idle     Idle    `json:"idle_connections"`
	Lost     Lost    `json:"lost"`
}

func (q Question) option(s Stop, idle Idle) Option {
	return Option{s.PreStop.Seconds(), s.Drain.Seconds(), idle, s.Expect(q.Traffic, idle)}
}

// Setting is one of a product, with why it has its value.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Reason string `json:"reason"`
	Page   string `json:"page"` // of the product's documentation
}

// Product is the advice for one.
type Product struct {
	Name string `json:"name"`
	// Default is the product as it comes, under Kubernetes' default grace; Comes says
	// what that is.
	Default Option `json:"default"`
	Comes   string `json:"comes"`
	// Smallest was searched, Recommended has margins and whole seconds.
	Smallest    Option    `json:"smallest"`
	Recommended Option    `json:"recommended"`
	GraceS      float64   `json:"grace_s"` // after which it is killed
	Settings    []Setting `json:"settings"`
	Snippet     string    `json:"snippet"` // to paste
}

// Asked is the question as the answer repeats it, in seconds.
type Asked struct {
	Response             string  `json:"response"`
	P50S                 float64 `json:"p50_s"`
	P99S                 float64 `json:"p99_s"`
	SlowestS             float64 `json:"slowest_s"`
	Bounded              bool    `json:"bounded"`
	Beyond               float64 `json:"beyond_ratio"` // of the responses that take longer than slowest_s
	Samples              int64   `json:"samples,omitempty"`
	Rate                 float64 `json:"rate"`
	PropagationS         float64 `json:"propagation_s"`
	KeepaliveIdleS       float64 `json:"keepalive_idle_s"`
	DeregistrationDelayS float64 `json:"deregistration_delay_s"`
	Terminate            bool    `json:"terminate"`
	Margin               float64 `json:"margin"`
}

// Advice is the answer to a Question.
type Advice struct {
	Asked    Asked     `json:"asked"`
	Reasons  []string  `json:"reasons"`
	Products []Product `json:"products"`
	Balancer []Setting `json:"balancer"`
}

const (
	// resolution is how finely a setting is searched.
	resolution = time.Millisecond
	// way is what an answer and its connection take beyond the response time: it is
	// cut off too if it is still on its way.
	way = time.Second
	// maxRate is beyond any gateway, and leaves sums of losses finite.
	maxRate = 1e9
	// graceMargin is left between the end of the drain and the SIGKILL, for a process to
	// exit.
	graceMargin = 10 * time.Second
)

// Advise answers q. The error names a figure that makes no sense.
func Advise(q Question) (Advice, error) {
	if err := q.check(); err != nil {
		return Advice{}, err
	}
	r := q.Response
	a := Advice{Asked: Asked{
		Response: r.Text, P50S: r.Quantile(0.5).Seconds(), P99S: r.Quantile(0.99).Seconds(), SlowestS: r.Slowest.Seconds(),
		Bounded: r.Bounded, Beyond: r.Beyond, Samples: r.Samples, Rate: q.Rate, PropagationS: q.Propagation.Seconds(),
		KeepaliveIdleS: q.KeepaliveIdle.Seconds(), DeregistrationDelayS: q.DeregistrationDelay.Seconds(), Terminate: q.Terminate, Margin: q.Margin,
	}}
	last := time.Duration(0)
	for _, k := range kinds {
		p := q.product(k)
		a.Products = append(a.Products, p)
		last = max(last, seconds(p.Recommended.PreStopS)+seconds(p.Recommended.DrainS))
	}
	a.Reasons = q.reasons()
	a.Balancer = q.balancer(last)
	return a, nil
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// whole is d rounded up to seconds, which is what Kubernetes and its like take.
func whole(d time.Duration) time.Duration {
	return (d + time.Second - 1) / time.Second * time.Second
}

func (q Question) withMargin(d time.Duration) time.Duration {
	return d + time.Duration(math.Ceil(float64(d)*q.Margin))
}

// preStop covers the propagation, and the deregistration delay where that is longer.
func (q Question) preStop() time.Duration {
	needed := whole(q.withMargin(q.Propagation))
	if q.Terminate {
		return needed // else the delay and the pre-stop would chase each other
	}
	return max(needed, whole(q.DeregistrationDelay))
}

// drain covers the slowest response, after the longest rest where resting connections
// are kept.
func (q Question) drain(idle Idle) time.Duration {
	d := q.Response.Slowest
	if !q.Response.Bounded {
		d = q.withMargin(d)
	}
	if idle == KeepIdle {
		d += q.KeepaliveIdle
	}
	return whole(d + way)
}

// reasons say what was found, and what follows.
func (q Question) reasons() []string {
	found := Smallest(q.Traffic, CloseIdle, resolution)
	r := []string{fmt.Sprintf("pre-stop: the balancer gives a gateway that ends new connections for %s, and each that comes after the pre-stop is refused; %s is the shortest with which none is (searched), %s with the margin of %.0f %%",
		q.Propagation, found.PreStop, whole(q.withMargin(q.Propagation)), 100*q.Margin)}
	switch {
	case q.Terminate:
		r = append(r, "the balancer terminates connections when the deregistration delay is over, so the delay must outlast pre-stop and drain: see the balancer's settings")
	case q.preStop() > whole(q.withMargin(q.Propagation)):
		r = append(r, fmt.Sprintf("the deregistration delay of %s is longer: the pre-stop covers it whole, so that the drain begins when the balancer is done; if your figure of the propagation is sure, a delay and a pre-stop of %s are enough",
			q.DeregistrationDelay, whole(q.withMargin(q.Propagation))))
	}
	shown := q.Response.Slowest.Round(time.Millisecond)
	slowest := fmt.Sprintf("%s, the bound that was given", shown)
	switch {
	case q.Response.Samples > 0:
		slowest = fmt.Sprintf("%s, the slowest of %d measured, and the margin", shown, q.Response.Samples)
	case q.Response.Beyond > 0:
		slowest = fmt.Sprintf("%s, which %.3g %% of the responses exceed, and the margin; give max= if a timeout bounds them", shown, 100*q.Response.Beyond)
	case !q.Response.Bounded:
		slowest = fmt.Sprintf("%s, the longest of the distribution, and the margin", shown)
	}
	r = append(r, fmt.Sprintf("drain: a request that began at the last moment before it must be answered within it, or it fails though it was executed: %s; %s is the shortest with which none is cut off where resting connections are closed at once (searched)", slowest, found.Drain))
	if q.KeepaliveIdle > 0 {
		kept := Smallest(q.Traffic, KeepIdle, resolution)
		r = append(r, fmt.Sprintf("drain where resting connections are kept to their next request: that may come after the longest rest, %s, and then takes its time: %s (searched). To close them at once needs less, and loses the requests that meet the close: those of a POST are repeated by nobody", q.KeepaliveIdle, kept.Drain))
	}
	return append(r, fmt.Sprintf("grace: the pre-stop counts against it, so pre-stop + drain + %s to exit", graceMargin))
}

// balancer are the settings of the balancer in front, if pre-stop and drain of the
// slowest product end at end.
func (q Question) balancer(end time.Duration) []Setting {
	const page = "https://docs.aws.amazon.com/elasticloadbalancing/latest/network/edit-target-group-attributes.html"
	terminate := Setting{
		Name: "deregistration_delay.connection_termination.enabled", Value: "false", Page: page,
		Reason: "it cuts the clients' side when the delay is over, whatever is in flight, and leaves the gateway's side open: it ends no drain",
	}
	d := Setting{
		Name: "deregistration_delay.timeout_seconds", Value: fmt.Sprintf("%.0f", q.preStop().Seconds()), Page: page,
		Reason: "the same as the pre-stop: the target is not drained for longer than the gateway serves on, and new connections have ended before",
	}
	if q.Terminate {
		d.Value = fmt.Sprintf("%.0f", max(end+graceMargin, whole(q.DeregistrationDelay)).Seconds())
		d.Reason = "at its end connections are cut, so it must outlast pre-stop and drain of every gateway"
		terminate.Value, terminate.Reason = "true", "as asked; without it nothing is cut, and the delay can be as short as the pre-stop"
	}
	return []Setting{d, terminate}
}
