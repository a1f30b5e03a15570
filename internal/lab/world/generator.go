package world

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"chokepoint/internal/lab/proc"
	"chokepoint/internal/result"
)

// loadgen is the name of the load generator.
const loadgen = "loadgen"

// Generator runs load generators as processes of this machine, against a service
// that runs already: a world of which nothing else is the lab's.
type Generator struct {
	launcher *proc.Launcher
	program  string
	hashes   map[string]string
	logPath  string
}

// NewGenerator finds the load generator, and makes the folder of its log in runDir.
// An empty binDir means the folder that this program is in.
func NewGenerator(binDir, runDir string, launcher *proc.Launcher) (*Generator, error) {
	programs, hashes, err := FindPrograms(binDir, loadgen)
	if err != nil {
		return nil, err
	}
	logs := filepath.Join(runDir, result.LogsDir)
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	return &Generator{launcher, programs[loadgen], hashes, filepath.Join(logs, loadgen+".log")}, nil
}

// StartLoad runs the load generator.
func (g *Generator) StartLoad(ctx context.Context, args []string) (Load, error) {
	return startLoad(ctx, g.launcher, g.program, args, g.logPath)
}

// LoadLead is as in World.
func (g *Generator) LoadLead() time.Duration { return nativeLead }

// Describe tells the conditions for the manifest.
func (g *Generator) Describe() Description {
	return Description{Runtime: "attach", Programs: g.hashes}
}

// nativeLead is how long a process takes to start, at most: some 10 ms, and on a
// crowded machine twenty times that.
const nativeLead = 500 * time.Millisecond

func startLoad(ctx context.Context, launcher *proc.Launcher, program string, args []string, logPath string) (Load, error) {
	child, err := launcher.Start(ctx, proc.Spec{
		Name: loadgen, Path: program, Args: args, LogPath: logPath, StopSignal: syscall.SIGINT,
	})
	if err != nil {
		return nil, err
	}
	return nativeLoad{child}, nil
}

// nativeLoad is a load generator that is a child of the lab.
type nativeLoad struct{ *proc.Child }

// ExitCode implements Load.
func (l nativeLoad) ExitCode() int {
	if err, ok := errors.AsType[*exec.ExitError](l.Err()); ok {
		return err.ExitCode()
	}
	return 0
}

// Interrupt implements Load.
func (l nativeLoad) Interrupt() error { return l.Signal(syscall.SIGINT) }

// Stop implements Load.
func (l nativeLoad) Stop(ctx context.Context) error { return l.Child.Stop(ctx, stopGrace) }
