package doctor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"

	"chokepoint/internal/lab/installed"
	"chokepoint/internal/lab/pgserver"
)

const (
	// filesNeeded is for the victim, which accepts at most 8,192 connections, and
	// what it has open besides.
	filesNeeded = 9_000
	// portsNeeded is for the generator's connections to one address, with those
	// that rest in TIME_WAIT.
	portsNeeded = 10_000
)

// programChecks are of the programs that the lab runs and that are not its own.
var programChecks = []check{
	{
		name: "PostgreSQL", neededFor: "every run of the victim",
		remedy: "on Debian: apt-get install postgresql; or name a server in DATABASE_URL; or let the first run download one",
		try:    findPostgres,
	},
	programCheck(installed.Nginx, "rolling, drain, drainmap, spread"),
	programCheck(installed.HAProxy, "drain, drainmap"),
	programCheck(installed.Chromium, "the tests of the reports' pages"),
}

func programCheck(p installed.Program, neededFor string) check {
	return check{name: p.Title, neededFor: neededFor, remedy: p.Remedy(), try: func(ctx context.Context) (string, error) {
		path, err := p.Path()
		if err != nil {
			return "", err
		}
		version, err := p.Version(ctx, path)
		return version + ", " + path, err
	}}
}

func findPostgres(ctx context.Context) (string, error) {
	if os.Getenv("DATABASE_URL") != "" {
		return "the server that DATABASE_URL names", nil
	}
	dirs := pgserver.Installed(ctx)
	if len(dirs) == 0 {
		return "", fmt.Errorf("postgres and initdb are not installed")
	}
	server := installed.Program{Title: "PostgreSQL", VersionFlag: "--version"}
	path := dirs[0] + "/postgres"
	version, err := server.Version(ctx, path)
	return version + ", " + path, err
}

// limitChecks are of what the system allows one process.
var limitChecks = []check{
	{
		name: "open files", neededFor: "loads of thousands of connections",
		remedy: "raise the hard limit: ulimit -Hn 65536 as root, or LimitNOFILE of the service",
		try:    openFiles,
	},
	{
		name: "ports", neededFor: "loads of thousands of connections",
		remedy: `sysctl -w net.ipv4.ip_local_port_range="15000 60999"`,
		try:    ports,
	},
}

// openFiles looks at the hard limit, to which Go raises the soft one.
func openFiles(context.Context) (string, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return "", err
	}
	if limit.Max < filesNeeded {
		return "", fmt.Errorf("at most %d, and the victim needs up to %d", limit.Max, filesNeeded)
	}
	return fmt.Sprintf("at most %d", limit.Max), nil
}

// ports counts those that outgoing connections get.
func ports(context.Context) (string, error) {
	const setting = "/proc/sys/net/ipv4/ip_local_port_range"
	data, err := os.ReadFile(setting)
	if err != nil {
		return "", err
	}
	var low, high int
	if _, err := fmt.Sscan(string(data), &low, &high); err != nil {
		return "", fmt.Errorf("%s is %q: %w", setting, strings.TrimSpace(string(data)), err)
	}
	if n := high - low + 1; n < portsNeeded {
		return "", fmt.Errorf("%d, from %d to %d; %d are wanted", n, low, high, portsNeeded)
	}
	return fmt.Sprintf("%d to %d", low, high), nil
}
