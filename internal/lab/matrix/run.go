package matrix

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"chokepoint/internal/result"
)

// Options say how cases are carried out.
type Options struct {
	// Dir is the run's folder. The cases' folders are made in it.
	Dir string
	// Parallel is how many cases run at a time, one at least.
	Parallel int
	// Progress is told what happens; required.
	Progress func(format string, args ...any)
}

const (
	// filesPerCase is how many files a case may have open at a time: with three hosts,
	// two captures and two programs it was seen to have 15. filesBeside are the process's own.
	filesPerCase = 20
	filesBeside  = 24
)

// Within is how many of so many cases at a time fit into a limit of open files. The
// error is that not even one does.
func Within(parallel int, files uint64) (int, error) {
	if files < filesBeside+filesPerCase {
		return 0, fmt.Errorf("the limit of open files is %d and a case takes %d: raise it (ulimit -n)", files, filesBeside+filesPerCase)
	}
	return int(min(uint64(parallel), (files-filesBeside)/filesPerCase)), nil
}

// ErrNotRun is the cause in the failure of a case that had not begun, or had not ended,
// when the run was cut short.
var ErrNotRun = errors.New("not run to its end")

// Run carries the cases out and returns them in their order. When ctx ends, those that
// have ended keep what they found and the others have a Failure. finished, if not nil,
// is called with each that ended by itself, one at a time. The error is of what kept
// all of them from running.
func Run(ctx context.Context, cases []Case, opts Options, finished func(result.Case) error) ([]result.Case, error) {
	cases = append([]Case(nil), cases...)
	if err := prepare(cases); err != nil {
		return nil, err
	}
	var (
		slots = make(chan struct{}, max(opts.Parallel, 1))
		wg    sync.WaitGroup
		mu    sync.Mutex // of finished, ended and failed
		ended int
		fails error
	)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	results := make([]result.Case, len(cases))
	for _, i := range longestFirst(cases) {
		c := cases[i]
		results[i] = c.Case
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			results[i].Failure = unfinished(ctx)
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			one := c.Case
			err := carryOut(ctx, c, opts.Dir, &one)
			mu.Lock()
			defer mu.Unlock()
			results[i] = one
			if err != nil && ctx.Err() != nil {
				results[i] = c.Case // half of a case is none
				results[i].Failure = unfinished(ctx)
				return
			}
			ended++
			opts.Progress("%s (%d of %d)", line(one), ended, len(cases))
			if finished != nil {
				if err := finished(one); err != nil && fails == nil {
					fails = err
					stop(err)
				}
			}
		})
	}
	wg.Wait()
	return results, fails
}

// longestFirst are the places of the cases in the order in which they begin.
func longestFirst(cases []Case) []int {
	order := make([]int, len(cases))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(cases[b].Length, cases[a].Length) })
	return order
}

// carryOut runs one case in its folder. What it could not do stays with the case.
func carryOut(ctx context.Context, c Case, dir string, one *result.Case) error {
	folder := filepath.Join(dir, filepath.FromSlash(c.Evidence))
	err := os.MkdirAll(folder, 0o755)
	if err == nil {
		err = c.Run(ctx, folder, one)
	}
	if err != nil {
		one.OK, one.Failure = false, err.Error()
	}
	return err
}

// unfinished is the Failure of a case that the end of ctx kept from its own.
func unfinished(ctx context.Context) string {
	return fmt.Sprintf("%v: %v", ErrNotRun, context.Cause(ctx))
}

// line is a case in one line of progress.
func line(c result.Case) string {
	switch {
	case c.Failure != "":
		return fmt.Sprintf("%s: could not be carried out: %s", Key(c), c.Failure)
	case !c.OK:
		return fmt.Sprintf("%s: %s; want %s", Key(c), c.Got, c.Want)
	}
	return fmt.Sprintf("%s: %s", Key(c), c.Got)
}
