package profile

import (
	"flag"
	"strconv"
	"strings"
	"time"
)

// Flags is a profile chosen by name with single settings put over it. The
// victim and the lab share it, so that a setting has one name in both.
type Flags struct {
	Name      string
	overrides []override
}

type override struct {
	name, value string
	apply       func(*Profile)
}

// Bind registers -profile and one flag per setting on fs. A setting that is
// not given keeps the profile's own value.
func (f *Flags) Bind(fs *flag.FlagSet) {
	fs.StringVar(&f.Name, "profile", Default, "protections of the victim: "+strings.Join(Names(), ", "))
	f.duration(fs, "timeout", "bound on one call to the upstream; 0 waits for ever", func(p *Profile) *time.Duration { return &p.Timeout })
	f.integer(fs, "permits", "calls to the upstream in flight; 0 is no bulkhead", func(p *Profile) *int { return &p.Permits })
	f.duration(fs, "permit-wait", "longest wait for a permit", func(p *Profile) *time.Duration { return &p.PermitWait })
	f.integer(fs, "breaker-failures", "consecutive failures that open the breaker; 0 is no breaker", func(p *Profile) *int { return &p.BreakerFailures })
	f.duration(fs, "breaker-open-for", "how long the breaker stays open", func(p *Profile) *time.Duration { return &p.BreakerOpenFor })
	f.integer(fs, "max-queue", "requests that may wait for a worker; 0 is unbounded", func(p *Profile) *int { return &p.MaxQueue })
	f.duration(fs, "max-queue-wait", "longest wait for a worker; 0 is unbounded", func(p *Profile) *time.Duration { return &p.MaxQueueWait })
	f.boolean(fs, "skip-abandoned", "drop a request whose client has gone", func(p *Profile) *bool { return &p.SkipAbandoned })
	f.boolean(fs, "unbounded", "a goroutine per request instead of a pool", func(p *Profile) *bool { return &p.Unbounded })
}

// Profile resolves the name, puts the given settings over it and validates the
// result, in scenario time.
func (f *Flags) Profile() (Profile, error) {
	p, err := Lookup(f.Name)
	if err != nil {
		return Profile{}, err
	}
	for _, o := range f.overrides {
		o.apply(&p)
	}
	return p, p.Validate()
}

// Args spells the same choice as command-line arguments, for a child process.
func (f *Flags) Args() []string {
	args := []string{"-profile=" + f.Name}
	for _, o := range f.overrides {
		args = append(args, "-"+o.name+"="+o.value)
	}
	return args
}

func (f *Flags) add(name, value string, apply func(*Profile)) {
	f.overrides = append(f.overrides, override{name, value, apply})
}

func (f *Flags) duration(fs *flag.FlagSet, name, usage string, field func(*Profile) *time.Duration) {
	fs.Func(name, usage+" (a `duration`; default: the profile's)", func(s string) error {
		v, err := time.ParseDuration(s)
		if err == nil {
			f.add(name, s, func(p *Profile) { *field(p) = v })
		}
		return err
	})
}

func (f *Flags) integer(fs *flag.FlagSet, name, usage string, field func(*Profile) *int) {
	fs.Func(name, usage+" (a `number`; default: the profile's)", func(s string) error {
		v, err := strconv.Atoi(s)
		if err == nil {
			f.add(name, s, func(p *Profile) { *field(p) = v })
		}
		return err
	})
}

func (f *Flags) boolean(fs *flag.FlagSet, name, usage string, field func(*Profile) *bool) {
	fs.BoolFunc(name, usage+" (default: the profile's)", func(s string) error {
		v, err := strconv.ParseBool(s)
		if err == nil {
			f.add(name, s, func(p *Profile) { *field(p) = v })
		}
		return err
	})
}
