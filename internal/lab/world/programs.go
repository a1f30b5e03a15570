package world

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// worldPrograms are the programs of a world, native or of containers.
var worldPrograms = []string{loadgen, "victim", "upstream"}

// CheckPrograms says whether the programs of a world are in a folder: before anything
// is made for them. An empty folder means the one that this program is in.
func CheckPrograms(dir string) error {
	_, err := locatePrograms(dir, worldPrograms)
	return err
}

// CheckGenerator is CheckPrograms for a Generator, which needs one program alone.
func CheckGenerator(dir string) error {
	_, err := locatePrograms(dir, []string{loadgen})
	return err
}

// FindPrograms finds binaries, by name, and the SHA-256 of each, before anything is
// started. An empty folder means the one that this program is in.
func FindPrograms(dir string, names ...string) (paths, hashes map[string]string, err error) {
	if paths, err = locatePrograms(dir, names); err != nil {
		return nil, nil, err
	}
	hashes = map[string]string{}
	for name, path := range paths {
		if hashes[name], err = hashFile(path); err != nil {
			return nil, nil, err
		}
	}
	return paths, hashes, nil
}

func locatePrograms(dir string, names []string) (paths map[string]string, err error) {
	if dir == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		dir = filepath.Dir(self)
	}
	paths = map[string]string{}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := exec.LookPath(path); err != nil {
			return nil, fmt.Errorf("no program %s in %s; build it with make build, or name the folder with -bin-dir", name, dir)
		}
		paths[name] = path
	}
	return paths, nil
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// victimEnv sets the victim's limits, and has its dumps print goroutine labels.
func (c Config) victimEnv() []string {
	env := []string{"GODEBUG=tracebacklabels=1"}
	if c.GoMaxProcs > 0 {
		env = append(env, "GOMAXPROCS="+strconv.Itoa(c.GoMaxProcs))
	}
	if c.GoMemLimit != "" {
		env = append(env, "GOMEMLIMIT="+c.GoMemLimit)
	}
	return env
}

// victimLimits is victimEnv by name.
func (c Config) victimLimits() map[string]string {
	limits := map[string]string{}
	for _, kv := range c.victimEnv() {
		name, value, _ := strings.Cut(kv, "=")
		limits[name] = value
	}
	return limits
}
