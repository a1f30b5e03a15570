//go:build compose

// These tests need a Docker engine and compose, and CHOKEPOINT_POSTGRES_IMAGE
// to name an image that the engine has: make test-compose.

package world

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"chokepoint/internal/lab/proc"
	"chokepoint/internal/result"
)

// patience bounds every wait of these tests; nothing is expected to take it.
const patience = 90 * time.Second

// holdArg makes the test binary a lab that holds a world until it is killed.
const holdArg = "hold"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case proc.ReaperArg:
			os.Exit(proc.RunReaper(os.Stdin, os.Stdout, os.Stderr))
		case holdArg:
			os.Exit(hold(os.Args[2:]))
		}
	}
	dir, err := os.MkdirTemp("", "compose-test-")
	if err == nil {
		binDir, err = dir, build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// binDir holds the programs, static, for all tests.
var binDir string

func build(dir string) error {
	cmd := exec.Command("go", "build", "-o", dir+"/", "chokepoint/cmd/victim", "chokepoint/cmd/upstream", "chokepoint/cmd/loadgen")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

// config is a world that answers at once.
func config(runDir, binDir string) Config {
	return Config{
		RunDir: runDir, BinDir: binDir, ComposeFile: filepath.Join("..", "..", "..", "docker-compose.yml"),
		VictimArgs: []string{"-profile=fixed", "-min-workers=3"}, StubArgs: []string{"-delay=0s"},
		GoMaxProcs: 1, GoMemLimit: "1GiB",
		Progress: func(string, ...any) {},
	}
}

// start starts a world that the test closes.
func start(t *testing.T) *Compose {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	launcher := proc.NewLauncher(nil)
	t.Cleanup(launcher.Close)
	w, err := StartCompose(ctx, config(t.TempDir(), binDir), launcher)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeWorld(t, w) })
	return w
}

// closeWorld closes a world and fails the test if anything is left.
func closeWorld(t *testing.T, w *Compose) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Error(err)
	}
	if left := leftOf(t, w.project); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	entries, err := os.ReadDir(w.cfg.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			t.Errorf("left in the run's folder: %s", entry.Name())
		}
	}
}

func docker(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.Fields(string(out))
}

// leftOf lists the containers and networks of a project.
func leftOf(t *testing.T, project string) []string {
	t.Helper()
	filter := "label=" + projectLabel + "=" + project
	return append(docker(t, "ps", "--all", "--quiet", "--filter", filter),
		docker(t, "network", "ls", "--quiet", "--filter", filter)...)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s still not: %s", patience, what)
		}
	}
}

// serves fails the test unless the victim reads its row.
func serves(t *testing.T, w *Compose) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.ProbeURL()+"/fast", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), `"item 1"`) {
		t.Fatalf("%s %s %v", response.Status, body, err)
	}
}

// run runs the load generator to its end.
func run(t *testing.T, w *Compose, file string, args ...string) (result.Load, Load) {
	t.Helper()
	load, err := w.StartLoad(t.Context(), append([]string{"-json=" + w.LoadPath(file), "-max-lag=10s"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	return finish(t, w, load, file), load
}

// finish waits for a load generator and reads its result.
func finish(t *testing.T, w *Compose, load Load, file string) result.Load {
	t.Helper()
	select {
	case <-load.Done():
	case <-time.After(patience):
		t.Fatal("the load does not end")
	}
	path := filepath.Join(w.cfg.RunDir, file)
	l, err := result.ReadLoad(path)
	if err != nil {
		t.Fatalf("%v; its log: %q", err, load.LastLog(5))
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t); int(owner.Uid) != os.Getuid() || int(owner.Gid) != os.Getgid() {
		t.Errorf("%s belongs to %d:%d, not to the lab's user", file, owner.Uid, owner.Gid)
	}
	return l
}

func TestComposeWorld(t *testing.T) {
	volumes := docker(t, "volume", "ls", "--quiet")
	w := start(t)
	serves(t, w)

	l, load := run(t, w, "load.json", "-duration=1s",
		"-endpoint=name=fast,url="+w.VictimURL()+"/fast,rate=20/s",
		"-endpoint=name=upstream,url="+w.VictimURL()+"/upstream,rate=10/s")
	if code := load.ExitCode(); code != 0 {
		t.Errorf("exit code %d: %q", code, load.LastLog(5))
	}
	for name, want := range map[string]int{"fast": 20, "upstream": 10} {
		e := l.Endpoints[name]
		if e.Scheduled != want || e.OK != want || e.Dropped != 0 {
			t.Errorf("%s: scheduled %d, ok %d, dropped %d; want %d, %d, 0", name, e.Scheduled, e.OK, e.Dropped, want, want)
		}
	}
	if usage, err := load.Usage(); err != nil || usage.CPUSeconds <= 0 {
		t.Errorf("the generator's use: %+v, %v", usage, err)
	}
	if usage := w.Usage(); usage["victim"].CPUSeconds <= 0 || len(usage) != 2 {
		t.Errorf("use of the servers: %+v", usage)
	}

	// An interrupted load still tells what it did, and so does its exit code.
	load, err := w.StartLoad(t.Context(), []string{
		"-json=" + w.LoadPath("stopped.json"), "-rate=50/s", "-duration=60s", w.VictimURL() + "/fast"})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // in the middle of the container's start, or soon after
	if err := load.Interrupt(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-load.Done():
	case <-time.After(patience):
		t.Fatal("an interrupted load does not end")
	}
	if code := load.ExitCode(); code != 130 && code != 2 {
		t.Errorf("exit code %d: %q", code, load.LastLog(5))
	}

	d := w.Describe()
	for name, want := range map[string]string{
		"cpus": "2", "memory_bytes": "2147483648", "postgres.cpus": "1", "postgres.memory_bytes": "1073741824",
		"GOMAXPROCS": "1", "GOMEMLIMIT": "1GiB", "GODEBUG": "tracebacklabels=1",
	} {
		if d.Limits[name] != want {
			t.Errorf("limit %s is %q, want %q", name, d.Limits[name], want)
		}
	}
	for _, name := range []string{"postgres", "upstream", "victim"} {
		if !strings.HasPrefix(d.Images[name], "sha256:") {
			t.Errorf("image of %s: %q", name, d.Images[name])
		}
	}
	environment := docker(t, "inspect", "--format", "{{range .Config.Env}}{{println .}}{{end}}", w.containers["victim"].ID)
	for _, want := range w.cfg.victimEnv() {
		if !slices.Contains(environment, want) {
			t.Errorf("the victim's environment lacks %s", want)
		}
	}
	for name, c := range w.containers {
		if user := docker(t, "inspect", "--format", "{{.Config.User}}", c.ID); len(user) != 1 || strings.HasPrefix(user[0], "0") || user[0] == "root" {
			t.Errorf("%s runs as %q", name, user)
		}
	}

	closeWorld(t, w)
	log, err := os.ReadFile(w.logPath("victim"))
	if err != nil || !strings.Contains(string(log), `"program":"victim"`) {
		t.Errorf("the victim's log: %q, %v", log, err)
	}
	select {
	case d := <-w.Died():
		t.Errorf("a death: %s", d)
	default:
	}
	if now := docker(t, "volume", "ls", "--quiet"); !slices.Equal(now, volumes) {
		t.Errorf("volumes before %q, now %q", volumes, now)
	}
}

func TestComposeStop(t *testing.T) {
	w := start(t)
	load, err := w.StartLoad(t.Context(), []string{
		"-json=" + w.LoadPath("stopped.json"), "-rate=50/s", "-duration=60s", w.VictimURL() + "/fast"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the generator runs", func() bool { _, err := load.Usage(); return err == nil })
	if err := load.Interrupt(); err != nil {
		t.Fatal(err)
	}
	l := finish(t, w, load, "stopped.json")
	if code := load.ExitCode(); code != 130 || l.Validity.Valid {
		t.Errorf("exit code %d, valid %v; want 130 and a result that is not", code, l.Validity.Valid)
	}

	// One that hears nothing is ended all the same.
	load, err = w.StartLoad(t.Context(), []string{"-rate=1/s", "-duration=60s", w.VictimURL() + "/fast"})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := load.Stop(ended); err != nil {
		t.Fatal(err)
	}
	if left := docker(t, "ps", "--all", "--quiet", "--filter", "name="+w.project+"-loadgen"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestComposeTwoAtOnce(t *testing.T) {
	launcher := proc.NewLauncher(nil)
	t.Cleanup(launcher.Close)
	configs := []Config{config(t.TempDir(), binDir), config(t.TempDir(), binDir)}
	worlds := make([]*Compose, len(configs))
	errs := make([]error, len(configs))
	var starts sync.WaitGroup
	for i, cfg := range configs {
		starts.Go(func() { worlds[i], errs[i] = StartCompose(t.Context(), cfg, launcher) })
	}
	starts.Wait()
	for i, w := range worlds {
		if errs[i] != nil {
			t.Error(errs[i])
			continue
		}
		t.Cleanup(func() { closeWorld(t, w) })
		serves(t, w)
	}
	if t.Failed() {
		return
	}
	closeWorld(t, worlds[0])
	serves(t, worlds[1])
}

func TestComposeDeath(t *testing.T) {
	w := start(t)
	docker(t, "kill", w.containers["victim"].ID)
	select {
	case d := <-w.Died():
		if d.Name != "victim" || d.Status != "exit status 137" || len(d.Log) == 0 {
			t.Errorf("%+v", d)
		}
	case <-time.After(patience):
		t.Fatal("nobody noticed")
	}
}

// A service that cannot start: one line that says why, and nothing left.
func TestComposeStartFails(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	launcher := proc.NewLauncher(nil)
	t.Cleanup(launcher.Close)
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"a flag that the victim refuses", func(c *Config) { c.VictimArgs = []string{"-profile=none"} }, "victim ended by itself (exit status 2)"},
		{"a stub that ends before anybody asks", func(c *Config) { c.StubArgs = []string{"-delay=soon"} }, "upstream ended by itself (exit status 2)"},
		{"a port in use", func(c *Config) { c.StubAdmin = taken.Addr().String() }, "bind: address already in use"},
		{"an image that cannot be had", func(c *Config) {
			t.Setenv(postgresImageVariable, "127.0.0.1:1/chokepoint-none:1")
		}, "set CHOKEPOINT_POSTGRES_IMAGE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := config(t.TempDir(), binDir)
			var project string
			cfg.Progress = func(format string, args ...any) {
				if strings.HasPrefix(format, "starting containers") {
					project = args[0].(string)
				}
			}
			test.change(&cfg)
			_, err := StartCompose(t.Context(), cfg, launcher)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v; want one line with %q", err, test.want)
			}
			if project != "" {
				if left := leftOf(t, project); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
			}
		})
	}
}
