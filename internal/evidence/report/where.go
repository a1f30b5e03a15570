package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"chokepoint/internal/evidence/page"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/result"
)

// whereBlocks shows where the workers stood at each dump: as bars that lead to the
// stacks of each place, and as a table.
func whereBlocks(r runFolder) []block {
	dumps := r.summary.Dumps
	if len(dumps) == 0 {
		return noDumps()
	}
	columns := takenPlaces(dumps)
	places := table{columns: []column{words("point")}}
	for _, where := range columns {
		places.columns = append(places.columns, numbers(where))
	}
	groups := table{columns: []column{words("point"), numbers(membersOf(dumps)), words("where"), words("state"), words("frame")}}
	for _, d := range dumps {
		row := []text{code(d.Point)}
		for _, where := range columns {
			row = append(row, plain(count(d.Where[where])))
		}
		places.rows = append(places.rows, row)
		for _, g := range largest(d.Groups) {
			groups.rows = append(groups.rows, []text{code(d.Point), plain(count(g.Count)), plain(g.Where), plain(g.State), code(g.Frame)})
		}
	}
	b := whereBars(r, columns, places)
	if len(groups.rows) > 0 {
		b.standIn = append(b.standIn, paragraph{plain(fmt.Sprintf("The largest groups of %s, at most %d of each dump:", membersOf(dumps), topGroups))}, groups)
	}
	b.standIn = append(b.standIn, exampleBlocks(dumps)...)
	return slices.Concat([]block{b}, otherBlocks(dumps), stackBlocks(r))
}

// otherBlocks name what most stand in where no rule has a word for it.
func otherBlocks(dumps []result.Dump) []block {
	var items []text
	for _, d := range dumps {
		item := join(code(d.Point), plain(fmt.Sprintf(": %s of %s in ", count(d.Where[stacks.Other]), plural(d.Goroutines, memberOf(d)))), code(stacks.Other))
		largest := stacks.LargestOther(d)
		for i, g := range largest {
			separator := ", "
			if i == 0 {
				separator = "; the largest: "
			}
			item = join(item, plain(separator+count(g.Count)+" in "), code(cmp.Or(g.Frame, none)))
			if g.State != "" {
				item = join(item, plain(" ("+g.State+")"))
			}
		}
		if len(largest) > 0 {
			items = append(items, item)
		}
	}
	if items == nil {
		return nil
	}
	return []block{paragraph{plain(fmt.Sprintf("Most %s stand where no rule has a word for it. What holds the service may be among these:", membersOf(dumps)))}, list{items}}
}

// takenPlaces lists the places in which any dump has a worker.
func takenPlaces(dumps []result.Dump) []string {
	taken := map[string]int{}
	for _, d := range dumps {
		addTaken(taken, d.Where)
	}
	return whereColumns(taken)
}

func whereBars(r runFolder, columns []string, places table) bars {
	who := whoStoodIn(r.summary)
	b := bars{
		caption: plain(who.caption() + " A part of a bar leads to the stacks of its place."),
		standIn: []block{paragraph{plain(strings.TrimSuffix(who.caption(), ".") + "; places that are never taken are left out:")}, places},
		numbers: []block{places},
	}
	full := 0
	if who.workers {
		full = r.summary.Pool.WorkerLimit
	}
	for _, d := range r.summary.Dumps {
		full = max(full, who.of(d))
	}
	for _, where := range columns {
		b.keys = append(b.keys, barKey{where, placeColour(where)})
	}
	for i, d := range r.summary.Dumps {
		row := barRow{name: join(code(d.Point), plain(" "+instant(d.AtS))), full: float64(full),
			end: join(plain(who.total(d)+" · "), rawFileAs("raw dump", r.dir, d.File))}
		for _, where := range columns {
			n := d.Where[where]
			part := barPart{label: fmt.Sprintf("%s of %s in %s", count(n), count(who.of(d)), where), colour: placeColour(where), value: float64(n)}
			if hasStacks(d, where) {
				part.href = "#" + stacksAnchor(i, where)
			}
			row.parts = append(row.parts, part)
		}
		b.rows = append(b.rows, row)
	}
	return b
}

// placeColour is the colour of a place; one that this version does not know has that
// of "other".
func placeColour(where string) page.Colour {
	if slices.Contains(stacks.Wheres(), where) {
		return page.Colour(where)
	}
	return stacks.Other
}

func stacksAnchor(dump int, where string) string { return fmt.Sprintf("dump-%d-%s", dump+1, where) }

func hasStacks(d result.Dump, where string) bool {
	return slices.ContainsFunc(d.Groups, func(g result.Group) bool { return g.Where == where })
}

// stackBlocks are all groups of all dumps, each with the stack of one of its members.
func stackBlocks(r runFolder) []block {
	var all []block
	for i, d := range r.summary.Dumps {
		if len(d.Groups) == 0 {
			continue
		}
		one := details{summary: join(code(d.Point), plain(fmt.Sprintf(": %s in %s", plural(d.Goroutines, memberOf(d)), plural(len(d.Groups), "group")))),
			blocks: []block{sentence(plain("One member of each group, as printed; the whole dump is "), rawFile(r.dir, ".", d.File), plain("."))}}
		for _, where := range placesOf(d.Groups) {
			place := details{anchor: stacksAnchor(i, where)}
			total := 0
			for _, g := range d.Groups {
				if g.Where != where {
					continue
				}
				total += g.Count
				place.blocks = append(place.blocks, sentence(strong(count(g.Count)), plain(" "+g.State+" in "), code(g.Frame)))
				if g.Stack != "" {
					place.blocks = append(place.blocks, listing{strings.Split(strings.TrimRight(g.Stack, "\r\n"), "\n")})
				}
			}
			place.summary = join(code(where), plain(": "+plural(total, memberOf(d))))
			one.blocks = append(one.blocks, place)
		}
		all = append(all, one)
	}
	if all == nil {
		return nil
	}
	return []block{unabridged{append([]block{paragraph{plain("Every group of goroutines, with the stack of one:")}}, all...)}}
}

// placesOf lists the places of groups in the order of reports.
func placesOf(groups []result.Group) []string {
	counts := map[string]int{}
	queued := false
	for _, g := range groups {
		counts[g.Where]++
		queued = queued || g.Where == stacks.Queued
	}
	places := whereColumns(counts)
	if queued {
		places = append(places, stacks.Queued)
	}
	return places
}

// rawFileAs is rawFile under another label, where the file is there.
func rawFileAs(label, dir, name string) text {
	raw := rawFile(dir, ".", name)
	if raw[0].href != "" {
		raw[0].text = label
	}
	return raw
}
