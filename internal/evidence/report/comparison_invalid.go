package report

import "path"

// invalidBlocks shows what each run counted, one by one, where no run is valid
// and there is nothing to condense.
func (c comparisonFolder) invalidBlocks() []block {
	counts := table{columns: []column{words("profile"), words("invalid run"), words("endpoint"), numbers("scheduled"), numbers("ok"), numbers("http_error"),
		numbers("timeout"), numbers("connect_error"), numbers("transport_error"), numbers("interrupted"), numbers("dropped"), numbers("failed")}}
	places := map[string]int{}
	for _, s := range c.summaries {
		if s != nil {
			for _, d := range s.Dumps {
				addTaken(places, d.Where)
			}
		}
	}
	dumps := table{columns: []column{words("profile"), words("invalid run"), words("point"), numbers("workers"), numbers("queued")}}
	for _, where := range whereColumns(places) {
		dumps.columns = append(dumps.columns, numbers(where))
	}
	dumps.columns = append(dumps.columns, words("raw text"))
	for i, s := range c.summaries {
		if s == nil {
			continue
		}
		r := c.Runs[i]
		run := plain(path.Base(r.Path))
		for _, name := range endpointNames(*s) {
			e := s.Endpoints[name]
			row := []text{code(r.Profile), run, endpoint(name)}
			for _, n := range []int{e.Scheduled, e.OK, e.HTTPError, e.Timeout, e.ConnectError, e.TransportError, e.Interrupted, e.Dropped} {
				row = append(row, plain(count(n)))
			}
			counts.rows = append(counts.rows, append(row, plain(percent(e.FailedRatio))))
		}
		for _, d := range s.Dumps {
			row := []text{code(r.Profile), run, code(d.Point), plain(count(d.Workers)), plain(count(d.Queued))}
			for _, where := range whereColumns(places) {
				row = append(row, plain(count(d.Where[where])))
			}
			dumps.rows = append(dumps.rows, append(row, rawFile(c.dir, r.Path, d.File)))
		}
	}
	blocks := []block{paragraph{plain("No run is valid, so that there is no median and nothing is compared.")}}
	if len(counts.rows) > 0 {
		blocks = append(blocks, paragraph{plain("How the scheduled requests of each invalid run ended:")}, counts)
	}
	if len(dumps.rows) > 0 {
		blocks = append(blocks, paragraph{plain("The dumps of the invalid runs, which show what they show all the same:")}, dumps)
	}
	return blocks
}

// addTaken adds the places that hold anything in counts to taken.
func addTaken(taken, counts map[string]int) {
	for where, n := range counts {
		if n > 0 {
			taken[where] += n
		}
	}
}
