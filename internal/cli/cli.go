// Package cli holds what the programs share on the command line: the exit
// codes, flags over environment over file, one-line errors, the signal rule and
// the check of a server's health. It knows no flag of any program but -config,
// -version and the text of -healthcheck.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Exit codes. 99 is k6's for a failed threshold; 130 is a shell's for SIGINT.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitInvalid     = 3 // the run is invalid
	ExitUnexpected  = 4 // the verdict is not the expected one
	ExitThreshold   = 99
	ExitInterrupted = 130
)

// EnvPrefix begins the environment variable of every flag: -rate is
// CHOKEPOINT_RATE, -graceful-stop is CHOKEPOINT_GRACEFUL_STOP.
const EnvPrefix = "CHOKEPOINT"

// ErrDone is Parse's answer when it has printed what was asked for (-h,
// -version) and there is nothing left to do.
var ErrDone = errors.New("done")

// Parse reads flags over CHOKEPOINT_ variables over the file that -config
// names. A variable of several lines sets its flag once for each, as a flag that
// may be repeated needs. Parse adds -config and -version to fs. Its answer is
// ErrDone once it has printed to stdout what was asked for; any other error is
// that of a usage.
func Parse(fs *flag.FlagSet, args []string, synopsis string, stdout io.Writer) error {
	return ParseGrouped(fs, args, synopsis, nil, stdout)
}

// ParseGrouped is Parse for a program of many flags: -h lists them by purpose, a
// line each. A flag that is in no group comes last, under a title of its own.
func ParseGrouped(fs *flag.FlagSet, args []string, synopsis string, groups []Group, stdout io.Writer) error {
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	version := fs.Bool("version", false, "print the version and exit")
	var config string
	FileVar(fs, &config, "config", "`file` of settings, a flag name and its value a line")
	err := fs.Parse(args)
	if err == nil {
		err = readEnvironment(fs)
	}
	if err == nil && config != "" {
		err = readSettings(fs, config)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, "%s\n\nEach flag can also be set as %s_FLAG_NAME.\n\n", synopsis, EnvPrefix)
		printFlags(stdout, fs, groups)
		return ErrDone
	case err != nil:
		return err
	case *version:
		fmt.Fprintln(stdout, fs.Name(), Version())
		return ErrDone
	}
	return nil
}

// readEnvironment sets the flags of fs that are not set yet from their variables.
// An alias has none.
func readEnvironment(fs *flag.FlagSet) error {
	given := Given(fs)
	var first error
	fs.VisitAll(func(f *flag.Flag) {
		if _, isAlias := f.Value.(*alias); isAlias || given[f.Name] || first != nil {
			return
		}
		name := EnvPrefix + "_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		text := os.Getenv(name)
		if text == "" {
			return
		}
		for value := range strings.SplitSeq(text, "\n") {
			if err := fs.Set(f.Name, value); err != nil {
				first = fmt.Errorf("invalid value %q for %s: %w", text, name, err)
				return
			}
		}
	})
	return first
}

// Given are the names of the flags that were set, on the command line or
// elsewhere.
func Given(fs *flag.FlagSet) map[string]bool {
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return given
}

// Fail prints err as one line that leads with the program's name, and returns code.
func Fail(stderr io.Writer, program string, code int, err error) int {
	fmt.Fprintf(stderr, "%s: %s\n", program, Printable(oneLine(err.Error())))
	return code
}

// Printable is text that cannot steer a terminal: what a file or a server has sent may
// hold escape sequences, and characters that turn the order of a line around (Unicode's
// Bidi_Control). Each of them, and each byte that is no UTF-8, becomes U+FFFD.
// Tabs and line breaks stay.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return utf8.RuneError
		}
		return r
	}, text)
}

// oneLine joins the lines of an error; what stands within a line stays as it is.
func oneLine(text string) string {
	var joined string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case joined == "":
			joined = line
		case strings.HasSuffix(joined, ":"):
			joined += " " + line
		default:
			joined += "; " + line
		}
	}
	return joined
}

// Context ends with the first SIGINT or SIGTERM, or SIGHUP, which comes when the
// terminal goes; the second kills, as it does by default. It is for the life of the
// program: were the default restored at its end, a first signal that is still on its
// way would kill what has done its work.
func Context() context.Context {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx
}

// Version is what the build knows of the module (a release, or the revision and
// whether it was changed) and the Go release that built it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown) " + runtime.Version()
	}
	return info.Main.Version + " " + info.GoVersion
}
