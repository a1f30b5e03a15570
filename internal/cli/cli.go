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

	"github.com/peterbourgon/ff/v3"
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
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	version := fs.Bool("version", false, "print the version and exit")
	config := fs.String("config", "", "`file` of settings, a flag name and its value a line")
	err := ff.Parse(fs, args,
		ff.WithEnvVarPrefix(EnvPrefix),
		ff.WithEnvVarSplit("\n"))
	if err == nil && *config != "" {
		err = readSettings(fs, *config)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, "%s\n\nEach flag can also be set as %s_FLAG_NAME.\n\n", synopsis, EnvPrefix)
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return ErrDone
	case err != nil:
		return usageError(err)
	case *version:
		fmt.Fprintln(stdout, fs.Name(), Version())
		return ErrDone
	}
	return nil
}

// usageError words ff's errors as package flag words its own, which lead with
// the value.
func usageError(err error) error {
	text := strings.TrimPrefix(err.Error(), "error parsing commandline arguments: ")
	if setting, ok := strings.CutPrefix(text, "error parsing environment variables: "); ok {
		_, rest, _ := strings.Cut(setting, ` from environment variable "`)
		name, cause, _ := strings.Cut(rest, `": `)
		return fmt.Errorf("invalid value %q for %s: %s", os.Getenv(name), name, cause)
	}
	return errors.New(text)
}

// Fail prints err as one line that leads with the program's name, and returns code.
func Fail(stderr io.Writer, program string, code int, err error) int {
	fmt.Fprintf(stderr, "%s: %s\n", program, oneLine(err.Error()))
	return code
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

// Context ends with the first SIGINT or SIGTERM; the second kills, as it does by default.
func Context() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
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
