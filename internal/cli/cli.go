// Package cli holds what the programs share on the command line: the exit
// codes, flags over environment over file, one-line errors and the signal rule.
// It knows no flag of any program.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
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
// names. It adds -config and -version to fs. Its errors are usage errors.
func Parse(fs *flag.FlagSet, args []string, synopsis string, stdout io.Writer) error {
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	version := fs.Bool("version", false, "print the version and exit")
	fs.String("config", "", "`file` of settings, a flag name and its value a line")
	err := ff.Parse(fs, args,
		ff.WithEnvVarPrefix(EnvPrefix),
		ff.WithConfigFileFlag("config"),
		ff.WithConfigFileParser(ff.PlainParser))
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, "%s\n\nEach flag can also be set as %s_FLAG_NAME.\n\n", synopsis, EnvPrefix)
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return ErrDone
	case err != nil:
		return errors.New(strings.TrimPrefix(err.Error(), "error parsing commandline arguments: "))
	case *version:
		fmt.Fprintln(stdout, fs.Name(), Version())
		return ErrDone
	}
	return nil
}

// Fail prints err as one line that leads with the program's name, and returns code.
func Fail(stderr io.Writer, program string, code int, err error) int {
	fmt.Fprintf(stderr, "%s: %s\n", program, strings.Join(strings.Fields(err.Error()), " "))
	return code
}

// Context ends with the first SIGINT or SIGTERM; the second kills, as it does by default.
func Context() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Version is the module's version, or the revision that it was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return info.Main.Version
}
