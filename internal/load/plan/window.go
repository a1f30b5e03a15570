package plan

import (
	"fmt"
	"strings"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/load/arrival"
	"chokepoint/internal/load/engine"
)

// isPattern says whether arrivals have rates of their own.
func isPattern(arrivals string) bool {
	return arrivals != string(engine.Constant) && arrivals != string(engine.Poisson)
}

// ownLength says whether a pattern has a length of its own.
func ownLength(arrivals string) bool {
	return strings.HasPrefix(arrivals, arrival.KindSteps+":") || strings.HasPrefix(arrivals, arrival.KindReplay+":")
}

// setArrivals reads -arrivals. A pattern that has a length of its own is the
// duration.
func (b *builder) setArrivals() {
	text := b.flags.arrivals
	if !isPattern(text) {
		b.config.Arrivals = engine.Arrivals(text)
		return
	}
	at := b.file.place(flagArrivals)
	pattern, err := arrival.ParsePattern(text, b.config.Duration)
	if err != nil {
		b.unread[flagArrivals] = true
		b.faults.add(at, err)
		return
	}
	if length := pattern.Length(); cli.Given(b.flags.fs)[flagDuration] && length != b.config.Duration {
		b.unread[flagArrivals] = true
		b.faults.add(at, fmt.Errorf("arrivals %q last %v, and the duration is %v; leave the duration out", text, length, b.config.Duration))
		return
	}
	b.config.Pattern, b.config.Duration = pattern, pattern.Length()
}

// setCount makes the window as long as -count requests take.
func (b *builder) setCount() {
	n := b.flags.count
	if !cli.Given(b.flags.fs)[flagCount] || len(b.config.Endpoints) == 0 && len(b.faults) > 0 || b.unread[flagArrivals] || b.unread[flagClosed] {
		return
	}
	fault := func(format string, args ...any) {
		b.faults.add(b.file.place(flagCount), fmt.Errorf("count %d: "+format, append([]any{n}, args...)...))
	}
	switch {
	case n < 1:
		fault("give one or more")
	case cli.Given(b.flags.fs)[flagDuration]:
		fault("the duration is count / rate; leave the duration out")
	case len(b.config.Endpoints) != 1:
		fault("it is of one endpoint, and there are %d; give -duration", len(b.config.Endpoints))
	case b.config.Closed > 0:
		fault("a closed model sends as many as are answered; give -duration")
	case b.config.Pattern != nil:
		fault("%s arrivals have a count of their own; leave it out", b.config.Pattern.Kind())
	case b.config.Arrivals != engine.Constant:
		fault("of %s arrivals only the mean is known before; give -duration", b.config.Arrivals)
	default:
		rate := b.config.Endpoints[0].Rate
		if b.config.Duration = toDuration(float64(n) / rate.PerSecond()); rate.Count(b.config.Duration) != n {
			fault("no window at %v has exactly that many; give -duration", rate)
		}
	}
}

// toDuration is that many seconds, or the longest duration there is.
func toDuration(seconds float64) time.Duration {
	const longest = float64(1<<63 - 1<<10)
	return time.Duration(min(seconds*float64(time.Second), longest))
}
