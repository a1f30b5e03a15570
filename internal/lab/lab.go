// Package lab runs experiments and keeps their results: a run happens in a
// temporary folder beside its siblings and gets its lasting name when it is
// complete, so a results folder holds whole runs or none. What happens in a run
// is lab/scenario; what a run says is evidence/report.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"chokepoint/internal/evidence/report"
	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/lab/scenario"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

const (
	runFolderPrefix = ".chokepoint-run-"
	// nameTries bounds the search for a free name: that many runs can begin in one
	// second.
	nameTries = 1000
	timestamp = "20060102t150405Z"
)

// Lab starts processes and keeps results.
type Lab struct {
	reaper   *proc.Reaper
	launcher *proc.Launcher
	progress func(format string, args ...any)
	show     *Show // nil: nobody watches
}

// Open starts the reaper, which ends and removes what a lab leaves behind
// however it ends, and sweeps what dead labs have left in spite of theirs.
func Open(ctx context.Context, resultsDir string, progress func(format string, args ...any)) (*Lab, error) {
	if err := writable(resultsDir); err != nil {
		return nil, err
	}
	for _, place := range leftovers(resultsDir) {
		removed, err := proc.Sweep(ctx, place.parent, place.prefix)
		for _, path := range removed {
			progress("swept %s, which a dead lab had left", path)
		}
		if err != nil {
			progress("%v", err)
		}
	}
	reaper, err := proc.StartReaper()
	if err != nil {
		return nil, err
	}
	return &Lab{reaper: reaper, launcher: proc.NewLauncher(reaper), progress: progress}, nil
}

// writable makes the results folder and finds out whether a file can be put
// there: after a run of minutes is the wrong time to learn that it cannot.
func writable(dir string) error {
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		var probe *os.File
		if probe, err = os.CreateTemp(dir, ".probe-*"); err == nil {
			probe.Close()
			err = os.Remove(probe.Name())
		}
	}
	if err != nil {
		return fmt.Errorf("cannot write results to %s: %w; choose another folder with -results", dir, errors.Unwrap(err))
	}
	return nil
}

// Close ends the launcher and the reaper.
func (l *Lab) Close() error {
	l.launcher.Close()
	return l.reaper.Close()
}

// Exhaustion runs the exhaustion scenario once. number tells runs of one
// comparison apart. It returns the run's folder and its summary. An error means
// that there is no folder: nothing was measured.
func (l *Lab) Exhaustion(ctx context.Context, settings scenario.Settings, number int) (string, result.Summary, error) {
	run := scenario.Run{Settings: settings, Progress: l.progress, Start: l.starter(settings.Runtime), Lose: losePort, Live: l.show.view()}
	name := fmt.Sprintf("%s-%s", scenario.Exhaustion, settings.Profile.Name)
	dir, summary, err := l.run(ctx, settings.ResultsDir, name, number, run.Into, func(w world.Description) result.Manifest {
		return newManifest(settings.Seed, settings.Effective(), w)
	})
	if err == nil {
		l.show.ran(dir, summary)
	}
	return dir, summary, err
}

// losePort is what makes a path lose packets; it is had in a sandbox alone.
func losePort(port uint16, share float64) (scenario.Lossy, error) {
	loss, err := netlab.LosePort(port, share)
	if err != nil {
		return nil, err // and no nil pointer in an interface, which would not be nil
	}
	return loss, nil
}

// Attach runs the experiment on a service that is not ours; see scenario.Attach. It
// returns what Exhaustion does.
func (l *Lab) Attach(ctx context.Context, settings scenario.AttachSettings) (string, result.Summary, error) {
	run := scenario.Attach{Settings: settings, Progress: l.progress, Start: func(dir string) (scenario.Generator, error) {
		return world.NewGenerator(settings.BinDir, dir, l.launcher)
	}}
	name := fmt.Sprintf("%s-%s", scenario.AttachName, settings.Name)
	return l.run(ctx, settings.ResultsDir, name, 1, run.Into, func(w world.Description) result.Manifest {
		return newManifest(0, settings.Effective(), w)
	})
}

// run makes the folder of a run, has into fill it, and publishes it under name and
// the first number that is free.
func (l *Lab) run(ctx context.Context, resultsDir, name string, number int,
	into func(ctx context.Context, dir string) (scenario.Outcome, error), describe func(world.Description) result.Manifest) (string, result.Summary, error) {
	folder, err := l.launcher.CreateFolder(scratch(resultsDir), runFolderPrefix)
	if err != nil {
		return "", result.Summary{}, err
	}
	dir, summary, err := fill(ctx, folder, resultsDir, name, number, into, describe)
	if err != nil {
		l.remove(ctx, folder)
	}
	return dir, summary, err
}

func fill(ctx context.Context, folder *proc.Folder, resultsDir, name string, number int,
	into func(ctx context.Context, dir string) (scenario.Outcome, error), describe func(world.Description) result.Manifest) (string, result.Summary, error) {
	started := time.Now()
	outcome, err := into(ctx, folder.Path())
	if err != nil {
		return "", result.Summary{}, withRemedy(err)
	}
	manifest := describe(outcome.World)
	prefix := fmt.Sprintf("%s-%s", started.UTC().Format(timestamp), name)
	dir, err := publish(folder, resultsDir, prefix, number, func(id string) error {
		outcome.Summary.Run.ID, manifest.RunID = id, id
		if err := result.WriteJSON(filepath.Join(folder.Path(), result.ManifestFile), manifest); err != nil {
			return err
		}
		if err := result.WriteJSON(filepath.Join(folder.Path(), result.SummaryFile), outcome.Summary); err != nil {
			return err
		}
		return writeReport(folder.Path())
	})
	return dir, outcome.Summary, withRemedy(err)
}

// withRemedy adds what to do about a disk that became full in the middle. What a
// sandbox lacks says so itself, and of namespaces the kernel says ENOSPC too.
func withRemedy(err error) error {
	_, sandbox := errors.AsType[*netlab.Unavailable](err)
	if errors.Is(err, syscall.ENOSPC) && !sandbox {
		return fmt.Errorf("the result is not kept: %w; make room there, or choose another folder with -results", err)
	}
	return err
}

// starter starts the world that a runtime names.
func (l *Lab) starter(runtime string) scenario.Starter {
	return func(ctx context.Context, cfg world.Config) (world.World, error) {
		// A nil pointer in an interface would not be nil.
		if runtime == "compose" {
			w, err := world.StartCompose(ctx, cfg, l.launcher)
			if err != nil {
				return nil, err
			}
			return w, nil
		}
		w, err := world.StartNative(ctx, cfg, l.launcher)
		if err != nil {
			return nil, err
		}
		return w, nil
	}
}

// publish completes a folder under the first free name and gives it that name.
func publish(folder *proc.Folder, parent, prefix string, number int, complete func(id string) error) (string, error) {
	for n := number; n < number+nameTries; n++ {
		id := fmt.Sprintf("%s-%d", prefix, n)
		path := filepath.Join(parent, id)
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		if err := complete(id); err != nil {
			return "", err
		}
		err := folder.Publish(path)
		if errors.Is(err, fs.ErrExist) {
			continue // another lab was faster
		}
		return path, err
	}
	return "", fmt.Errorf("no free name for %s in %s in %d tries", prefix, parent, nameTries)
}

// WriteReport renders both reports of a run's or a comparison's folder anew, from
// the other files in it. What of them is there and cannot be read is in malformed, and
// is said in the reports.
func WriteReport(dir string) (malformed []error, err error) {
	render := report.Run
	if _, err := os.Stat(filepath.Join(dir, result.ComparisonFile)); err == nil {
		render = report.Comparison
	}
	rendered, err := render(dir)
	if err != nil {
		return nil, err
	}
	if err := result.WriteFile(filepath.Join(dir, result.ReportFile), []byte(rendered.Markdown)); err != nil {
		return nil, err
	}
	return rendered.Malformed, result.WriteFile(filepath.Join(dir, result.PageFile), []byte(rendered.HTML))
}

// writeReport is for a folder that this lab has just filled.
func writeReport(dir string) error {
	_, err := WriteReport(dir)
	return err
}
