// Package plan reads what a load is to be: from flags, from the environment and
// from a YAML file, by one set of rules. It ends in an engine.Config.
//
// A key of the file is the name of the flag that sets the same thing, and its
// value is read by that flag. A flag wins over the environment, and both over the
// file. What the file says of an endpoint is the description that -endpoint
// writes in one line, and -endpoint over a file changes the keys that it names.
//
// The package refuses to guess: an unknown key, a key given twice and two keys
// that contradict each other are faults, each with its place and its remedy. It
// sends nothing, and it shows neither a password nor the value of a header.
package plan

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"chokepoint/internal/cli"
	"chokepoint/internal/load/arrival"
	"chokepoint/internal/load/engine"
	"chokepoint/internal/load/threshold"
)

// Plan is a load that can be played.
type Plan struct {
	Config     engine.Config // with its defaults, and valid
	Thresholds []threshold.Threshold
	// File is the file that the plan came from; empty if there is none.
	File string
}

// builder makes a plan of what is known of it.
type builder struct {
	flags  *Flags
	file   document
	given  map[string]bool // the flags that were set, not by the file
	config engine.Config
	names  []string // of all endpoints, also those that -only leaves out
	places []string // where the file has each endpoint of config; empty if it has not
	faults Faults
	// unread are the flags that the file has a text for which is none of theirs:
	// nothing follows from what they are now.
	unread map[string]bool
	// misread says that there are keys that could not be read: what is missing may be
	// among them.
	misread bool
}

// Plan makes the plan of the flags, which must be parsed, of the file that -plan
// names and of urls, the arguments after the flags. An error is of type Faults.
func (f *Flags) Plan(urls []string) (Plan, error) {
	b := builder{flags: f, given: cli.Given(f.fs), unread: map[string]bool{}}
	if f.file != "" {
		b.file, b.faults = readDocument(f.file)
		b.misread = len(b.faults) > 0
		b.applySettings()
	}
	b.config = f.config
	b.setArrivals()
	b.setConnections()
	b.setEndpoints(urls)
	b.standIn()
	b.setCount()
	b.checkZeros()
	b.config = b.config.WithDefaults()
	b.validate()
	if len(b.faults) > 0 {
		b.faults.sort()
		return Plan{}, b.faults
	}
	return Plan{Config: b.config, Thresholds: f.thresholds, File: f.file}, nil
}

// applySettings sets the flags that the file has a value for.
func (b *builder) applySettings() {
	// A flag of several values, as -resolve, is set once for each by the file.
	for _, s := range b.file.settings {
		if b.given[s.flag] || b.yields(s) {
			continue
		}
		if err := b.flags.fs.Set(s.flag, s.text); err != nil {
			// What several flags share names its kind and value itself.
			if what := fmt.Sprintf("%s %q: ", s.key, s.text); !strings.HasPrefix(err.Error(), what) {
				err = fmt.Errorf("%s%w", what, err)
			}
			b.faults.add(s.at, err)
			b.unread[s.flag] = true
		}
	}
}

// standIn puts something good in the place of what is at fault already, so that the
// rest of the plan can be looked at: what follows from a fault is not a second one.
func (b *builder) standIn() {
	if len(b.faults) == 0 {
		return
	}
	for i := range b.config.Endpoints {
		e := &b.config.Endpoints[i]
		if e.Rate == 0 && b.config.Pattern == nil && b.config.Closed == 0 {
			e.Rate = 1
		}
		if e.URL == "" {
			e.URL = "http://127.0.0.1/"
		}
	}
	if b.unread[flagMaxLag] {
		b.config.Quantum = 0
	}
	if b.unread[flagArrivals] {
		b.config.Arrivals = engine.Constant
	}
}

// contradictions are the flags that take the place of something in the file that
// would contradict them.
var contradictions = []struct {
	flag string
	file []string
}{
	{flagCount, []string{flagDuration}},
	{flagDuration, []string{flagCount}},
	{flagClosed, []string{flagArrivals, flagQuantum, flagCount}},
	{flagRate, []string{flagClosed}},
	{flagInsecure, []string{flagCACert}},
	{flagCACert, []string{flagInsecure}},
	{flagKeepAlive, []string{flagMaxAge, flagMaxRequests}},
	{flagMaxAge, []string{flagKeepAlive}},
	{flagMaxRequests, []string{flagKeepAlive}},
	{flagCert, []string{flagKey}},
}

// yields says whether a setting of the file gives way to a flag that contradicts
// it.
func (b *builder) yields(s setting) bool {
	for _, c := range contradictions {
		if b.given[c.flag] && slices.Contains(c.file, s.flag) {
			return true
		}
	}
	switch {
	case b.given[flagRate] && s.flag == flagArrivals:
		return isPattern(s.text) // it has rates of its own
	case !b.given[flagArrivals]:
		return false
	case !isPattern(b.flags.arrivals):
		return s.flag == flagClosed
	}
	return s.flag == flagClosed || s.flag == flagCount || s.flag == flagDuration && ownLength(b.flags.arrivals)
}

// checkZeros refuses a zero that would be taken for the default.
func (b *builder) checkZeros() {
	given := cli.Given(b.flags.fs)
	if given[flagClosed] && b.config.Closed == 0 {
		b.faults.add(b.file.place(flagClosed), errors.New("a closed model with 0 workers; give one or more"))
	}
	if given[flagMaxLag] && b.config.MaxLag == 0 {
		b.faults.add(b.file.place(flagMaxLag), fmt.Errorf("maximum lag 0s must be above zero: no generator is that punctual"))
	}
}

// validate finds what is wrong with the plan as a whole, and with each endpoint.
func (b *builder) validate() {
	if err := b.recorded(b.names); err != nil {
		b.faults.add(b.file.place(flagArrivals), err)
	}
	if len(b.config.Endpoints) == 0 && len(b.faults) > 0 {
		return // it is not known what there would be
	}
	names := make([]string, len(b.config.Endpoints))
	for i, e := range b.config.Endpoints {
		names[i] = e.Name
	}
	for _, t := range b.flags.thresholds {
		if err := threshold.CheckEndpoints([]threshold.Threshold{t}, names); err != nil {
			b.faults.add(b.file.placeOf(flagThreshold, t.String()), err)
		}
	}
	for _, err := range b.config.SettingFaults() {
		b.faults.add(b.file.mentioned(err.Error()), err)
	}
	for i, e := range b.config.Endpoints {
		if e.Name == "" {
			continue // said already
		}
		for _, err := range b.config.EndpointFaults(i) {
			b.faults.add(b.placeOf(i), err)
		}
	}
}

// recorded checks that a recording has no endpoint that the plan lacks.
func (b *builder) recorded(names []string) error {
	recording, ok := b.config.Pattern.(*arrival.Recording)
	if !ok {
		return nil
	}
	for _, name := range recording.Endpoints() {
		if !slices.Contains(names, name) {
			return fmt.Errorf("the recording has arrivals of endpoint %q, and the plan has only %s; give -endpoint name=%s,url=URL", name, strings.Join(names, ", "), name)
		}
	}
	return nil
}

// placeOf is where the file says what endpoint i is; empty if the file does not.
func (b *builder) placeOf(i int) string {
	if at := b.places[i]; at != "" || len(b.file.endpoints) > 0 {
		return at
	}
	return b.file.place("url")
}

// Register adds the flags of a plan to fs.
func Register(fs *flag.FlagSet) *Flags {
	f := &Flags{fs: fs}
	f.addLoad()
	f.addRequests()
	f.addConnections()
	f.addAliases()
	return f
}
