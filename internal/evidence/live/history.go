package live

// maxHistory bounds the samples that are kept of a run: five minutes at 8 a
// second, about 0.4 MB on their way to a viewer.
const maxHistory = 2400

// history are the samples of a run, without the place of each worker. When it is
// full, each two become one, and from then on it takes in twice as many as one.
type history struct {
	samples []Sample
	stride  int // how many samples become one; 0 is 1
	pending int // samples in the last one
}

// add takes in a sample; it reports whether older ones have been thinned.
func (h *history) add(s Sample) (thinned bool) {
	s.Where = ""
	if h.pending > 0 {
		last := len(h.samples) - 1
		h.samples[last] = merged(h.samples[last], s)
	} else {
		if len(h.samples) == maxHistory {
			h.thin()
			thinned = true
		}
		h.samples = append(h.samples, s)
	}
	if h.pending++; h.pending >= max(h.stride, 1) {
		h.pending = 0
	}
	return thinned
}

// thin halves the samples.
func (h *history) thin() {
	half := h.samples[:0]
	for i := 0; i+1 < len(h.samples); i += 2 {
		half = append(half, merged(h.samples[i], h.samples[i+1]))
	}
	h.samples, h.stride = half, 2*max(h.stride, 1)
}

// merged is one sample for two: the state of the later one, but of what a reader
// looks for the peaks.
func merged(a, b Sample) Sample {
	m := b
	m.Busy, m.Queued, m.Permits = max(a.Busy, b.Busy), max(a.Queued, b.Queued), max(a.Permits, b.Permits)
	m.AcceptQueue = max(a.AcceptQueue, b.AcceptQueue)
	m.CPUPercent = max(a.CPUPercent, b.CPUPercent)
	m.Fast, m.Upstream = mergedAnswers(a.Fast, b.Fast), mergedAnswers(a.Upstream, b.Upstream)
	return m
}

func mergedAnswers(a, b Answers) Answers {
	m := b
	m.Count = a.Count + b.Count
	m.P50MS, m.MaxMS = max(a.P50MS, b.P50MS), max(a.MaxMS, b.MaxMS)
	m.Waiting = max(a.Waiting, b.Waiting)
	return m
}
