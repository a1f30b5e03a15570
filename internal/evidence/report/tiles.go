package report

import (
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
	if fast, ok := s.Endpoints[fastEndpoint]; ok {
		failing := goodTone
		if fast.OK < fast.Scheduled {
			failing = badTone
		}
		add("/"+fastEndpoint+" failed", percent(fast.FailedRatio), count(fast.Scheduled-fast.OK)+" of "+count(fast.Scheduled), failing)
		add("/"+fastEndpoint+" p50", rounded(fast.Response, fast.Response.P50), "p95 "+rounded(fast.Response, fast.Response.P95)+", p99 "+rounded(fast.Response, fast.Response.P99), "")
	}
	full := tone("")
	if s.Pool.WorkerLimit > 0 && s.Pool.MaxBusy >= s.Pool.WorkerLimit {
		full = badTone
	}
	add("Workers busy at most", count(s.Pool.MaxBusy), "limit "+workerLimit(s.Pool)+"; "+count(s.Pool.MaxQueued)+" queued at most", full)
	cpu := ""
	if limit := r.cpuLimit(); limit > 0 {
		cpu = "of " + count(limit) + " %, mean under load"
	}
	add("CPU of the victim", inUnit(s.Victim.CPUPercentMean, "percent"), cpu, "")
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
