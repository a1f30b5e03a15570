// Package pgserver gives the lab a PostgreSQL to use: the one that DATABASE_URL
// names, or else a throwaway cluster of its own, made with the first server
// programs that work: those on this machine, then downloaded ones.
//
// A throwaway cluster trades durability for speed (fsync is off), listens where
// only this user reaches it, and is gone with its folder after Close. If the lab
// dies before that, package proc ends and removes it.
//
// The package serves and no more: it makes no tables, it does not tune a server
// that it was given, and it never installs anything outside its cache. Where
// DATABASE_URL is set it refuses to fall back to another server.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"chokepoint/internal/lab/proc"
)

// FolderPrefix is what the names of the clusters' folders begin with; see
// proc.Sweep.
const FolderPrefix = "chokepoint-"

// Config says where to look for a PostgreSQL. Its zero value with a Launcher
// looks everywhere.
type Config struct {
	// Launcher starts the server's processes and makes its folder. Required.
	Launcher *proc.Launcher
	// DatabaseURL is the server to use, as a URL or as key=value pairs. Empty
	// means a throwaway cluster.
	DatabaseURL string
	// TempParent is where a cluster's folder is made; empty means os.TempDir().
	TempParent string
	// LogPath gets the server's log; empty means a file in the cluster's folder,
	// which goes with it.
	LogPath string
	// BinDirs are the folders with postgres and initdb to try, best first. Nil
	// means to look in the usual places; an empty list that is not nil, nowhere.
	BinDirs []string
	// NoDownload refuses the download; what the cache has is used. See Prepare.
	NoDownload bool
	// RepositoryURL is the Maven repository to download from; empty means Maven
	// Central.
	RepositoryURL string
	// CacheDir keeps downloaded programs; empty means the user's cache folder, and
	// for root /var/cache/chokepoint, since the server's user cannot enter /root.
	CacheDir string
	// Network is a subnet that a cluster also serves by TCP, on port 5432 of every
	// address of its host, without a password. It is for hosts of a lab's own (package
	// netlab), where nobody else is: never for the machine's own network. URL stays
	// what the lab itself uses.
	Network netip.Prefix
	// Logger gets progress; nil means none.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Launcher == nil {
		return c, errors.New("pgserver: no launcher given")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.TempParent == "" {
		c.TempParent = os.TempDir()
	}
	if c.RepositoryURL == "" {
		c.RepositoryURL = mavenCentral
	}
	return c, nil
}

// cacheDir is where downloads are kept. It is asked for only by who needs one:
// an account without a home can use the programs of this machine.
func (c Config) cacheDir() (string, error) {
	switch {
	case c.CacheDir != "":
		return c.CacheDir, nil
	case os.Geteuid() == 0:
		return "/var/cache/chokepoint", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for the download: %w; set HOME", err)
	}
	return filepath.Join(dir, "chokepoint"), nil
}

// Server is a PostgreSQL that answered a query when it was opened.
type Server struct {
	url     string
	source  string
	version string

	// Of a throwaway cluster only.
	child  *proc.Child
	folder *proc.Folder

	once     sync.Once
	closeErr error
}

// URL is the connection string, for pgx. It may hold a password: do not print
// it.
func (s *Server) URL() string { return s.url }

// URLAt is the connection string for who reaches the server at an address of
// Config.Network. It holds no password.
func (s *Server) URLAt(addr netip.Addr) string {
	u := url.URL{Scheme: "postgres", User: url.User(clusterUser), Path: "/" + clusterDatabase, RawQuery: "sslmode=disable"}
	u.Host = netip.AddrPortFrom(addr, socketPort).String()
	return u.String()
}

// Source says where the server comes from: "DATABASE_URL",
// "local /usr/lib/postgresql/15/bin" or "embedded 17.5.0".
func (s *Server) Source() string { return s.source }

// Version is the server's version as it says itself, such as "15.18".
func (s *Server) Version() string { return s.version }

// Died is closed when the server's process has ended, by itself or by Close. It
// never is for the server of DATABASE_URL.
func (s *Server) Died() <-chan struct{} {
	if s.child == nil {
		return nil
	}
	return s.child.Done()
}

// Status is how the server's process ended, "running" before; see
// proc.Child.Status. It is empty for the server of DATABASE_URL.
func (s *Server) Status() string {
	if s.child == nil {
		return ""
	}
	return s.child.Status()
}

// LastLog returns the last n lines of the server's log, none for the server of
// DATABASE_URL.
func (s *Server) LastLog(n int) []string {
	if s.child == nil {
		return nil
	}
	return s.child.LastLog(n)
}

// closeGrace is how long PostgreSQL may take to end by a fast shutdown.
const closeGrace = 5 * time.Second

// Close ends a throwaway cluster and removes its folder. When the context ends
// it hurries, but still waits for both. It leaves the server of DATABASE_URL
// alone. It may be called more than once.
func (s *Server) Close(ctx context.Context) error {
	s.once.Do(func() {
		if s.child == nil {
			return
		}
		stopErr := s.child.Stop(ctx, closeGrace)
		// Remove ends whatever Stop could not.
		if s.closeErr = s.folder.Remove(context.WithoutCancel(ctx)); s.closeErr == nil {
			s.closeErr = stopErr
		}
	})
	return s.closeErr
}

// Open finds a PostgreSQL, starts it if need be, and waits until it answers. If
// there is none, the error is one line that says why each candidate was refused
// and what can be done. When the context ends, Open returns its cause and leaves
// no process and no folder.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.DatabaseURL != "" {
		return openExternal(ctx, cfg.DatabaseURL)
	}
	var refused []string
	refuse := func(source string, err error) {
		cfg.Logger.Warn("no PostgreSQL there", "source", source, "reason", err)
		refused = append(refused, source+": "+oneLine(err.Error()))
	}

	dirs := cfg.BinDirs
	if dirs == nil {
		dirs = findBinDirs(ctx, serverGlobs)
	}
	for _, dir := range dirs {
		source := "local " + dir
		s, err := openCluster(ctx, cfg, dir, source)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, stopped(ctx)
		}
		refuse(source, err)
	}
	if len(dirs) == 0 {
		refused = append(refused, noneInstalled)
	}

	dir, err := download(ctx, cfg)
	if err == nil {
		var s *Server
		if s, err = openCluster(ctx, cfg, dir, embedded); err == nil {
			return s, nil
		}
	}
	if ctx.Err() != nil {
		return nil, stopped(ctx)
	}
	refuse(embedded, err)
	return nil, none(refused)
}

const noneInstalled = "local: no postgres and initdb found"

// errNoDownload is why Config.NoDownload keeps the downloaded programs from being used.
var errNoDownload = errors.New("the download is not allowed, and the cache has none")

func stopped(ctx context.Context) error {
	return fmt.Errorf("start PostgreSQL: %w", context.Cause(ctx))
}

// none is the error when nothing serves.
func none(refused []string) error {
	return fmt.Errorf("no PostgreSQL to use (%s): set DATABASE_URL to a running server, "+
		"or install one (for example: apt-get install postgresql), or allow the download of PostgreSQL %s",
		strings.Join(refused, "; "), downloadVersion)
}

// oneLine puts a text of several lines into one, without lines that repeat.
func oneLine(text string) string {
	var lines []string
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !seen[line] {
			seen[line] = true
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// ask connects once and returns the server's version.
func ask(ctx context.Context, cfg *pgx.ConnConfig) (version string, err error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := conn.QueryRow(ctx, "show server_version").Scan(&version); err != nil {
		return "", err
	}
	// "15.18 (Debian 15.18-0+deb12u1)"
	version, _, _ = strings.Cut(version, " ")
	return version, nil
}
