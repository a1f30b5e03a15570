package merge

import "chokepoint/internal/result"

// warmUp is what became of the warm-ups of all inputs together; nil if they had
// none, or not all the same.
func warmUp(inputs []input) *result.Warmup {
	first := inputs[0].load.Warmup
	if first == nil {
		return nil
	}
	sum := &result.Warmup{Seconds: first.Seconds, Endpoints: map[string]result.WarmupEndpoint{}}
	for _, in := range inputs {
		w := in.load.Warmup
		if w == nil || w.Seconds != first.Seconds {
			return nil
		}
		for name, e := range w.Endpoints {
			s := sum.Endpoints[name]
			s.Scheduled += e.Scheduled
			s.Started += e.Started
			s.Dropped += e.Dropped
			s.OK += e.OK
			s.Failed += e.Failed
			s.Overhang += e.Overhang
			sum.Endpoints[name] = s
		}
	}
	return sum
}
