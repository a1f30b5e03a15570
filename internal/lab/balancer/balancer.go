// Package balancer runs nginx and HAProxy as they come from the distribution: it
// finds one, writes its configuration, has the program itself check it, runs it in
// the network of a launcher (a host of package netlab, or this machine's own), and
// reads its logs.
//
// A configuration has two parts. The frame is the package's own: a process in the
// foreground, its user, its pid file, its temporary folders, its logs, HAProxy's
// runtime API. Everything that decides about a request is the caller's text, and can
// be a reader's own file. All that a balancer writes is in one folder, in files that
// begin with its name.
//
// The package refuses to guess: an address is where the caller puts it, a
// placeholder without a value is an error, and nothing that a balancer does by
// default is changed. It installs nothing, and it does not use a port below 1024 by
// itself.
package balancer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"chokepoint/internal/lab/installed"
	"chokepoint/internal/lab/proc"
)

const (
	startWait = 10 * time.Second      // until it listens; -t and -c take a fraction of that
	stopGrace = 5 * time.Second       // between SIGTERM and SIGKILL
	pollEvery = 10 * time.Millisecond // between two looks at what is waited for
)

// Kind is a program that balances.
type Kind string

// The kinds.
const (
	Nginx   Kind = "nginx"
	HAProxy Kind = "haproxy"
)

// program is how the distribution calls it.
func (k Kind) program() installed.Program {
	if k == HAProxy {
		return installed.HAProxy
	}
	return installed.Nginx
}

// Binary is a balancer of this machine.
type Binary struct {
	Kind    Kind
	Path    string
	Version string // such as 1.22.1
}

// Find finds a balancer. The error is one line; of one that is missing it says how to
// install it.
func Find(ctx context.Context, kind Kind) (Binary, error) {
	path, err := kind.program().Path()
	if err != nil {
		return Binary{}, err
	}
	version, err := kind.program().Version(ctx, path)
	return Binary{kind, path, version}, err
}

// Config is what the caller decides about a balancer.
type Config struct {
	// Global is put into nginx's main context, or HAProxy's global section: such as
	// "worker_shutdown_timeout 2s;" or "hard-stop-after 2s".
	Global string
	// Body is what stands within nginx's http { }, as a file in conf.d does, or what
	// comes after HAProxy's global section.
	Body string
	// Values are what the placeholders of both are replaced by: @WAS1@ by that of
	// "WAS1".
	Values map[string]string
}

// placeholder is what a configuration has in the place of a value.
var placeholder = regexp.MustCompile(`@[A-Z][A-Z0-9_]*@`)

// fill puts the values in. The error names a placeholder that has none.
func (c Config) fill(text string) (string, error) {
	var unknown []string
	filled := placeholder.ReplaceAllStringFunc(text, func(found string) string {
		value, ok := c.Values[strings.Trim(found, "@")]
		if !ok {
			unknown = append(unknown, found)
		}
		return value
	})
	if len(unknown) == 0 {
		return filled, nil
	}
	known := []string{}
	for name := range c.Values {
		known = append(known, "@"+name+"@")
	}
	slices.Sort(known)
	return "", fmt.Errorf("no placeholder %s; there are %s", unknown[0], strings.Join(known, " "))
}

// Validate says which placeholder has no value.
func (c Config) Validate() error {
	for _, text := range []string{c.Global, c.Body} {
		if _, err := c.fill(text); err != nil {
			return err
		}
	}
	return nil
}

// Options say what to run, and where.
type Options struct {
	// Name is what errors, reports and the files call it, such as "edge".
	Name string
	// Folder exists, and gets the files: NAME.conf (the caller's
	// part), NAME-frame.conf, NAME.log (what the program says of
	// itself: nginx's error log, HAProxy's log), NAME-access.log (nginx).
	Folder string
	Config Config
}

func (o Options) path(suffix string) string { return filepath.Join(o.Folder, o.Name+suffix) }

// removeTemporary removes what a balancer has while it runs, or is checked.
func (o Options) removeTemporary() error {
	var errs []error
	for _, suffix := range []string{temporarySuffix, ".pid", ".sock"} {
		errs = append(errs, os.RemoveAll(o.path(suffix)))
	}
	return errors.Join(errs...)
}

// Rejected says that a balancer does not take its configuration. It is one line, with
// the program's own words.
type Rejected struct {
	Program Kind
	Words   string
}

func (r *Rejected) Error() string {
	return fmt.Sprintf("%s rejects the configuration: %s", r.Program, r.Words)
}

// write writes the whole configuration, and makes the folders that it names.
func (b Binary) write(o Options) error {
	global, err := o.Config.fill(o.Config.Global)
	if err != nil {
		return err
	}
	body, err := o.Config.fill(o.Config.Body)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.path(temporarySuffix), 0o755); err != nil {
		return err
	}
	// The body is a file of its own, so that the lines which the program complains about
	// are the caller's.
	if err := os.WriteFile(o.path(bodySuffix), []byte(body), 0o644); err != nil {
		return err
	}
	return os.WriteFile(o.path(frameSuffix), []byte(b.frame(o.Name, global)), 0o644)
}

// The files of a configuration: the caller's part, and the frame around it.
const (
	bodySuffix  = ".conf"
	frameSuffix = "-frame.conf"
)

// frame is the configuration around the caller's body.
func (b Binary) frame(name, global string) string {
	if b.Kind == HAProxy {
		return haproxyFrame(name, global)
	}
	return nginxFrame(name, global, os.Geteuid() == 0)
}

// Check writes the configuration and has the program check it (nginx -t, haproxy -c),
// in the network of the launcher: nginx binds the addresses on which it would listen,
// though not against one that is taken. A *Rejected is of the configuration; any other
// error is not.
func (b Binary) Check(ctx context.Context, l *proc.Launcher, o Options) error {
	if err := b.write(o); err != nil {
		return err
	}
	return errors.Join(b.check(ctx, l, o), o.removeTemporary())
}

func (b Binary) check(ctx context.Context, l *proc.Launcher, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	flag := "-t"
	if b.Kind == HAProxy {
		flag = "-c"
	}
	spec := b.spec(o, flag)
	spec.Name = o.Name + " " + flag
	spec.LogPath = o.path("-check.log")
	defer os.Remove(spec.LogPath)
	child, err := l.Start(ctx, spec)
	if err != nil {
		return err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		err := fmt.Errorf("%s has not ended: %w", spec.Name, context.Cause(ctx))
		return errors.Join(err, child.Stop(ctx, 0))
	}
	if child.Err() == nil {
		return nil
	}
	return &Rejected{b.Kind, firstComplaint(child.LastLog(50), o.Folder)}
}

// firstComplaint is the line with which a balancer says why it will not start, without
// the folder, the time and the process that it has in it.
func firstComplaint(log []string, folder string) string {
	for _, mark := range []string{"[emerg]", "[ALERT]"} {
		for _, line := range log {
			if _, words, found := strings.Cut(line, mark); found {
				return complaint(words, folder)
			}
		}
	}
	if len(log) == 0 {
		return "it did not say why"
	}
	return complaint(log[len(log)-1], folder)
}

var processNumber = regexp.MustCompile(`^\s*([0-9]+#[0-9]+:|\([0-9]+\) *:)\s*`)

func complaint(words, folder string) string {
	words = processNumber.ReplaceAllString(words, "")
	return strings.TrimSpace(strings.ReplaceAll(words, folder+"/", ""))
}

// spec is how the program is started, with arguments in front of the usual ones.
func (b Binary) spec(o Options, args ...string) proc.Spec {
	spec := proc.Spec{
		Name: o.Name, Path: b.Path, Dir: o.Folder, LogPath: o.path(".log"),
		// Either ends at once with it, and nginx's master takes its workers along.
		StopSignal: syscall.SIGTERM, DeathSignal: syscall.SIGTERM,
	}
	if b.Kind == HAProxy {
		spec.Args = append(args, "-db", "-f", o.Name+frameSuffix, "-f", o.Name+bodySuffix)
	} else {
		spec.Args = append(args, "-p", "./", "-c", o.Name+frameSuffix)
	}
	return spec
}

// Balancer is one that runs.
type Balancer struct {
	Binary Binary
	// Child is its process; of nginx the master.
	Child   *proc.Child
	options Options
}

// Start checks the configuration, starts the balancer in the network of the launcher,
// and waits until it listens. The error is one line, a *Rejected where it does not take
// its configuration. The caller stops it before the launcher is closed.
func (b Binary) Start(ctx context.Context, l *proc.Launcher, o Options) (*Balancer, error) {
	if err := b.write(o); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Name, err)
	}
	if err := b.check(ctx, l, o); err != nil {
		return nil, errors.Join(err, o.removeTemporary())
	}
	child, err := l.Start(ctx, b.spec(o))
	if err != nil {
		return nil, errors.Join(err, o.removeTemporary())
	}
	r := &Balancer{Binary: b, Child: child, options: o}
	if err := r.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, r.Stop(ctx))
	}
	return r, nil
}

// awaitReady waits until the balancer listens: nginx writes its pid file after that,
// and HAProxy answers on its runtime API.
func (r *Balancer) awaitReady(ctx context.Context) error {
	return r.await(ctx, "listens", func() (bool, error) {
		if r.Binary.Kind == HAProxy {
			_, err := r.Command(ctx, "show info")
			return err == nil, nil
		}
		text, err := os.ReadFile(r.options.path(".pid"))
		return err == nil && len(text) > 0, nil
	})
}

// await asks done again and again until it is true. It ends early with the balancer.
func (r *Balancer) await(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startWait, fmt.Errorf("not within %v", startWait))
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if is, err := done(); err != nil || is {
			return err
		}
		select {
		case <-tick.C:
		case <-r.Child.Done():
			return r.died()
		case <-ctx.Done():
			return fmt.Errorf("%s: wait until it %s: %w", r.options.Name, what, context.Cause(ctx))
		}
	}
}

func (r *Balancer) died() error {
	return fmt.Errorf("%s (%s %s) ended by itself: %s; it said: %s", r.options.Name, r.Binary.Kind, r.Binary.Version,
		r.Child.Status(), firstComplaint(r.Child.LastLog(20), r.options.Folder))
}

// Died is nil while the balancer runs, and else one line that says how it ended and
// what it said last. After Quit or Stop it means nothing.
func (r *Balancer) Died() error {
	select {
	case <-r.Child.Done():
		return r.died()
	default:
		return nil
	}
}

// Quit asks the balancer to end when its requests have (nginx SIGQUIT, HAProxy
// SIGUSR1: its soft stop). Child.Done says when it has.
func (r *Balancer) Quit() error {
	if r.Binary.Kind == HAProxy {
		return r.Child.Signal(syscall.SIGUSR1)
	}
	return r.Child.Signal(syscall.SIGQUIT)
}

// Stop ends the balancer at once, waits for its end and removes what is temporary of
// it. It may be called more than once.
func (r *Balancer) Stop(ctx context.Context) error {
	return errors.Join(r.Child.Stop(ctx, stopGrace), r.options.removeTemporary())
}

// Log is what the balancer said of itself so far, line by line.
func (r *Balancer) Log() ([]string, error) { return readLines(r.options.path(".log")) }

func readLines(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	lines := []string{}
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return lines, nil
}
