//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"chokepoint/internal/cli"
)

// Names of tools that goals speak of.
const (
	loadgen = "loadgen"
	wrk     = "wrk"
)

// Files that tools read or write, in the folder of a run.
const (
	resultFile  = "result.json" // loadgen's, k6's, fortio's
	hitsFile    = "hits.bin"    // vegeta's
	targetsFile = "targets.txt" // vegeta's
	scriptFile  = "script.js"   // k6's
)

// tools are all that can be measured, each with the flags that serve it best:
// what it has no use for here, as a body that it would keep, is off, and its own
// report is on.
func tools(loadgenPath string) []*tool {
	return []*tool{
		{name: roleSpinref, connections: 200, open: true, goroutines: true, command: spinrefCommand},
		{name: loadgen, program: loadgenPath, connections: 2000, open: true, closed: true, goroutines: true, verdicts: []int{cli.ExitInvalid}, command: loadgenCommand, account: loadgenAccount},
		{name: wrk, program: "wrk", closed: true, command: wrkCommand, account: wrkAccount},
		{name: "wrk2", program: "wrk2", connections: 100, open: true, slowStart: 10 * time.Second, command: wrk2Command, account: wrkAccount},
		{name: "h2load", program: "h2load", connections: 50, open: true, closed: true, command: h2loadCommand, account: h2loadAccount},
		{name: "bombardier", program: "bombardier", connections: 50, open: true, closed: true, goroutines: true, command: bombardierCommand, account: bombardierAccount},
		{name: "vegeta", program: "vegeta", connections: 200, open: true, closed: true, goroutines: true, command: vegetaCommand, account: vegetaAccount},
		{name: "hey", program: "hey", connections: 50, open: true, closed: true, goroutines: true, command: heyCommand, account: heyAccount},
		{name: "fortio", program: "fortio", connections: 50, open: true, closed: true, goroutines: true, probes: true, command: fortioCommand, account: fortioAccount},
		{name: "k6", program: "k6", connections: 200, open: true, closed: true, goroutines: true, command: k6Command, account: k6Account},
	}
}

func spinrefCommand(l load) ([]string, error) {
	return append([]string{
		roleSpinref, "-url", l.url, "-rate", strconv.Itoa(l.rate), "-duration", l.duration.String(),
		"-connections", strconv.Itoa(l.connections),
	}, l.flags...), nil
}

func loadgenCommand(l load) ([]string, error) {
	args := []string{"-duration", l.duration.String(), "-timeout", l.timeout.String(), "-json", filepath.Join(l.dir, resultFile)}
	if l.rate == 0 {
		args = append(args, "-closed", strconv.Itoa(l.connections))
	} else {
		args = append(args, "-rate", strconv.Itoa(l.rate), "-workers", strconv.Itoa(l.connections))
	}
	if l.grace > 0 {
		args = append(args, "-graceful-stop", l.grace.String())
	}
	return append(append(args, l.flags...), l.url), nil
}

// seconds is a duration for tools that know no other unit, rounded up.
func seconds(d time.Duration) string { return strconv.Itoa(int((d + time.Second - 1) / time.Second)) }

func wrkCommand(l load) ([]string, error) {
	return append([]string{
		"-t1", "-c", strconv.Itoa(l.connections), "-d", seconds(l.duration) + "s",
		"--timeout", seconds(l.timeout) + "s", "--latency", l.url,
	}, l.flags...), nil
}

func wrk2Command(l load) ([]string, error) {
	args, err := wrkCommand(l)
	return append([]string{"-R", strconv.Itoa(l.rate)}, args...), err
}

func h2loadCommand(l load) ([]string, error) {
	args := []string{"--h1", "-t1", "-c", strconv.Itoa(l.connections), "-D", seconds(l.duration)}
	if l.rate > 0 {
		args = append(args, "--rps", strconv.FormatFloat(float64(l.rate)/float64(l.connections), 'g', 6, 64))
	}
	return append(append(args, l.flags...), l.url), nil
}

func bombardierCommand(l load) ([]string, error) {
	args := []string{"-c", strconv.Itoa(l.connections), "-d", l.duration.String(), "-t", l.timeout.String(), "-l", "-p", "r", "-o", "json"}
	if l.rate > 0 {
		args = append(args, "-r", strconv.Itoa(l.rate))
	}
	return append(append(args, l.flags...), l.url), nil
}

func vegetaCommand(l load) ([]string, error) {
	targets := filepath.Join(l.dir, targetsFile)
	if err := os.WriteFile(targets, []byte("GET "+l.url+"\n"), 0o600); err != nil {
		return nil, err
	}
	n := strconv.Itoa(l.connections)
	// A limit, since without one it opens connections without end when it falls behind.
	return append([]string{
		"attack", "-targets", targets, "-rate", strconv.Itoa(l.rate) + "/1s", "-duration", l.duration.String(),
		"-workers", n, "-max-workers", n, "-connections", n, "-timeout", l.timeout.String(),
		"-http2=false", "-max-body", "0", "-output", filepath.Join(l.dir, hitsFile),
	}, l.flags...), nil
}

func heyCommand(l load) ([]string, error) {
	args := []string{"-z", l.duration.String(), "-c", strconv.Itoa(l.connections), "-t", seconds(l.timeout), "-disable-compression"}
	if l.rate > 0 {
		args = append(args, "-q", strconv.FormatFloat(float64(l.rate)/float64(l.connections), 'g', 6, 64))
	}
	return append(append(args, l.flags...), l.url), nil
}

func fortioCommand(l load) ([]string, error) {
	return append([]string{
		"load", "-qps", strconv.Itoa(l.rate), "-c", strconv.Itoa(l.connections), "-t", l.duration.String(), "-timeout", l.timeout.String(),
		"-uniform", "-allow-initial-errors", "-p", "90,99", "-loglevel", "Error", "-json", filepath.Join(l.dir, resultFile),
	}, append(l.flags, l.url)...), nil
}

// k6Script asks for the statistics that are read, and throws bodies away.
const k6Script = `import http from 'k6/http';
export const options = {
  discardResponseBodies: true,
  summaryTrendStats: ['p(90)', 'p(99)'],
  scenarios: { load: { %s } },
};
export default function () { http.get('%s', { timeout: '%dms' }); }
export function handleSummary(data) { return { '%s': JSON.stringify(data.metrics) }; }
`

func k6Command(l load) ([]string, error) {
	scenario := fmt.Sprintf("executor: 'constant-vus', vus: %d, duration: '%v'", l.connections, l.duration)
	if l.rate > 0 {
		scenario = fmt.Sprintf("executor: 'constant-arrival-rate', rate: %d, timeUnit: '1s', duration: '%v', preAllocatedVUs: %d, maxVUs: %d",
			l.rate, l.duration, l.connections, l.connections)
	}
	grace := l.grace
	if grace == 0 {
		grace = l.timeout
	}
	scenario += fmt.Sprintf(", gracefulStop: '%dms'", grace.Milliseconds())
	script := fmt.Sprintf(k6Script, scenario, l.url, l.timeout.Milliseconds(), filepath.Join(l.dir, resultFile))
	file := filepath.Join(l.dir, scriptFile)
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return nil, err
	}
	return append(append([]string{"run", "--quiet", "--no-usage-report", "--address", ""}, l.flags...), file), nil
}
