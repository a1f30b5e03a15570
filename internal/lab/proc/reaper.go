package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ReaperArg is the hidden first argument with which the lab's own binary is its
// reaper. The main of every program that calls StartReaper begins with
//
//	if len(os.Args) > 1 && os.Args[1] == proc.ReaperArg {
//		os.Exit(proc.RunReaper(os.Stdin, os.Stdout, os.Stderr))
//	}
const ReaperArg = "__reaper"

const (
	// readyLine is what a reaper prints once it watches.
	readyLine = "ready"
	// readyWait bounds the wait for it.
	readyWait = 10 * time.Second
	// lockWait bounds the wait for the lock of a folder that may be another's.
	lockWait = time.Second
	// closeWait bounds the wait for a reaper's end.
	closeWait = RemoveWait + quitGrace + lastCommandWait + lockWait + 2*time.Second
)

// order is one line of JSON on the reaper's standard input. One of the fields
// is set.
type order struct {
	Expect string   `json:"expect,omitempty"` // a folder that is about to be made
	Folder string   `json:"folder,omitempty"` // it is made, and the lab's: remove it
	Forget string   `json:"forget,omitempty"` // the folder is gone already
	Child  *process `json:"child,omitempty"`  // end it
	Signal int      `json:"signal,omitempty"` // with this first
	Run    []string `json:"run,omitempty"`    // run it, see LastCommand
	Cancel []string `json:"cancel,omitempty"` // do not run it after all
}

// Reaper is the lab's side of its reaper. A nil *Reaper is one that does
// nothing.
type Reaper struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	mu    sync.Mutex
	once  sync.Once
	err   error // of Close
}

// StartReaper runs this program once more as the reaper. It lives until the lab
// is gone, or Close. Only the lab holds the other end of its standard input
// (the file is close-on-exec), so however the lab ends, the reaper sees it.
func StartReaper() (*Reaper, error) {
	r, err := startReaper()
	if err != nil {
		return nil, fmt.Errorf("start the reaper: %w", err)
	}
	return r, nil
}

func startReaper() (*Reaper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, ReaperArg)
	cmd.Env = withoutLabVariables(os.Environ())
	cmd.Dir = "/" // keep no folder busy
	cmd.Stderr = os.Stderr
	// A session of its own: no terminal, and no signal to the lab's group, ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// A program that does not know ReaperArg must not run on as a second lab.
	giveUp := time.AfterFunc(readyWait, func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	giveUp.Stop()
	if strings.TrimSpace(line) != readyLine {
		_ = cmd.Process.Kill()
		stdin.Close()
		_ = cmd.Wait()
		if err != nil {
			return nil, fmt.Errorf("%s %s ended, or said nothing within %s: %w", self, ReaperArg, readyWait, err)
		}
		return nil, fmt.Errorf("%s %s is not a reaper: it said %q", self, ReaperArg, line)
	}
	return &Reaper{cmd: cmd, stdin: stdin}, nil
}

// Close tells the reaper that the lab is done and waits for it to end. What the
// lab has not ended or removed itself, the reaper ends and removes now. It may
// be called more than once.
func (r *Reaper) Close() error {
	if r == nil {
		return nil
	}
	r.once.Do(func() {
		r.mu.Lock()
		r.stdin.Close()
		r.mu.Unlock()
		giveUp := time.AfterFunc(closeWait, func() { _ = r.cmd.Process.Kill() })
		defer giveUp.Stop()
		if err := r.cmd.Wait(); err != nil {
			r.err = fmt.Errorf("the reaper: %w", err)
		}
	})
	return r.err
}

func (r *Reaper) send(o order) error {
	if r == nil {
		return nil
	}
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("the reaper has gone: %w", err)
	}
	return nil
}

// expectFolder comes before the folder: a lab can be killed right after it has
// made one.
func (r *Reaper) expectFolder(path string) error { return r.send(order{Expect: path}) }

func (r *Reaper) watchFolder(path string) error { return r.send(order{Folder: path}) }

// forgetFolder is a courtesy: a reaper that is gone needs none, and one that is
// not finds the folder gone.
func (r *Reaper) forgetFolder(path string) { _ = r.send(order{Forget: path}) }

func (r *Reaper) watchChild(pid int, sig syscall.Signal) error {
	start := startTime(pid)
	if start == "" {
		return nil // it has ended already
	}
	return r.send(order{Child: &process{PID: pid, Start: start}, Signal: int(sig)})
}

// RunReaper is the reaper: it collects orders from stdin until the lab's end of
// it is closed, then ends and removes what is left. It returns the exit code: 0
// if nothing is left, else 1 with one line on stderr for each thing that is.
func RunReaper(stdin io.Reader, stdout, stderr io.Writer) int {
	// Whoever ends the lab by a signal to everything in sight still wants the
	// folders removed. The end of stdin ends the reaper.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	fmt.Fprintln(stdout, readyLine)

	folders, expected := map[string]bool{}, map[string]bool{}
	var children []order
	var commands [][]string
	for in := json.NewDecoder(stdin); ; {
		var o order
		// The lab can die in the middle of a line; what came before still counts.
		if err := in.Decode(&o); err != nil {
			break
		}
		switch {
		case o.Expect != "":
			expected[o.Expect] = true
		case o.Folder != "":
			folders[o.Folder] = true
			delete(expected, o.Folder)
		case o.Forget != "":
			delete(folders, o.Forget)
			delete(expected, o.Forget)
		case o.Child != nil:
			children = append(children, o)
		case o.Run != nil:
			commands = append(commands, o.Run)
		case o.Cancel != nil:
			commands = slices.DeleteFunc(commands, func(argv []string) bool { return slices.Equal(argv, o.Cancel) })
		}
	}

	ending, cancel := context.WithTimeout(context.Background(), RemoveWait)
	defer cancel()
	errs := []error{endChildren(ending, children), runLastCommands(commands)}
	removing, cancel := context.WithTimeout(context.Background(), RemoveWait)
	defer cancel()
	for path := range folders {
		errs = append(errs, clearFolder(removing, path))
	}
	for path := range expected {
		errs = append(errs, clearExpected(removing, path))
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// clearExpected removes a folder that the lab was about to make, if it did, and
// if it is the lab's: another process that has the name holds the lock. The lab's
// own lock goes with it, a moment after the end of the pipe that its death closed.
func clearExpected(ctx context.Context, path string) error {
	for end := time.Now().Add(lockWait); ; {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		swept, err := sweepFolder(ctx, path)
		if swept || err != nil || time.Now().After(end) || !sleep(ctx, pollEvery) {
			return err
		}
	}
}

// endChildren signals the children that survived the lab, each with its own
// signal, and with SIGKILL after quitGrace.
func endChildren(ctx context.Context, children []order) error {
	for _, o := range children {
		o.Child.signal(syscall.Signal(o.Signal))
	}
	quitUntil := time.Now().Add(quitGrace)
	for {
		var left []*process
		for _, o := range children {
			if o.Child.alive() {
				left = append(left, o.Child)
			}
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(quitUntil) {
			for _, p := range left {
				p.signal(syscall.SIGKILL)
			}
		}
		if !sleep(ctx, pollEvery) {
			return fmt.Errorf("%d children of the lab have not ended after SIGKILL, the first is pid %d", len(left), left[0].PID)
		}
	}
}
