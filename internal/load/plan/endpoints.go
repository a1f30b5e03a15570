package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"chokepoint/internal/load/engine"
	"chokepoint/internal/load/threshold"
)

// urlEndpoint is the name of the endpoint that is given by its URL alone.
const urlEndpoint = "url"

// setEndpoints puts the endpoints together. From the weakest to the strongest:
// what the file says of all, what it says of each, the flags of all, and
// -endpoint.
func (b *builder) setEndpoints(urls []string) {
	b.faults = append(b.faults, b.flags.syntax...)
	b.leaveOut()
	all := b.fromFile()
	ofFile := len(all)
	for i := range all {
		all[i] = all[i].under(b.flags.every)
	}
	// What an endpoint has that the file does not know.
	base := newDescription("").under(b.file.every).under(b.flags.every)
	for _, over := range b.flags.endpoints {
		i := slices.IndexFunc(all[:ofFile], func(d description) bool { return d.has("name") && d.name() == over.name() })
		if i >= 0 {
			all[i] = all[i].under(over)
		} else {
			all = append(all, base.under(over))
		}
	}
	if len(urls) > 0 {
		all = b.withURL(all, base, urls)
	}
	b.checkRate(all)
	all = b.chosen(all)
	for _, d := range all {
		b.config.Endpoints = append(b.config.Endpoints, d.endpoint(&b.faults))
		b.places = append(b.places, d.at)
	}
	if b.config.Pattern != nil || b.config.Closed != 0 || b.unread[flagArrivals] || b.unread[flagClosed] {
		return
	}
	for i, e := range b.config.Endpoints {
		if e.Rate == 0 && !all[i].has(flagRate) && !all[i].faulty && !b.misread {
			b.faults.add(all[i].at, fmt.Errorf("endpoint %s: rate is missing; give rate=20/s, or -rate 20/s with a URL, or -closed 10 for 10 workers that send as fast as they are answered", e.Name))
		}
	}
}

// chosen are the endpoints that -only names, and with them the thresholds that are
// of one of them or of all together; without -only it is everything.
func (b *builder) chosen(all []description) []description {
	for _, d := range all {
		b.names = append(b.names, d.name())
	}
	if b.flags.only == nil {
		return all
	}
	for _, name := range b.flags.only {
		if !slices.Contains(b.names, name) {
			b.faults.add("", fmt.Errorf("-only %q: there is no such endpoint, only %s", name, strings.Join(b.names, ", ")))
		}
	}
	b.flags.thresholds = slices.DeleteFunc(b.flags.thresholds, func(t threshold.Threshold) bool {
		of := t.Endpoint()
		return slices.Contains(b.names, of) && !slices.Contains(b.flags.only, of)
	})
	return slices.DeleteFunc(all, func(d description) bool { return !slices.Contains(b.flags.only, d.name()) })
}

// leaveOut takes out of the file what contradicts the flags.
func (b *builder) leaveOut() {
	for _, d := range append(slices.Clone(b.file.endpoints), b.file.every) {
		if b.given[flagClosed] || b.given[flagArrivals] && b.config.Pattern != nil {
			delete(d.texts, flagRate)
		}
		if b.given[flagClosed] {
			delete(d.texts, "workers")
		}
	}
}

// fromFile are the endpoints of the file: those of the list, or the one that it
// gives a URL for.
func (b *builder) fromFile() []description {
	var all []description
	for _, d := range b.file.endpoints {
		merged := b.file.every.under(d)
		merged.at = d.at
		all = append(all, merged)
	}
	if len(all) == 0 && b.file.every.has("url") {
		all = append(all, b.file.every.under(named(urlEndpoint)))
	}
	return all
}

// named is an endpoint of which only the name is known.
func named(name string) description {
	d := newDescription("")
	d.texts["name"] = []datum{{text: name}}
	return d
}

// withURL adds the URL after the flags, or gives it to the one endpoint of the
// file.
func (b *builder) withURL(all []description, base description, urls []string) []description {
	before := len(b.faults)
	switch {
	case len(urls) > 1:
		b.faults.add("", fmt.Errorf("one URL is enough, got %d arguments; flags go before it, and more URLs are given with -endpoint", len(urls)))
	case !strings.Contains(urls[0], "://"):
		b.faults.add("", fmt.Errorf("%q is neither a URL, which starts with http:// or https://, nor a command (plan, report, diff); the file of a plan goes after -plan", engine.Redacted(urls[0])))
	}
	switch {
	case len(b.flags.endpoints) > 0:
		b.faults.add("", errors.New("give a URL or -endpoint, not both"))
		return all
	case len(all) > 1:
		b.faults.add("", fmt.Errorf("a URL is of one endpoint, and the plan has %d; give -endpoint name=%s,url=URL", len(all), all[0].name()))
		return all
	case len(all) == 0:
		all = append(all, base.under(named(urlEndpoint)))
	}
	if len(b.faults) > before {
		// Whatever it was meant to be, nothing follows from it.
		all[0].faulty = true
		return all
	}
	all[0].texts["url"] = []datum{{text: urls[0]}}
	return all
}

// checkRate refuses flags that nothing would take, or that several endpoints
// would: that is never meant.
func (b *builder) checkRate(all []description) {
	switch every := b.flags.every; {
	case b.file.every.has(flagRate) && len(b.flags.endpoints) > 0:
		b.faults.add(b.file.place(flagRate), errors.New("rate is of one endpoint, and there is an -endpoint too; write it into that"))
	case len(all) == 0 && len(b.flags.syntax) == 0:
		for _, k := range endpointKeys {
			if every.has(k.name) {
				b.faults.add("", fmt.Errorf("-%s belongs to a URL, and none is given; give one after the flags", k.name))
				return
			}
		}
	case every.has(flagRate) && len(b.flags.endpoints) > 0:
		b.faults.add("", errors.New("-rate belongs to a URL, and none is given; write it into the -endpoint"))
	case every.has(flagRate) && len(all) > 1:
		b.faults.add("", fmt.Errorf("-rate is of one endpoint, and the plan has %d; give -endpoint name=%s,rate=20/s", len(all), all[0].name()))
	}
}
