package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"chokepoint/internal/load/engine"
	"chokepoint/internal/load/metrics"
)

// watchers are told of every second of a run when it is over.
type watchers struct {
	out      *outputs
	progress *progress       // nil if quiet
	metrics  *metrics.Server // nil if not asked for
}

// start makes those that the options ask for.
func (w *watchers) start(o options, needs engine.Needs, out *outputs, stderr io.Writer) error {
	w.out = out
	notes := append([]string{fmt.Sprintf("the plan %v", needs)}, needs.Warnings()...)
	if wait := time.Until(o.plan.StartAt); wait > time.Second {
		notes = append(notes, fmt.Sprintf("the first arrival is due at %s, in %v", o.plan.StartAt.Format(time.RFC3339), wait.Round(time.Second)))
	}
	if o.plan.Warmup > 0 {
		notes = append(notes, fmt.Sprintf("a warm-up of %v comes first, and is in no figure", o.plan.Warmup))
	}
	if o.metrics != "" {
		var err error
		if w.metrics, err = metrics.Listen(o.metrics, endpointNames(o.plan)); err != nil {
			return fmt.Errorf("-metrics: %w", err)
		}
		notes = append(notes, fmt.Sprintf("metrics at http://%s/metrics", w.metrics.Address()))
	}
	if !o.quiet {
		w.progress = showProgress(newScreen(stderr), notes)
	}
	return nil
}

// interrupted says what a signal has begun: whoever takes it for hung and sends
// another loses the result.
func (w *watchers) interrupted() {
	if w.progress != nil {
		w.progress.note(fmt.Sprintf("interrupted: no more is sent, and answers are waited for, %v at most; a second signal ends it at once, without a result", engine.CancelGrace))
	}
}

func (w *watchers) second(s engine.Second) {
	w.out.second(s)
	if w.progress != nil {
		w.progress.second(s)
	}
	if w.metrics != nil {
		w.metrics.Second(s)
	}
}

// endProgress leaves the terminal to the summary.
func (w *watchers) endProgress() {
	if w.progress != nil {
		w.progress.end()
	}
}

// end waits for a last scrape, no longer than linger and ctx, and then serves no
// more.
func (w *watchers) end(ctx context.Context, linger time.Duration) {
	if w.metrics != nil {
		w.metrics.Linger(ctx, linger)
		w.metrics.Close()
	}
}
