package proc

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// folderTries bounds the names tried for a new folder.
	folderTries = 10
	// RemoveWait bounds the removal of a folder, with the end of what runs in it.
	RemoveWait = 15 * time.Second
)

// Folder is a temporary folder of this lab. The lab holds a lock (flock(2)) on
// it as long as it lives, which no child inherits: a folder whose lock can be
// taken belongs to a lab that is dead.
type Folder struct {
	path   string
	lock   *os.File
	reaper *Reaper
}

// CreateFolder makes a folder PREFIX<pid>-<random> in parent, with mode 0700,
// and locks it. The reaper knows of it before it is there, so that a lab that is
// killed at any moment leaves none. Remove removes it.
func (l *Launcher) CreateFolder(parent, prefix string) (*Folder, error) {
	// The working folders of processes are compared with the path, and those have
	// no symbolic links in them.
	resolved, err := filepath.EvalSymlinks(parent)
	if err != nil {
		return nil, fmt.Errorf("temporary folder: %w", err)
	}
	if resolved, err = filepath.Abs(resolved); err != nil {
		return nil, fmt.Errorf("temporary folder: %w", err)
	}
	for range folderTries {
		var random [4]byte
		rand.Read(random[:])
		path := filepath.Join(resolved, fmt.Sprintf("%s%d-%s", prefix, os.Getpid(), hex.EncodeToString(random[:])))
		f, err := l.tryFolder(path)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, errNotMine) {
			return nil, fmt.Errorf("temporary folder: %w", err)
		}
	}
	return nil, fmt.Errorf("temporary folder: no free name in %s in %d tries", resolved, folderTries)
}

// errNotMine says that another process has the folder.
var errNotMine = errors.New("the folder belongs to another process")

// tryFolder makes one folder. Between mkdir and flock a Sweep of another lab may
// take it for a dead one: then the lock is taken, or the folder is another one
// or gone, and the next name is tried.
func (l *Launcher) tryFolder(path string) (_ *Folder, err error) {
	if err := l.reaper.expectFolder(path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.reaper.forgetFolder(path)
		}
	}()
	if err := os.Mkdir(path, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, errNotMine
		}
		return nil, err
	}
	lock, err := lockFolder(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errNotMine
		}
		if !errors.Is(err, errNotMine) {
			os.Remove(path)
		}
		return nil, err
	}
	if err := l.reaper.watchFolder(path); err != nil {
		lock.Close()
		os.Remove(path)
		return nil, err
	}
	return &Folder{path: path, lock: lock, reaper: l.reaper}, nil
}

// lockFolder opens a folder and takes its lock without waiting. It returns
// errNotMine if somebody else has it, or has put another folder in its place.
// The file is close-on-exec, as every file that Go opens.
func lockFolder(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errNotMine
		}
		return nil, fmt.Errorf("lock %s: %w; set TMPDIR to a folder on a local disk", path, err)
	}
	locked, errLocked := f.Stat()
	named, errNamed := os.Lstat(path)
	if err := errors.Join(errLocked, errNamed); err != nil || !os.SameFile(locked, named) {
		f.Close()
		return nil, errNotMine
	}
	return f, nil
}

// Path is the folder's absolute path, without symbolic links.
func (f *Folder) Path() string { return f.path }

// Remove ends what still runs from the folder and removes it, for at most
// RemoveWait. If it fails the reaper will try again when the lab is gone. It may
// be called more than once.
func (f *Folder) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, RemoveWait)
	defer cancel()
	if err := clearFolder(ctx, f.path); err != nil {
		return err
	}
	f.lock.Close()
	f.reaper.forgetFolder(f.path)
	return nil
}

// Publish gives the folder its lasting name and takes it out of the reaper's
// hands: from then on it stays. An existing name is an fs.ErrExist, and the
// folder stays temporary.
func (f *Folder) Publish(path string) error {
	// Rename would replace an empty folder.
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	if err := os.Chmod(f.path, 0o755); err != nil {
		return err
	}
	if err := os.Rename(f.path, path); err != nil {
		if errors.Is(err, syscall.ENOTEMPTY) {
			return fmt.Errorf("%s: %w", path, fs.ErrExist)
		}
		return err
	}
	f.reaper.forgetFolder(f.path)
	f.lock.Close()
	return nil
}

// clearFolder ends the processes that run from a folder and removes it, again
// and again until both are gone or the context ends. They get a signal with
// which they clean up after themselves, and SIGKILL after quitGrace.
func clearFolder(ctx context.Context, path string) error {
	quitUntil := time.Now().Add(quitGrace)
	asked := map[process]bool{}
	for {
		left := processesIn(path)
		for _, p := range left {
			if time.Now().After(quitUntil) {
				p.signal(syscall.SIGKILL)
			} else if sig := endSignal(p, left); sig != 0 && !asked[p] {
				p.signal(sig)
				asked[p] = true
			}
		}
		var err error
		if len(left) == 0 {
			removeSharedMemory(path)
			if err = os.RemoveAll(path); err == nil {
				return nil
			}
		}
		if !sleep(ctx, pollEvery) {
			if err != nil {
				return fmt.Errorf("remove temporary folder: %w", err)
			}
			return fmt.Errorf("remove temporary folder %s: %d processes still run from it, the first is pid %d", path, len(left), left[0].PID)
		}
	}
}

// endSignal is the signal with which a process of a folder ends without leaving
// shared memory behind: an immediate shutdown for a server (postgres(1)), and
// SIGTERM for initdb, which then waits for the postgres that it runs. That one
// gets no signal (0) as long as its initdb is there.
func endSignal(p process, all []process) syscall.Signal {
	if p.name == "initdb" {
		return syscall.SIGTERM
	}
	for _, other := range all {
		if other.name == "initdb" {
			return 0
		}
	}
	return syscall.SIGQUIT
}

// Sweep removes the folders that dead labs of this user have left in parent,
// and ends what still runs from them. It returns the removed paths, and an error
// of one line for each folder that could not be removed. The folders of living
// labs, and whatever else begins with the prefix, it leaves alone.
func Sweep(ctx context.Context, parent, prefix string) (removed []string, err error) {
	parent, err = filepath.EvalSymlinks(parent)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	ours := regexp.MustCompile("^" + regexp.QuoteMeta(prefix) + "[0-9]+-[0-9a-f]{8}$")
	var errs []error
	for _, entry := range entries {
		if !entry.IsDir() || !ours.MatchString(entry.Name()) {
			continue
		}
		path := filepath.Join(parent, entry.Name())
		swept, err := sweepFolder(ctx, path)
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep: %w", err))
		}
		if swept {
			removed = append(removed, path)
		}
	}
	return removed, errors.Join(errs...)
}

// sweepFolder removes one folder if its lab is dead.
func sweepFolder(ctx context.Context, path string) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return false, nil // gone meanwhile
	}
	// Another user's folder is that user's to sweep, even for root: anybody may
	// make one in a shared /tmp.
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
		return false, nil
	}
	lock, err := lockFolder(path)
	if errors.Is(err, errNotMine) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Close()
	ctx, cancel := context.WithTimeout(ctx, RemoveWait)
	defer cancel()
	if err := clearFolder(ctx, path); err != nil {
		return false, err
	}
	return true, nil
}
