//go:build linux

package main

import (
	"context"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// load is what a generator is asked for.
type load struct {
	url         string
	rate        int // per second; 0 is a closed model: as fast as the answers come
	duration    time.Duration
	connections int // workers, virtual users: so many requests at once
	timeout     time.Duration
	grace       time.Duration // how long after the window answers are waited for; 0 is for the last one
	flags       []string      // further ones of this tool
	dir         string        // for files, its own
}

// output is what a run of a tool left.
type output struct {
	stdout  []byte
	exit    int
	dir     string
	program string
}

// account is what a tool's own report says.
type account struct {
	// Requests is how many the report has an outcome for.
	Requests int `json:"requests"`
	// P90MS and P99MS are 0 where it has no such percentile.
	P90MS float64 `json:"p90_ms,omitempty"`
	P99MS float64 `json:"p99_ms,omitempty"`
	// Note is what it says beyond that, in a few words.
	Note string `json:"note,omitempty"`
}

// tool is a generator that is measured.
type tool struct {
	name string
	// program is the file's name; empty for the reference generator, which is this
	// program itself.
	program string
	// connections is how many it does best with at a given rate.
	connections int
	open        bool // it can be given a rate
	closed      bool // it has a closed model
	goroutines  bool // a Go program: GOMAXPROCS=1 goes with its one core
	// probes says that every connection sends a request before the load.
	probes bool
	// verdicts are exit codes of a run that went to its end.
	verdicts []int
	// slowStart is the time of its run before it records anything.
	slowStart time.Duration
	// command is the arguments after the program's name, once it has written the
	// files that it needs.
	command func(l load) ([]string, error)
	// account reads its report; nil where it has none.
	account func(o output) (account, error)
}

// installed is a tool that was found.
type installed struct {
	*tool
	path    string
	version string
}

// find looks for the tools in the folder and then on the PATH, and names those
// that there are not.
func find(ctx context.Context, tools []*tool, dir string) (found []installed, missing []string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	for _, t := range tools {
		if t.program == "" {
			found = append(found, installed{t, self, "of this repository"})
			continue
		}
		path := filepath.Join(dir, t.program)
		if dir == "" || !executable(path) {
			if path, err = exec.LookPath(t.program); err != nil {
				missing = append(missing, t.name)
				continue
			}
		}
		found = append(found, installed{t, path, version(ctx, path)})
	}
	return found, missing, nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// version is what a Go program was built from, or else the first line that it
// prints for --version.
func version(ctx context.Context, path string) string {
	if info, err := buildinfo.ReadFile(path); err == nil && info.Main.Version != "" {
		return info.Main.Version
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// wrk prints its version and exits with an error.
	text, _ := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	first, _, _ := strings.Cut(string(text), "\n")
	first, _, _ = strings.Cut(first, " Copyright")
	return strings.TrimSpace(first)
}

// accepts says whether a run that ended with that code has a report.
func (t *tool) accepts(exit int) bool { return slices.Contains(t.verdicts, exit) }
