//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"chokepoint/test/peers/refserver"
)

const (
	// serverPatience is how long the server has to come up, and to report.
	serverPatience = 20 * time.Second
	// toolPatience is how long a tool may take beyond its load and the last answer.
	toolPatience = 60 * time.Second
	// residentEvery is how often the memory of a tool is looked at.
	residentEvery = 100 * time.Millisecond
	// mostOutput is how much is kept of what a tool prints.
	mostOutput = 4 << 20
)

// cell is a tool under a load against a server: what is run once in every round.
type cell struct {
	label  string // of the row; unique in its part
	tool   string
	load   load
	server refserver.Config
}

// sample is what one run of a cell gave.
type sample struct {
	// Failed says why there are no figures.
	Failed string `json:"failed,omitempty"`
	// Arrived is how many requests the server read; ArrivedPercent is those within
	// the window, of what the rate asks for.
	Arrived        int     `json:"arrived"`
	ArrivedPercent float64 `json:"arrived_percent,omitempty"`
	ErrorP50MS     float64 `json:"schedule_error_p50_ms,omitempty"`
	ErrorP99MS     float64 `json:"schedule_error_p99_ms,omitempty"`
	CPUSeconds     float64 `json:"cpu_s"`
	// PeakKB is the most resident memory of the process.
	PeakKB        float64 `json:"peak_kb"`
	ServerPercent float64 `json:"server_cpu_percent"` // of one CPU, over the tool's time
	Exit          int     `json:"exit"`
	Account       account `json:"account"`
}

// bench runs cells.
type bench struct {
	tools                   map[string]installed
	self                    string
	dir                     string // for the files of runs
	serverCPU, generatorCPU int
}

// pinned is a command on one CPU.
func pinned(ctx context.Context, cpu int, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", strconv.Itoa(cpu), path}, args...)...)
	cmd.WaitDelay = time.Second
	return cmd
}

// arguments are those of a cell's tool, for the record.
func (b *bench) arguments(c cell) string {
	l := c.load
	l.url, l.dir = "URL", b.dir // some write a file there
	args, err := b.tools[c.tool].command(l)
	if err != nil {
		return err.Error()
	}
	for i, arg := range args {
		if arg == "" {
			args[i] = `""`
		}
	}
	return strings.ReplaceAll(strings.Join(args, " "), b.dir, "DIR")
}

// run measures a cell once. What goes wrong is in the sample; the error is ctx's.
func (b *bench) run(ctx context.Context, c cell) (sample, error) {
	s, err := b.measure(ctx, c)
	if ctx.Err() != nil {
		return sample{}, ctx.Err()
	}
	if err != nil {
		s.Failed, _, _ = strings.Cut(err.Error(), "\n")
	}
	return s, nil
}

func (b *bench) measure(ctx context.Context, c cell) (sample, error) {
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return sample{}, err
	}
	defer os.RemoveAll(dir)
	arrivals := filepath.Join(dir, "arrivals.bin")
	server, err := b.startServer(ctx, c, arrivals)
	if err != nil {
		return sample{}, fmt.Errorf("server: %w", err)
	}
	defer server.kill()
	t := b.tools[c.tool]
	l := c.load
	l.url, l.dir = "http://"+server.addr+"/", dir
	s, out, took, err := b.runTool(ctx, t, l)
	if err != nil {
		return s, err
	}
	seen, err := server.stop()
	if err != nil {
		return s, fmt.Errorf("server: %w", err)
	}
	text, err := os.ReadFile(arrivals)
	if err != nil {
		return s, err
	}
	all, err := refserver.ReadArrivals(text)
	if err != nil {
		return s, err
	}
	s.Arrived, s.ServerPercent = seen.Requests, 100*seen.CPUSeconds/took.Seconds()
	if t.probes {
		s.Arrived = max(0, s.Arrived-l.connections)
		all = all[min(len(all), l.connections):]
	}
	if l.rate > 0 {
		s.schedule(all, l)
	}
	if t.account != nil {
		s.Account, err = t.account(out)
	}
	return s, err
}

// runTool runs the tool to its end, and no longer than it may take.
func (b *bench) runTool(ctx context.Context, t installed, l load) (s sample, out output, took time.Duration, err error) {
	args, err := t.command(l)
	if err != nil {
		return s, out, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.duration+l.timeout+toolPatience)
	defer cancel()
	cmd := pinned(ctx, b.generatorCPU, t.path, args...)
	cmd.Env = os.Environ()
	if t.goroutines {
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	}
	stdout, stderr := &limited{}, &limited{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return s, out, 0, err
	}
	watched := make(chan struct{})
	peak := watchResident(cmd.Process.Pid, watched)
	err = cmd.Wait()
	took = time.Since(began)
	close(watched)
	s.PeakKB = <-peak
	s.CPUSeconds = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	s.Exit = cmd.ProcessState.ExitCode()
	out = output{stdout: stdout.Bytes(), exit: s.Exit, dir: l.dir, program: t.path}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return s, out, took, fmt.Errorf("stopped after %v", took.Round(time.Second))
	case errors.As(err, &exit) && t.accepts(s.Exit):
		err = nil
	case err != nil:
		said := strings.TrimSpace(stderr.String())
		if i := strings.LastIndexByte(said, '\n'); i >= 0 {
			said = said[i+1:]
		}
		err = fmt.Errorf("%w: %s", err, said)
	}
	return s, out, took, err
}

// limited keeps the first mostOutput bytes.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := mostOutput - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// watchResident gives the largest resident memory of the process in kB, as the
// kernel keeps it for its program, once done is closed. What wait4 reports is no
// less than that of the process that started it.
func watchResident(pid int, done <-chan struct{}) <-chan float64 {
	result := make(chan float64, 1)
	go func() {
		peak := 0.0
		tick := time.NewTicker(residentEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				result <- peak
				return
			case <-tick.C:
				peak = max(peak, residentPeak(pid))
			}
		}
	}()
	return result
}

func residentPeak(pid int) float64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kb float64
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		return 0
	}
	return kb
}

// server is the reference server as a process.
type server struct {
	addr   string
	cmd    *exec.Cmd
	cancel context.CancelFunc
	stdin  io.Closer
	stdout *bufio.Reader
	stderr *limited
}

func (b *bench) startServer(ctx context.Context, c cell, arrivals string) (*server, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &server{cancel: cancel, stderr: &limited{}}
	// Closed models are counted only.
	capacity := max(1, 2*c.load.rate*int(c.load.duration/time.Second+1))
	s.cmd = pinned(ctx, b.serverCPU, b.self, roleServer, "-arrivals", arrivals, "-capacity", strconv.Itoa(capacity),
		"-delay", c.server.Delay.String(), "-freeze-after", c.server.FreezeAfter.String(), "-freeze-for", c.server.FreezeFor.String())
	s.cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	s.cmd.Stderr = s.stderr
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	s.stdin, s.stdout = stdin, bufio.NewReader(stdout)
	if err := s.cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	defer time.AfterFunc(serverPatience, cancel).Stop()
	line, err := s.stdout.ReadString('\n')
	if err != nil {
		s.kill()
		return nil, fmt.Errorf("no address from it: %s", strings.TrimSpace(s.stderr.String()))
	}
	s.addr = strings.TrimSpace(line)
	return s, nil
}

// stop ends the server and gives its report.
func (s *server) stop() (refserver.Report, error) {
	defer time.AfterFunc(serverPatience, s.cancel).Stop()
	s.stdin.Close()
	var r refserver.Report
	err := json.NewDecoder(s.stdout).Decode(&r)
	if waited := s.cmd.Wait(); err == nil {
		err = waited
	}
	if err != nil {
		return r, fmt.Errorf("%w: %s", err, strings.TrimSpace(s.stderr.String()))
	}
	return r, nil
}

// kill ends the server, if stop has not.
func (s *server) kill() {
	s.cancel()
	s.stdin.Close()
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Wait() // killed: there is nothing to learn from it
	}
}
