//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/test/peers/refserver"
	"chokepoint/test/peers/spinref"
)

// The roles that this program has besides that of the bench, which runs itself in
// them: what is measured and what it is measured against have a process each.
const (
	roleServer  = "server"
	roleSpinref = "spinref"
)

// serve is the role of the server. It prints its address on a line, serves until
// stdin ends, writes the arrivals to a file and prints its report.
func serve(args []string, stdin *os.File, stdout, stderr io.Writer) int {
	var c refserver.Config
	fs := flag.NewFlagSet(roleServer, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&c.Capacity, "capacity", 1_000_000, "arrivals that are kept")
	fs.DurationVar(&c.Delay, "delay", 0, "from a request to its answer")
	fs.DurationVar(&c.FreezeAfter, "freeze-after", 0, "from the first request to the freeze")
	fs.DurationVar(&c.FreezeFor, "freeze-for", 0, "length of the freeze; 0 is none")
	file := fs.String("arrivals", "", "write the arrivals to this `file`")
	if err := fs.Parse(args); err != nil {
		return cli.ExitUsage
	}
	s, err := refserver.Listen(c)
	if err != nil {
		return cli.Fail(stderr, roleServer, cli.ExitFailure, err)
	}
	defer s.Close()
	fmt.Fprintln(stdout, s.Addr())
	report, err := s.Serve(stdin)
	if err == nil && *file != "" {
		err = writeArrivals(*file, s.Arrivals())
	}
	if err == nil {
		err = json.NewEncoder(stdout).Encode(report)
	}
	if err != nil {
		return cli.Fail(stderr, roleServer, cli.ExitFailure, err)
	}
	return cli.ExitOK
}

func writeArrivals(file string, arrivals []time.Duration) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(refserver.WriteArrivals(f, arrivals), f.Close())
}

// spin is the role of the reference generator. It prints its report.
func spin(args []string, stdout, stderr io.Writer) int {
	c := spinref.Config{}
	fs := flag.NewFlagSet(roleSpinref, flag.ContinueOnError)
	fs.SetOutput(stderr)
	url := fs.String("url", "", "of the server, with an address")
	fs.Float64Var(&c.Rate, "rate", 0, "requests per second")
	fs.DurationVar(&c.Duration, "duration", 0, "length of the load")
	fs.IntVar(&c.Connections, "connections", 0, "opened before the load")
	if err := fs.Parse(args); err != nil {
		return cli.ExitUsage
	}
	var err error
	if c.Addr, err = netip.ParseAddrPort(strings.Trim(strings.TrimPrefix(*url, "http:"), "/")); err != nil {
		return cli.Fail(stderr, roleSpinref, cli.ExitUsage, err)
	}
	report, err := spinref.Run(c)
	if err == nil {
		err = json.NewEncoder(stdout).Encode(report)
	}
	if err != nil {
		return cli.Fail(stderr, roleSpinref, cli.ExitFailure, err)
	}
	return cli.ExitOK
}
