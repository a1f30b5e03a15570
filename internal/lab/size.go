package lab

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/evidence/sizing"
	"chokepoint/internal/lab/scenario"
	"chokepoint/internal/result"
)

// SizeRuns are the runs that validate an advice. Durations are scenario time.
type SizeRuns struct {
	Question sizing.Question
	Advice   *sizing.Advice
	Duration time.Duration // of the load on the healthy upstream
	// Args are flags of the exhaustion scenario that each run has besides: scale,
	// folders, the database.
	Args []string
}

// outageTimes is how many timeouts an outage lasts: workers held are at their most
// after one.
const (
	outageTimes  = 8
	leastOutage  = 10 * time.Second
	sizeWait     = 10 * time.Second // for recovery
	sizeBaseline = 3 * time.Second
	sizePatience = 5 * time.Second // of the clients, beyond timeout and permit wait
)

// ValidateSize runs the recommended pair and its neighbours, each on the healthy
// upstream and in an outage, and adds to the advice what they showed. When ctx ends
// in the middle, what ran before is in the advice, and the error is its cause.
func (l *Lab) ValidateSize(ctx context.Context, r SizeRuns) error {
	var runs []sizing.ValidatedRun
	defer func() { r.Advice.Validate(runs) }()
	for _, pair := range r.Advice.Neighbours() {
		for _, load := range []string{sizing.LoadHealthy, sizing.LoadOutage} {
			settings, err := r.settings(pair, load)
			if err != nil {
				return err
			}
			l.progress("%v and %d permits, %s upstream", pair.Timeout, pair.Permits, load)
			dir, summary, err := l.Exhaustion(ctx, settings, 1)
			if err != nil {
				return err
			}
			runs = append(runs, r.Advice.RunOf(pair, load, dir, summary))
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// Check refuses what no run can have, whatever the advice will be. It looks at neither
// Advice nor the latency, whose file may not be written yet.
func (r *SizeRuns) Check() error {
	if r.Duration <= 0 { // the scenario would speak of the moments of dumps, which are set here
		return fmt.Errorf("-duration %v: want more than 0s", r.Duration)
	}
	whatever := *r
	whatever.Question.Latency = sizing.Latency{}
	_, err := whatever.settings(sizing.Pair{Timeout: time.Second, Permits: 1}, sizing.LoadHealthy)
	return err
}

// Settings checks that the runs could be made, before the first of them.
func (r *SizeRuns) Settings() (scenario.Settings, error) {
	return r.settings(r.Advice.Recommended.Pair(), sizing.LoadHealthy)
}

// settings are those of one run, from the command line that a user would give.
func (r *SizeRuns) settings(pair sizing.Pair, load string) (scenario.Settings, error) {
	q := &r.Question
	client := pair.Timeout + q.PermitWait + sizePatience
	duration := r.Duration
	if load == sizing.LoadOutage {
		duration = min(duration, max(leastOutage, outageTimes*(pair.Timeout+q.PermitWait)))
	}
	arrivals := "constant"
	if q.Poisson {
		arrivals = "poisson"
	}
	args := append([]string{
		"-profile=fixed", "-timeout=" + pair.Timeout.String(), "-permits=" + strconv.Itoa(pair.Permits), "-permit-wait=" + q.PermitWait.String(),
		"-delay=" + q.Latency.String(), "-arrivals=" + arrivals, "-seed=" + strconv.FormatUint(q.Seed, 10),
		"-upstream-rate=" + q.Rate.String(), "-fast-rate=" + q.OtherRate.String(),
		"-upstream-timeout=" + client.String(), "-fast-timeout=" + client.String(),
		"-min-workers=" + strconv.Itoa(min(10, q.Workers)), "-max-workers=" + strconv.Itoa(q.Workers),
		"-duration=" + duration.String(), "-dump-at=" + (duration / 2).String(),
		"-baseline-duration=" + sizeBaseline.String(), "-recovery-wait=" + sizeWait.String(),
	}, r.Args...)
	if load == sizing.LoadOutage {
		args = append(args, "-fault=hang")
	}
	var s scenario.Settings
	flags := flag.NewFlagSet("lab run exhaustion", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	s.Bind(flags)
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	return s, s.Validate()
}

// KeepLatency makes a measured latency one that the stub can be told: a file of its
// points in the results folder, which stays, so that a run can be repeated. Its
// name is that of its content.
func KeepLatency(l *sizing.Latency, resultsDir string) error {
	if l.Points == nil {
		return nil
	}
	var b strings.Builder
	for _, p := range l.Points {
		fmt.Fprintln(&b, p)
	}
	text := []byte(b.String())
	sum := sha256.Sum256(text)
	path, err := filepath.Abs(filepath.Join(resultsDir, fmt.Sprintf("latency-%x.txt", sum[:6])))
	if err != nil {
		return err
	}
	if err := result.WriteFile(path, text); err != nil {
		return err
	}
	return l.DrawFrom(path)
}
