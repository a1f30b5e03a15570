package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// lastCommandWait bounds one command of a reaper.
const lastCommandWait = 60 * time.Second

// LastCommand is a command that the reaper runs if the lab is gone and has not
// cancelled it: what ends things that are no children of the lab, such as the
// containers of an engine.
type LastCommand struct {
	argv   []string
	reaper *Reaper
}

// AtLast gives the reaper a command for the end: argv[0] is an absolute path,
// and the command runs in / with the environment that the lab has now, without
// its CHOKEPOINT_ variables. It must do no harm where there is nothing left to
// do. Commands run one after the other in the order they were given, when the
// children are gone and the folders still there, each for a minute at most.
func (l *Launcher) AtLast(argv ...string) (*LastCommand, error) {
	if err := l.reaper.send(order{Run: argv}); err != nil {
		return nil, err
	}
	return &LastCommand{argv, l.reaper}, nil
}

// Cancel tells the reaper that the command is not needed any more. Like
// forgetFolder it is a courtesy.
func (c *LastCommand) Cancel() { _ = c.reaper.send(order{Cancel: c.argv}) }

// runLastCommands is the reaper's side.
func runLastCommands(commands [][]string) error {
	var errs []error
	for _, argv := range commands {
		errs = append(errs, runLastCommand(argv))
	}
	return errors.Join(errs...)
}

func runLastCommand(argv []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lastCommandWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = withoutLabVariables(os.Environ())
	cmd.Dir = "/"
	cmd.WaitDelay = outputDelay
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("not done after %s", lastCommandWait)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, lines[len(lines)-1])
}
