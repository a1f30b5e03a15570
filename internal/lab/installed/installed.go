// Package installed finds the programs that the lab runs as they come from the
// distribution: balancers, and a browser for the pages. It never installs one;
// its error says how to.
package installed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// versionWait bounds a program that only prints its version. A browser that is
// cold takes seconds.
const versionWait = 10 * time.Second

// beyondPath are where Debian has programs that it keeps out of the PATH of
// whoever is not root.
var beyondPath = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}

// Program is one that a distribution has.
type Program struct {
	// Title is what a reader calls it.
	Title string
	// Names of the executable, in the order in which they are tried.
	Names []string
	// Package is Debian's.
	Package string
	// VersionFlag makes it print its version.
	VersionFlag string
}

// The programs of the lab.
var (
	Nginx    = Program{"nginx", []string{"nginx"}, "nginx", "-v"}
	HAProxy  = Program{"HAProxy", []string{"haproxy"}, "haproxy", "-v"}
	Chromium = Program{"Chromium", []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}, "chromium", "--version"}
)

// Path is where the program is. The error is one line that says how to install
// it.
func (p Program) Path() (string, error) {
	for _, name := range p.Names {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
		for _, dir := range beyondPath {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("%s is not installed; %s", p.Title, p.Remedy())
}

// Remedy says how to install the program.
func (p Program) Remedy() string {
	return fmt.Sprintf("on Debian: apt-get install %s", p.Package)
}

var versionPattern = regexp.MustCompile(`[0-9]+(\.[0-9]+)+[^\s,]*`)

// Version asks the program at path for its version, such as 1.22.1.
func (p Program) Version(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, p.VersionFlag)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	version := versionPattern.FindString(string(out))
	switch {
	case err != nil && ctx.Err() != nil:
		return "", fmt.Errorf("%s %s: no answer within %s", path, p.VersionFlag, versionWait)
	case err != nil:
		return "", fmt.Errorf("%s %s: %w", path, p.VersionFlag, err)
	case version == "":
		line, _, _ := strings.Cut(string(out), "\n")
		return "", fmt.Errorf("%s %s said %.80q, which has no version in it", path, p.VersionFlag, line)
	}
	return version, nil
}
