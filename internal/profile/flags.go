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
	Defence   string // names of defences that take the place of the profile's own; none given keeps them
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
	f.bindConnections(fs)
}

// bindConnections registers -defence and one flag per setting of Connections.
func (f *Flags) bindConnections(fs *flag.FlagSet) {
	fs.StringVar(&f.Defence, "defence", "", "`names` of defences against dead connections, instead of the profile's: "+strings.Join(DefenceNames(), ", "))
	named := func(name, usage string, set func(*Connections, string)) {
		fs.Func(name, usage+" (default: the profile's)", func(s string) error {
			f.add(name, s, func(p *Profile) { set(&p.Connections, s) })
			return nil
		})
	}
	named("client", "`client` that calls the upstream: fasthttp or net/http", func(c *Connections, s string) { c.Client = Client(s) })
	f.duration(fs, "response-timeout", "bound on the wait for one attempt's answer; 0 is -timeout alone",
		func(p *Profile) *time.Duration { return &p.Connections.ResponseTimeout })
	fs.BoolFunc("stale-check", "look at a kept connection before it is used: peek (also if no value is given), tcp_info, read or off (default: the profile's)", func(s string) error {
		check := StaleCheck(s)
		switch s {
		case "true":
			check = StalePeek
		case "false":
			check = StaleOff
		}
		f.add("stale-check", s, func(p *Profile) { p.Connections.StaleCheck = check })
		return nil
	})
	f.duration(fs, "stale-check-after", "do not look at connections that rested for less",
		func(p *Profile) *time.Duration { return &p.Connections.StaleCheckAfter })
	f.duration(fs, "max-idle-age", "do not use a connection that rested for longer; 0 is no bound",
		func(p *Profile) *time.Duration { return &p.Connections.MaxIdleAge })
	f.duration(fs, "evict-idle", "close connections that have rested for so long, in the background; 0 keeps them",
		func(p *Profile) *time.Duration { return &p.Connections.EvictIdle })
	f.boolean(fs, "evict-not-running", "have -evict-idle set and nobody who does it",
		func(p *Profile) *bool { return &p.Connections.EvictNotRunning })
	fs.Func("keepalive", "TCP keepalive as `IDLE/INTERVAL/COUNT`, such as 15s/15s/9, or off (default: the profile's)", func(s string) error {
		k, err := ParseKeepAlive(s)
		if err == nil {
			f.add("keepalive", s, func(p *Profile) { p.Connections.KeepAlive = k })
		}
		return err
	})
	f.duration(fs, "user-timeout", "TCP_USER_TIMEOUT: how long written data may stay unacknowledged; 0 is the kernel's own",
		func(p *Profile) *time.Duration { return &p.Connections.UserTimeout })
	named("retry", "`policy` of retries: off, library, stale, idempotent, idempotency-key or all", func(c *Connections, s string) { c.Retry = Retry(s) })
	f.integer(fs, "retry-attempts", "how often a call is sent at most; 0 is the policy's own number", func(p *Profile) *int { return &p.Connections.RetryAttempts })
	f.boolean(fs, "retry-fresh", "make the last attempt on a connection of its own", func(p *Profile) *bool { return &p.Connections.RetryFresh })
}

// Profile resolves the name, puts the given settings over it and validates the
// result, in scenario time.
func (f *Flags) Profile() (Profile, error) {
	p, err := Lookup(f.Name)
	if err != nil {
		return Profile{}, err
	}
	if f.Defence != "" {
		if p.Connections, err = p.Connections.Defend(f.Defence); err != nil {
			return Profile{}, err
		}
	}
	for _, o := range f.overrides {
		o.apply(&p)
	}
	return p, p.Validate()
}

// Args spells the same choice as command-line arguments, for a child process.
func (f *Flags) Args() []string {
	args := []string{"-profile=" + f.Name}
	if f.Defence != "" {
		args = append(args, "-defence="+f.Defence)
	}
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
