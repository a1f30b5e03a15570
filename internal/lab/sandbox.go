package lab

import (
	"context"
	"io"
	"os"
	"time"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/pgserver"
	"chokepoint/internal/lab/proc"
)

const (
	// sandboxFolderPrefix is of the temporary folders of sandboxes.
	sandboxFolderPrefix = "chokepoint-sandbox-"
	// sandboxGrace is what a run may take to end in order: it stops its load generator,
	// asks for the counts, writes, and stops its programs, each of which has a bound.
	sandboxGrace = time.Minute
	// scratchVariable tells a lab in a sandbox where the folders of its runs are made:
	// in one that the lab outside has made, and whose reaper outlives both.
	scratchVariable = "CHOKEPOINT_SANDBOX_SCRATCH"
)

// InSandbox runs this program again, with these arguments, in a sandbox of package
// netlab: network namespaces of its own, with nothing but a loopback. It returns the
// exit code. Results come to lie in resultsDir as they do without one. If this lab is
// killed, all that runs in the sandbox goes with it, and the reaper removes its folders.
// Where no sandbox can be had, the error says why, in one line.
func (l *Lab) InSandbox(ctx context.Context, resultsDir string, args []string, stdout, stderr io.Writer) (code int, err error) {
	scratch, err := l.launcher.CreateFolder(resultsDir, runFolderPrefix)
	if err != nil {
		return 0, err
	}
	defer l.remove(ctx, scratch)
	temporary, err := l.launcher.CreateFolder(os.TempDir(), sandboxFolderPrefix)
	if err != nil {
		return 0, err
	}
	defer l.remove(ctx, temporary)
	// Root's PostgreSQL is another user's, and must get to its own folder in there.
	if err := os.Chmod(temporary.Path(), 0o711); err != nil {
		return 0, err
	}
	env := append(withoutPostgres(os.Environ()), "TMPDIR="+temporary.Path(), scratchVariable+"="+scratch.Path())
	return netlab.RunIn(ctx, netlab.Spec{Args: args, Stdout: stdout, Stderr: stderr, Env: env, Grace: sandboxGrace})
}

// PreparePostgres sees to it that what runs in a sandbox, where there is no way to a
// download, finds a PostgreSQL. The error is one line with what to install.
func (l *Lab) PreparePostgres(ctx context.Context) error {
	if len(pgserver.Installed(ctx)) == 0 {
		l.progress("no PostgreSQL on this machine: one is downloaded, unless it has been")
	}
	return pgserver.Prepare(ctx, pgserver.Config{Launcher: l.launcher})
}

func (l *Lab) remove(ctx context.Context, folder *proc.Folder) {
	removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), proc.RemoveWait)
	defer cancel()
	if err := folder.Remove(removing); err != nil {
		l.progress("%v", err)
	}
}

// scratch is where the folders of runs are made whose results go to resultsDir. It is
// on the same file system, since a run is published by rename.
func scratch(resultsDir string) string {
	if netlab.Inside() {
		if dir := os.Getenv(scratchVariable); dir != "" {
			return dir
		}
	}
	return resultsDir
}

// leftovers are the places where dead labs leave folders. A lab in a sandbox looks for
// none: it cannot see the processes that still run from one.
func leftovers(resultsDir string) []struct{ parent, prefix string } {
	if netlab.Inside() {
		return nil
	}
	return []struct{ parent, prefix string }{
		{os.TempDir(), pgserver.FolderPrefix}, {os.TempDir(), sandboxFolderPrefix},
		{resultsDir, runFolderPrefix}, {resultsDir, comparisonFolderPrefix},
	}
}
