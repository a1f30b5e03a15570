package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"chokepoint/internal/lab/proc"
)

const (
	// clusterUser and clusterDatabase are whom and what the lab connects as and to.
	clusterUser     = "chokepoint"
	clusterDatabase = "postgres"
	// socketPort is a part of the socket's name, .s.PGSQL.5432, and the port of
	// Config.Network.
	socketPort = 5432
	// startWait bounds initdb and the server's start together. They take one to
	// two seconds on an idle machine.
	startWait = 60 * time.Second
	// askEvery and askWait: how often, and how long, a starting server is asked.
	askEvery = 20 * time.Millisecond
	askWait  = 2 * time.Second
	// portTries bounds the ports that are tried where the socket cannot be used.
	portTries = 5
	// linesInErrors is how many log lines an error shows.
	linesInErrors = 3
)

// maxSocketPath is how long the path of a Unix socket may be, in bytes: 107 on
// Linux, 103 on macOS. The rest of the array is a NUL.
const maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// cluster is a throwaway cluster while it is being made.
type cluster struct {
	cfg     Config
	binDir  string
	account account
	folder  *proc.Folder
	child   *proc.Child
	// password is empty if the server listens on the socket alone, which only its
	// owner and root can reach.
	password string
	port     int // of 127.0.0.1 where password is set
}

// openCluster makes a cluster with the programs in binDir, starts it, and waits
// until it answers. If it fails, nothing is left of it.
func openCluster(ctx context.Context, cfg Config, binDir, source string) (_ *Server, err error) {
	limit := fmt.Errorf("not ready after %s", startWait)
	ctx, cancel := context.WithTimeoutCause(ctx, startWait, limit)
	defer cancel()

	c := &cluster{cfg: cfg, binDir: binDir}
	if c.account, err = serverAccount(); err != nil {
		return nil, err
	}
	if err := c.account.canEnter(cfg.TempParent, "set TMPDIR to a folder that everybody may enter, such as /tmp"); err != nil {
		return nil, err
	}
	if err := c.account.canEnter(binDir, "make it readable, or set DATABASE_URL"); err != nil {
		return nil, err
	}
	if c.folder, err = cfg.Launcher.CreateFolder(cfg.TempParent, FolderPrefix); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.abandon(context.WithoutCancel(ctx)))
		}
	}()
	if !c.socketUsable() {
		c.password = rand.Text()
	}
	if err := c.initdb(ctx); err != nil {
		return nil, err
	}
	if err := c.admitNetwork(); err != nil {
		return nil, err
	}
	version, err := c.start(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Logger.Info("PostgreSQL serves", "source", source, "version", version)
	return &Server{url: c.url(), source: source, version: version, child: c.child, folder: c.folder}, nil
}

// abandon ends and removes a cluster that did not come up.
func (c *cluster) abandon(ctx context.Context) error {
	if c.child != nil {
		if err := c.child.Stop(ctx, closeGrace); err != nil {
			return err
		}
	}
	return c.folder.Remove(ctx)
}

func (c *cluster) dataDir() string   { return filepath.Join(c.folder.Path(), "data") }
func (c *cluster) socketDir() string { return filepath.Join(c.folder.Path(), "run") }

// socketUsable says whether the socket's path fits, and can be written in a
// connection string and in a setting, where a comma separates folders.
func (c *cluster) socketUsable() bool {
	socket := filepath.Join(c.socketDir(), ".s.PGSQL."+strconv.Itoa(socketPort))
	return len(socket) <= maxSocketPath && !strings.ContainsAny(socket, ",\"\\")
}

// initdb makes the cluster's files.
func (c *cluster) initdb(ctx context.Context) error {
	if c.account.credential != nil {
		// The account may pass through, and sees only what it is given.
		if err := os.Chmod(c.folder.Path(), 0o711); err != nil {
			return err
		}
	}
	for _, dir := range []string{c.dataDir(), c.socketDir()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		if err := c.account.give(dir); err != nil {
			return err
		}
	}
	args := []string{
		"--pgdata=" + c.dataDir(), "--username=" + clusterUser,
		"--no-sync", "--no-locale", "--encoding=UTF8",
	}
	if c.password == "" {
		args = append(args, "--auth=trust")
	} else {
		file := filepath.Join(c.folder.Path(), "password")
		if err := os.WriteFile(file, []byte(c.password+"\n"), 0o600); err != nil {
			return err
		}
		if err := c.account.give(file); err != nil {
			return err
		}
		defer os.Remove(file)
		args = append(args, "--auth=scram-sha-256", "--pwfile="+file)
	}
	child, err := c.cfg.Launcher.Start(ctx, proc.Spec{
		Name: "initdb", Path: filepath.Join(c.binDir, "initdb"), Args: args,
		Env: c.environment(), Dir: c.folder.Path(), User: c.account.credential,
		LogPath: filepath.Join(c.folder.Path(), "initdb.log"),
		// It runs a postgres and, asked politely, waits for its end. SIGKILL would make
		// that one leave its shared memory behind.
		DeathSignal: syscall.SIGTERM, StopSignal: syscall.SIGTERM,
	})
	if err != nil {
		return err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), child.Stop(context.WithoutCancel(ctx), closeGrace))
	}
	if err := child.Err(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, strings.Join(child.LastLog(linesInErrors), " | "))
	}
	return nil
}

// admitNetwork lets the subnet in that the cluster is to serve.
func (c *cluster) admitNetwork() error {
	if !c.cfg.Network.IsValid() {
		return nil
	}
	if c.password != "" {
		return fmt.Errorf("the path of %s is too long for a socket, which the lab needs beside the network %s", c.folder.Path(), c.cfg.Network)
	}
	f, err := os.OpenFile(filepath.Join(c.dataDir(), "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "host all all %s trust\n", c.cfg.Network.Masked())
	return errors.Join(err, f.Close())
}

// environment is what the server's programs get: nothing of the caller's PG
// variables, locale or time zone, which all change what they do.
func (c *cluster) environment() []string {
	env := []string{"LC_ALL=C", "TZ=UTC", "HOME=" + c.folder.Path()}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// start runs the server and waits until it answers. On loopback the port may be
// taken between its choice and its use, by another lab for one: then it tries
// the next.
func (c *cluster) start(ctx context.Context) (version string, err error) {
	for range portTries {
		if c.password != "" {
			if c.port, err = freePort(); err != nil {
				return "", err
			}
		}
		if err := c.launch(ctx); err != nil {
			return "", err
		}
		version, err = c.awaitReady(ctx)
		if !errors.Is(err, errPortTaken) {
			return version, err
		}
	}
	return "", err
}

// launch starts the server's process.
func (c *cluster) launch(ctx context.Context) error {
	logPath := c.cfg.LogPath
	if logPath == "" {
		logPath = filepath.Join(c.folder.Path(), "postgres.log")
	}
	child, err := c.cfg.Launcher.Start(ctx, proc.Spec{
		Name: "postgres", Path: filepath.Join(c.binDir, "postgres"), Args: c.arguments(),
		Env: c.environment(), Dir: c.dataDir(), User: c.account.credential, LogPath: logPath,
		// Immediate and fast shutdown: postgres(1), server shutdown.
		DeathSignal: syscall.SIGQUIT, StopSignal: syscall.SIGINT,
	})
	if err != nil {
		return err
	}
	c.child = child
	return nil
}

// arguments are those of the server.
func (c *cluster) arguments() []string {
	listen := []string{
		"listen_addresses=",
		"unix_socket_directories=" + c.socketDir(),
		"unix_socket_permissions=0700",
		"port=" + strconv.Itoa(socketPort),
	}
	if c.cfg.Network.IsValid() {
		listen[0] = "listen_addresses=*"
	}
	if c.password != "" {
		listen = []string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "port=" + strconv.Itoa(c.port)}
	}
	settings := append(listen,
		// The cluster is thrown away: nothing needs to reach the disk.
		"fsync=off", "synchronous_commit=off", "full_page_writes=off",
		// One small table. Huge pages and background vacuums only add noise.
		"shared_buffers=16MB", "huge_pages=off", "autovacuum=off", "jit=off",
		"logging_collector=off", "log_destination=stderr",
		// In the data folder, which is removed, and not in /dev/shm.
		"dynamic_shared_memory_type=mmap",
	)
	args := []string{"-D", c.dataDir()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// errPortTaken is why a server on loopback did not start.
var errPortTaken = errors.New("the port was taken meanwhile")

// awaitReady asks the server until it answers, or has ended.
func (c *cluster) awaitReady(ctx context.Context) (version string, err error) {
	cfg, err := pgx.ParseConfig(c.url())
	if err != nil {
		// Only the PG variables of the environment can be wrong here.
		return "", fmt.Errorf("settings from PG variables: %s", parseCause(c.url(), err))
	}
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, askWait)
		version, err = ask(asking, cfg)
		cancel()
		if err == nil {
			return version, nil
		}
		select {
		case <-ticker.C:
		case <-c.child.Done():
			lines := strings.Join(c.child.LastLog(linesInErrors), " | ")
			if c.password != "" && c.addressInUse() {
				return "", fmt.Errorf("%w: %d: %s", errPortTaken, c.port, lines)
			}
			return "", fmt.Errorf("postgres ended at its start: %s: %s", c.child.Status(), lines)
		case <-ctx.Done():
			return "", fmt.Errorf("%w; the last answer: %s", context.Cause(ctx), connectCause(err))
		}
	}
}

// addressInUse says whether the log of an ended server says so; its messages are
// English since LC_ALL is C.
func (c *cluster) addressInUse() bool {
	return strings.Contains(strings.Join(c.child.LastLog(10), "\n"), "Address already in use")
}

// url is how to connect. It names everything that the PG variables of whoever
// connects would otherwise decide.
func (c *cluster) url() string {
	u := url.URL{Scheme: "postgres", User: url.User(clusterUser), Path: "/" + clusterDatabase}
	query := url.Values{"sslmode": {"disable"}}
	if c.password == "" {
		query.Set("host", c.socketDir())
		query.Set("port", strconv.Itoa(socketPort))
	} else {
		u.User = url.UserPassword(clusterUser, c.password)
		u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port))
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// freePort returns a port of 127.0.0.1 that nobody used a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("no free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
