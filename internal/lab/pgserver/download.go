package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"

	"chokepoint/internal/lab/proc"
)

// DownloadArg is the hidden first argument with which the lab's own binary
// downloads PostgreSQL. The main of every program that calls Open begins with
//
//	if len(os.Args) > 1 && os.Args[1] == pgserver.DownloadArg {
//		os.Exit(pgserver.RunDownload(os.Args[2:], os.Stderr))
//	}
const DownloadArg = "__download"

const (
	// downloadVersion is the PostgreSQL that is downloaded: the newest of the major
	// version 17 that embedded-postgres knows.
	downloadVersion = string(embeddedpostgres.V17)
	embedded        = "embedded " + downloadVersion
	// mavenCentral is where embedded-postgres finds its archives.
	mavenCentral = "https://repo1.maven.org/maven2"
	// downloadPrefix begins the names of unfinished downloads in the cache.
	downloadPrefix = "download-"
	// downloadWait bounds the download (some 30 MB) with the unpacking.
	downloadWait = 10 * time.Minute
	// A repository that cannot be reached is given up after connectWait; one that
	// does not answer, after answerWait.
	connectWait = 5 * time.Second
	answerWait  = 20 * time.Second
)

// Prepare sees to it that an Open with the same Config that has no network, and thus
// NoDownload, finds programs: where this machine has none it downloads them to the
// cache, if they are not there yet. The error is one line that says why there is
// nothing to use, and what to install.
func Prepare(ctx context.Context, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	dirs := cfg.BinDirs
	if dirs == nil {
		dirs = findBinDirs(ctx, serverGlobs)
	}
	if len(dirs) > 0 {
		return nil
	}
	_, err = download(ctx, cfg)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("download PostgreSQL: %w", context.Cause(ctx))
	}
	return fmt.Errorf("no PostgreSQL to use (%s; %s: %s): install one (for example: apt-get install postgresql)",
		noneInstalled, embedded, oneLine(err.Error()))
}

// download returns the folder with the downloaded programs. It downloads them if
// the cache does not have them. The cache holds whole versions only.
func download(ctx context.Context, cfg Config) (binDir string, err error) {
	cache, err := cfg.cacheDir()
	if err != nil {
		return "", err
	}
	version := filepath.Join(cache, fmt.Sprintf("postgresql-%s-%s-%s", downloadVersion, runtime.GOOS, runtime.GOARCH))
	binDir = filepath.Join(version, "bin")
	if hasServer(binDir) {
		return binDir, nil
	}
	if cfg.NoDownload {
		return "", errNoDownload
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	if _, err := proc.Sweep(ctx, cache, downloadPrefix); err != nil {
		cfg.Logger.Warn("unfinished downloads are left in the cache", "reason", err)
	}
	folder, err := cfg.Launcher.CreateFolder(cache, downloadPrefix)
	if err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, folder.Remove(context.WithoutCancel(ctx)))
	}()

	cfg.Logger.Info("downloading PostgreSQL", "version", downloadVersion, "from", cfg.RepositoryURL, "to", cache)
	unpacked := filepath.Join(folder.Path(), "postgresql")
	if err := fetch(ctx, cfg, folder.Path(), unpacked); err != nil {
		return "", err
	}
	if !hasServer(filepath.Join(unpacked, "bin")) {
		return "", fmt.Errorf("the archive from %s has no postgres and initdb", cfg.RepositoryURL)
	}
	// Another lab may have been faster; its copy is as good.
	if err := os.Rename(unpacked, version); err != nil && !hasServer(binDir) {
		return "", fmt.Errorf("cache: %w", err)
	}
	return binDir, nil
}

// fetch runs this program once more to download and unpack. embedded-postgres
// cannot be cancelled, leaves a file in TMPDIR, and may end the process: it gets
// a process and a folder of its own.
func fetch(ctx context.Context, cfg Config, folder, unpacked string) error {
	limit := fmt.Errorf("not done after %s", downloadWait)
	ctx, cancel := context.WithTimeoutCause(ctx, downloadWait, limit)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child, err := cfg.Launcher.Start(ctx, proc.Spec{
		Name: "download", Path: self, Args: []string{DownloadArg, cfg.RepositoryURL, folder, unpacked},
		Env: append(os.Environ(), "TMPDIR="+folder), LogPath: filepath.Join(folder, "download.log"),
	})
	if err != nil {
		return err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), child.Stop(context.WithoutCancel(ctx), 0))
	}
	if child.Err() != nil {
		return fmt.Errorf("download: %s", strings.Join(append(child.LastLog(1), child.Status()), "; "))
	}
	return nil
}

// RunDownload downloads and unpacks PostgreSQL: args are the repository's URL,
// the folder for the archive, and the folder to make. It returns the exit code,
// 0 or, with one line on stderr, 1 or 2. It changes the umask and the HTTP
// transport of the process, which is made for this alone.
func RunDownload(args []string, stderr io.Writer) int {
	if len(args) != 3 {
		fmt.Fprintf(stderr, "%s: %d arguments, want 3: repository, archive folder, target folder\n", DownloadArg, len(args))
		return 2
	}
	repository, archives, target := args[0], args[1], args[2]
	// The server's user must be able to read what root unpacks.
	syscall.Umask(0o022)
	transport := &causeKeeper{next: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: connectWait}).DialContext,
		TLSHandshakeTimeout:   connectWait,
		ResponseHeaderTimeout: answerWait,
	}}
	http.DefaultTransport = transport

	// The library has no "download only". A runtime folder below a file of the
	// archive makes Start fail after it has unpacked, before it runs anything.
	err := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(embeddedpostgres.V17).
		BinaryRepositoryURL(repository).
		CachePath(archives).
		BinariesPath(target).
		RuntimePath(filepath.Join(target, "bin", "postgres", "never")).
		Port(0).
		Logger(io.Discard)).Start()
	switch {
	case transport.cause != nil:
		// The library hides why a request failed, and takes an archive whose checksum
		// cannot be had.
		err = transport.cause
	case err != nil && strings.HasPrefix(err.Error(), "unable to create runtime directory"):
		return 0
	case err == nil:
		err = errors.New("embedded-postgres started a server where it should only have unpacked one")
	}
	fmt.Fprintln(stderr, oneLine(err.Error()))
	return 1
}

// causeKeeper is a transport that remembers the first failure. The library
// sends one request after the other.
type causeKeeper struct {
	next  http.RoundTripper
	cause error
}

// RoundTrip implements http.RoundTripper.
func (k *causeKeeper) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := k.next.RoundTrip(req)
	if k.cause == nil {
		switch {
		case err != nil:
			k.cause = fmt.Errorf("GET %s: %w", req.URL.Redacted(), err)
		case resp.StatusCode >= http.StatusBadRequest:
			k.cause = fmt.Errorf("GET %s: %s", req.URL.Redacted(), resp.Status)
		}
	}
	return resp, err
}
