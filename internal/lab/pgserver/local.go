package pgserver

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// serverGlobs are where packages put the server's programs without putting them
// into PATH: Debian and Ubuntu, the PGDG packages of Red Hat, and Homebrew on
// Apple silicon and on Intel.
var serverGlobs = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
}

// pgConfigWait bounds pg_config, which only prints.
const pgConfigWait = 5 * time.Second

// Installed are the folders on this machine that hold a server's programs, that
// which Open tries first first.
func Installed(ctx context.Context) []string { return findBinDirs(ctx, serverGlobs) }

// findBinDirs returns the folders that hold both postgres and initdb: that of
// PATH, that of pg_config, then those of the patterns, the newest version first.
// A folder is named once, by its real path.
func findBinDirs(ctx context.Context, globs []string) []string {
	var candidates []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			candidates = append(candidates, filepath.Dir(path))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, pgConfigWait)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		candidates = append(candidates, strings.TrimSpace(string(out)))
	}
	for _, glob := range globs {
		dirs, err := filepath.Glob(glob)
		if err != nil {
			continue
		}
		slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(versionIn(b), versionIn(a)) })
		candidates = append(candidates, dirs...)
	}

	var found []string
	for _, dir := range candidates {
		dir, err := filepath.EvalSymlinks(dir)
		if err == nil && hasServer(dir) && !slices.Contains(found, dir) {
			found = append(found, dir)
		}
	}
	return found
}

// versionIn is the version in a path such as /usr/lib/postgresql/9.6/bin or
// /opt/homebrew/opt/postgresql@17/bin; 0 if there is none.
func versionIn(path string) float64 {
	name := filepath.Base(filepath.Dir(path))
	v, err := strconv.ParseFloat(name[strings.LastIndexAny(name, "@-")+1:], 64)
	if err != nil {
		return 0
	}
	return v
}

// hasServer says whether a folder holds the two programs that are needed.
func hasServer(dir string) bool {
	for _, name := range []string{"postgres", "initdb"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}

// account is whom the server runs as.
type account struct {
	name string
	// credential is nil if that is the caller.
	credential *syscall.Credential
}

// serverAccount chooses the account: PostgreSQL refuses to run as root, so root
// lends it that of postgres, and without one that of nobody.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return account{name, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
		}
	}
	return account{}, fmt.Errorf("PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as; run the lab as an ordinary user")
}

// give makes the account the owner of a file.
func (a account) give(path string) error {
	if a.credential == nil {
		return nil
	}
	return os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
}

// canEnter returns an error that names the folder on the way to dir which the
// account may not enter.
func (a account) canEnter(dir, remedy string) error {
	if a.credential == nil {
		return nil
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		mode, allowed := info.Mode().Perm(), os.FileMode(0o001)
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			switch {
			case stat.Uid == a.credential.Uid:
				allowed = 0o100
			case stat.Gid == a.credential.Gid:
				allowed = 0o010
			}
		}
		if mode&allowed == 0 {
			return fmt.Errorf("user %s, whom root lends the server, cannot enter %s (mode %04o); %s", a.name, at, mode, remedy)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}
