package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"chokepoint/internal/cli"
	"chokepoint/internal/lab"
	"chokepoint/internal/profile"
	"chokepoint/internal/result"
)

const reportSynopsis = `Usage: lab report FOLDER...

Renders the reports of each folder of a run or a comparison anew, report.md and
report.html, from the other files in it, and prints their paths.`

const profilesSynopsis = `Usage: lab profiles

Lists what protects the victim, by name.`

// withoutFlags gives the arguments of a command that has no flag but -h. Its
// error is cli.ErrDone once it has printed the synopsis.
func withoutFlags(command, synopsis string, args []string, stdout io.Writer) ([]string, error) {
	fs := flag.NewFlagSet("lab "+command, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(stdout, synopsis)
		return nil, cli.ErrDone
	case err != nil:
		return nil, fmt.Errorf("%w (%s -h shows the usage)", err, fs.Name())
	}
	return fs.Args(), nil
}

// renderReports renders reports anew from the files beside them. A folder that
// cannot be rendered does not keep those after it from being.
func renderReports(args []string, stdout, stderr io.Writer) (int, error) {
	dirs, err := withoutFlags("report", reportSynopsis, args, stdout)
	if err != nil {
		return cli.ExitUsage, err
	}
	if len(dirs) == 0 {
		return cli.ExitUsage, errors.New("name a results folder: lab report results/<run>")
	}
	code := cli.ExitOK
	for _, dir := range dirs {
		malformed, err := renderReport(dir)
		if err != nil {
			code = cli.Fail(stderr, "lab", cli.ExitFailure, err)
			continue
		}
		for _, err := range malformed {
			code = cli.Fail(stderr, "lab", cli.ExitFailure, err)
		}
		fmt.Fprintln(stdout, filepath.Join(dir, result.ReportFile))
		fmt.Fprintln(stdout, filepath.Join(dir, result.PageFile))
	}
	return code, nil
}

func renderReport(dir string) (malformed []error, err error) {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is a file; name the folder that it is in: lab report %s", dir, filepath.Dir(dir))
	}
	return lab.WriteReport(dir)
}

func listProfiles(args []string, stdout io.Writer) (int, error) {
	rest, err := withoutFlags("profiles", profilesSynopsis, args, stdout)
	if err != nil {
		return cli.ExitUsage, err
	}
	if len(rest) > 0 {
		return cli.ExitUsage, fmt.Errorf("unexpected argument %q; lab profiles takes none", rest[0])
	}
	for _, name := range profile.Names() {
		p, err := profile.Lookup(name)
		if err != nil {
			return cli.ExitFailure, err
		}
		fmt.Fprintf(stdout, "%-10s %s\n", p.Name, p.Summary)
	}
	return cli.ExitOK, nil
}
