package report

import (
	"fmt"
	"strings"

	"chokepoint/internal/result"
)

// runTiles are the figures of a run that a reader looks for first.
func runTiles(r runFolder) tiles {
	s := r.summary
	var t tiles
	add := func(label, value, note string, is tone) { t.tiles = append(t.tiles, tile{label, value, note, is}) }
	if s.Validity.Valid {
		add("May it be believed?", "yes", "the run is valid", goodTone)
	} else {
		add("May it be believed?", "no", "the reasons are below", badTone)
	}
	add("Verdict", outcomeInWords(s.Verdict.Outcome), "", outcomeTone(s.Verdict.Outcome))
	name := protected(s)
	if fast, ok := s.Endpoints[name]; ok {
		failing := goodTone
		if fast.OK < fast.Scheduled {
			failing = badTone
		}
		add("/"+name+" failed", percent(fast.FailedRatio), count(fast.Scheduled-fast.OK)+" of "+count(fast.Scheduled), failing)
		add("/"+name+" p50", rounded(fast.Response, fast.Response.P50), "p95 "+rounded(fast.Response, fast.Response.P95)+", p99 "+rounded(fast.Response, fast.Response.P99), "")
	}
	full := tone("")
	if s.Pool.WorkerLimit > 0 && s.Pool.MaxBusy >= s.Pool.WorkerLimit {
		full = badTone
	}
	if s.Knows(result.MetricBusy) {
		var notes []string
		if s.Knows(result.MetricLimit) {
			notes = append(notes, "limit "+workerLimit(s.Pool))
		}
		if s.Knows(result.MetricQueued) {
			notes = append(notes, count(s.Pool.MaxQueued)+" queued at most")
		}
		label := "Workers busy at most"
		if s.Knows(result.MetricLimit) && s.Pool.WorkerLimit == 0 {
			label = "In flight at most"
		}
		add(label, count(s.Pool.MaxBusy), strings.Join(notes, "; "), full)
	}
	cpu := ""
	if limit := r.cpuLimit(); limit > 0 {
		cpu = "of " + count(limit) + " %, mean under load"
	}
	if s.Knows(result.MetricCPU) {
		add(cpuTitle(s), inUnit(s.Victim.CPUPercentMean, "percent"), cpu, "")
	}
	return t
}

// cpuTitle says whose CPU it is.
func cpuTitle(s result.Summary) string {
	if s.Attached != nil {
		return "CPU of the service"
	}
	return "CPU of the victim"
}

// tiles say of each profile what became of /fast.
func (c comparisonFolder) tiles() tiles {
	var t tiles
	for _, p := range c.Profiles {
		failed := c.metrics[fastEndpoint+".failed_ratio"].Values[p]
		if failed.N == 0 {
			t.tiles = append(t.tiles, tile{p, none, "no valid run", warnTone})
			continue
		}
		is := goodTone
		if failed.Max > 0 {
			is = badTone
		}
		t.tiles = append(t.tiles, tile{p, percent(failed.Median), fmt.Sprintf("of /%s failed; %s busy and %s queued at most", fastEndpoint,
			decimal(c.metrics["pool.max_busy"].Values[p].Median), decimal(c.metrics["pool.max_queued"].Values[p].Median)), is})
	}
	return t
}

func outcomeTone(o result.Outcome) tone {
	switch o {
	case result.Protected:
		return goodTone
	case result.Reproduced, result.NotProtected, result.Invalid:
		return badTone
	case result.NotReproduced:
		return warnTone
	}
	return ""
}

// rounded prints seconds where there are some: a tile is for a glance.
func rounded(p result.Percentiles, ms float64) string {
	if p.Count > 0 && ms >= 1000 {
		return number(ms/1000, 1) + " s"
	}
	return timeOf(p, ms)
}
