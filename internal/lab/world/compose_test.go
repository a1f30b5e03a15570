package world

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/lab/proc"
)

const repository = "../../.."

// The Go side and docker-compose.yml must say the same.
func TestComposeFileAgrees(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(repository, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	wants := []string{
		fmt.Sprintf("image: ${%s:-%s}\n", postgresImageVariable, defaultPostgresImage),
		fmt.Sprintf("CHOKEPOINT_LISTEN: 0.0.0.0:%d\n", victimPort),
		fmt.Sprintf("CHOKEPOINT_ADMIN: 0.0.0.0:%d\n", victimAdminPort),
		fmt.Sprintf("CHOKEPOINT_LISTEN: 0.0.0.0:%d\n", stubPort),
		fmt.Sprintf("CHOKEPOINT_ADMIN: 0.0.0.0:%d\n", stubAdminPort),
		fmt.Sprintf("CHOKEPOINT_UPSTREAM: http://127.0.0.1:%d/\n", stubPort),
		fmt.Sprintf("\"${CHOKEPOINT_VICTIM_LISTEN:-127.0.0.1:%d}:%[1]d\"\n", victimPort),
		fmt.Sprintf("\"${CHOKEPOINT_VICTIM_ADMIN:-127.0.0.1:%d}:%[1]d\"\n", victimAdminPort),
		fmt.Sprintf("\"${CHOKEPOINT_STUB_LISTEN:-127.0.0.1:%d}:%[1]d\"\n", stubPort),
		fmt.Sprintf("\"${CHOKEPOINT_STUB_ADMIN:-127.0.0.1:%d}:%[1]d\"\n", stubAdminPort),
		"dockerfile: " + dockerfile + ",",
	}
	for _, name := range limitVariables {
		wants = append(wants, "${"+name+":-")
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q", want)
		}
	}
	if strings.Contains(text, ":latest") {
		t.Error("a tag latest")
	}
}

func TestPublishAt(t *testing.T) {
	for _, test := range []struct{ address, want, err string }{
		{"", "127.0.0.1:", ""},
		{"127.0.0.1:0", "127.0.0.1:", ""},
		{"127.0.0.1:8085", "127.0.0.1:8085", ""},
		{"localhost:8085", "127.0.0.1:8085", ""},
		{"0.0.0.0:8085", "0.0.0.0:8085", ""},
		{"8085", "", "write it as IP:port"},
		{":8085", "", "IPv4"},
		{"[::1]:8085", "", "IPv4"},
		{"example.org:8085", "", "IPv4"},
		{"127.0.0.1:http", "", "number up to 65535"},
		{"127.0.0.1:65536", "", "number up to 65535"},
	} {
		got, err := publishAt(test.address)
		if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%q: %q, %v; want %q, %q", test.address, got, err, test.want, test.err)
		}
	}
}

func TestVariables(t *testing.T) {
	t.Setenv(postgresImageVariable, "postgres:16.9")
	t.Setenv("CHOKEPOINT_VICTIM_CPUS", "1")
	t.Setenv("CHOKEPOINT_PROFILE", "anti") // the lab's own, not the compose file's
	got, err := variables(Config{VictimAdmin: "127.0.0.1:9090"})
	want := `CHOKEPOINT_POSTGRES_IMAGE=postgres:16.9
CHOKEPOINT_VICTIM_CPUS=1
CHOKEPOINT_VICTIM_LISTEN=127.0.0.1:
CHOKEPOINT_VICTIM_ADMIN=127.0.0.1:9090
CHOKEPOINT_STUB_LISTEN=127.0.0.1:
CHOKEPOINT_STUB_ADMIN=127.0.0.1:
`
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := variables(Config{StubListen: "nowhere"}); err == nil || !strings.HasPrefix(err.Error(), `-stub-listen "nowhere": `) {
		t.Errorf("%v; want the flag and its value", err)
	}
}

// What a run lays over the file: its own arguments to the letter, and on
// everything whose it is.
func TestOverride(t *testing.T) {
	lab := proc.Identity{PID: 7, Start: "42", Host: "here", PIDNamespace: "pid:[1]"}
	cfg := Config{
		RunDir: "/runs/$HOME", VictimArgs: []string{"-profile=anti"}, StubArgs: []string{"-delay=file:$delays"},
		GoMemLimit: "2GiB",
	}
	images := map[string]string{"upstream": "u:1", "victim": "v:1", "loadgen": "l:1"}
	o, err := newOverride(cfg, images, lab, "1000:1000")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	labels := object{labLabel: `{"pid":7,"start":"42","host":"here","pid_namespace":"pid:[1]"}`}
	unchecked := object{"interval": "24h"}
	want := object{
		"services": object{
			"upstream": object{"image": "u:1", "command": []any{"-delay=file:$$delays"}, "healthcheck": unchecked, "labels": labels},
			"postgres": object{"healthcheck": unchecked, "labels": labels},
			"victim": object{
				"image": "v:1", "command": []any{"-profile=anti"}, "healthcheck": unchecked, "labels": labels,
				// What the lab does not limit, the file's own default must not either.
				"environment": object{"GODEBUG": "tracebacklabels=1", "GOMAXPROCS": nil, "GOMEMLIMIT": "2GiB"},
			},
			"loadgen": object{
				"image": "l:1", "user": "1000:1000", "labels": labels,
				"volumes": []any{object{"type": "bind", "source": "/runs/$$HOME", "target": "/results"}},
			},
		},
		"networks": object{"default": object{"labels": labels}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestComplaint(t *testing.T) {
	for _, test := range []struct{ name, output, want string }{
		{"docker", "Error response from daemon: No such container: x\n", "Error response from daemon: No such container: x"},
		{"compose 1", "Creating p_upstream_1 ... \n\nERROR: for upstream  port is already allocated\nEncountered errors while bringing up the project.\n", "ERROR: for upstream  port is already allocated"},
		{"no word of an error", "Sending build context\nCOPY failed: no file\n", "COPY failed: no file"},
		{"nothing", " \n\n", ""},
	} {
		if got := complaint(strings.Split(test.output, "\n")); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestImageNames(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{
		imageName("victim", "aa", []byte("FROM scratch")),
		imageName("victim", "ab", []byte("FROM scratch")),
		imageName("victim", "aa", []byte("FROM other")),
		imageName("upstream", "aa", []byte("FROM scratch")),
	} {
		if seen[name] || len(strings.SplitN(name, ":", 2)) != 2 {
			t.Errorf("%q twice, or without a tag", name)
		}
		seen[name] = true
	}
}

func TestCheckStatic(t *testing.T) {
	script := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ path, arch, want string }{
		{script, "x86_64", "is not a Linux program"},
		{"/bin/sh", "", "linked dynamically"},
		{"/bin/sh", "s390x", "linked dynamically"}, // a machine that nobody here knows
	} {
		err := checkStatic(test.path, test.arch)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
			t.Errorf("%s on %s: %v; want %q and the remedy", test.path, test.arch, err, test.want)
		}
	}
	errs := 0
	for arch := range machines {
		if err := checkStatic("/bin/sh", arch); strings.Contains(err.Error(), "Docker engine runs on "+arch) {
			errs++
		}
	}
	if errs != len(machines)-1 {
		t.Errorf("/bin/sh is refused for its machine on %d of %d machines, want all but one", errs, len(machines))
	}
}

// fakes puts programs, each a shell script, into a PATH of their own.
func fakes(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

const (
	noPlugin = `[ "$1" = compose ] && { echo "docker: unknown command: docker compose" >&2; exit 1; }`
	engineUp = `[ "$1" = info ] && echo '{"ServerVersion":"20.10","Architecture":"x86_64","SecurityOptions":["name=seccomp,profile=default","name=rootless"]}'`
)

func TestFindEngine(t *testing.T) {
	for _, test := range []struct {
		name    string
		scripts map[string]string
		compose []string // the names of the programs and words
		err     string
	}{
		{"nothing", nil, nil, "no docker in PATH"},
		{"no compose", map[string]string{"docker": noPlugin + "\n" + engineUp}, nil, "neither docker compose nor docker-compose"},
		{"no engine", map[string]string{"docker": `[ "$1" = compose ] || { echo "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?" >&2; exit 1; }`},
			nil, "the Docker engine does not answer: Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?; start it"},
		{"an engine without a version", map[string]string{"docker": `[ "$1" = info ] && echo '{}'; true`}, nil, "does not say its version"},
		{"the plugin", map[string]string{"docker": engineUp + "; true", "docker-compose": ""}, []string{"docker", "compose"}, ""},
		{"the old program", map[string]string{"docker": noPlugin + "\n" + engineUp, "docker-compose": ""}, []string{"docker-compose"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			fakes(t, test.scripts)
			e, err := findEngine(t.Context())
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "\n") {
					t.Fatalf("%v; want one line with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !filepath.IsAbs(e.compose[0]) {
				t.Errorf("%s is not an absolute path", e.compose[0])
			}
			got := append([]string{filepath.Base(e.compose[0])}, e.compose[1:]...)
			if diff := cmp.Diff(test.compose, got); diff != "" || e.arch != "x86_64" || !e.rootless {
				t.Errorf("%+v (-want +got):\n%s", e, diff)
			}
		})
	}
}

// Only what belongs to a lab that is certainly gone is swept, and once.
func TestDeadProjects(t *testing.T) {
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	label := func(change func(*proc.Identity)) string {
		i := self
		change(&i)
		text, err := json.Marshal(i)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	gone := label(func(i *proc.Identity) { i.PID = 1 << 30 })
	lines := strings.Join([]string{
		"dead\t" + gone,
		"alive\t" + label(func(*proc.Identity) {}),
		"elsewhere\t" + label(func(i *proc.Identity) { i.PID, i.Host = 1<<30, "elsewhere" }),
		"dead\t" + gone,
		"unreadable\tyes",
		"\t" + gone,
	}, "\n")
	fakes(t, map[string]string{"docker": `if [ "$1" = ps ]; then echo '` + lines + `'; else echo 'network-only` + "\t" + gone + `'; fi`})
	docker, err := lookPath("docker")
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&engine{docker: docker}).deadProjects(t.Context())
	if diff := cmp.Diff([]string{"dead", "network-only"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestPorts(t *testing.T) {
	fakes(t, map[string]string{"docker": `printf '8080/tcp -> 127.0.0.1:49153\n9080/tcp -> 127.0.0.1:49154\n53/udp -> 127.0.0.1:49155\n'`})
	docker, err := lookPath("docker")
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&engine{docker: docker}).ports(t.Context(), "id")
	if diff := cmp.Diff(map[int]string{8080: "127.0.0.1:49153", 9080: "127.0.0.1:49154"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestContainerStatus(t *testing.T) {
	for _, test := range []struct{ state, want string }{
		{`{"State": {"Running": true}}`, "running"},
		{`{"State": {"ExitCode": 2}}`, "exit status 2"},
		{`{"State": {"ExitCode": 137, "OOMKilled": true}, "HostConfig": {"Memory": 64}}`, "exit status 137: it used more than its 64 bytes of memory"},
	} {
		var c container
		if err := json.Unmarshal([]byte(test.state), &c); err != nil {
			t.Fatal(err)
		}
		if got := c.status(); got != test.want {
			t.Errorf("%s: %q, want %q", test.state, got, test.want)
		}
	}
}

// A pid is read only if its control group is the container's.
func TestUsageOfAnother(t *testing.T) {
	c := container{ID: strings.Repeat("0", 64)}
	c.State.Pid = os.Getpid()
	if u, err := c.usage(); err == nil {
		t.Errorf("%+v of a process that is not the container's", u)
	}
	if u, err := (container{}).usage(); err == nil {
		t.Errorf("%+v of no container", u)
	}
}

func TestReady(t *testing.T) {
	up := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up || r.URL.Path != "/readyz" {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	if err := ready(server.URL)(t.Context()); err == nil || err.Error() != "503 Service Unavailable" {
		t.Errorf("%v, want its status", err)
	}
	up = true
	if err := ready(server.URL)(t.Context()); err != nil {
		t.Error(err)
	}
}

// What a world of containers cannot do it refuses before it starts anything:
// one line with the value and the remedy.
func TestComposeRefuses(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"victim", "upstream", "loadgen"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"a database", Config{DatabaseURL: "postgres://x"}, "unset DATABASE_URL"},
		{"a Toxiproxy", Config{ToxiproxyURL: "http://127.0.0.1:8474"}, "cannot reach the Toxiproxy at http://127.0.0.1:8474"},
		{"an address", Config{VictimListen: "8080"}, `-victim-listen "8080"`},
		{"no programs", Config{BinDir: repository}, "no program loadgen"},
		{"no compose file", Config{BinDir: bin}, "no docker-compose.yml in " + filepath.Dir(bin)},
		{"not that compose file", Config{BinDir: bin, ComposeFile: "/nowhere.yml"}, "stat /nowhere.yml"},
		{"no docker", Config{BinDir: bin, ComposeFile: "compose_test.go"}, "no docker in PATH"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fakes(t, nil)
			test.cfg.RunDir = t.TempDir()
			test.cfg.Progress = t.Logf
			launcher := proc.NewLauncher(nil)
			defer launcher.Close()
			_, err := StartCompose(context.Background(), test.cfg, launcher)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v; want one line with %q", err, test.want)
			}
			if entries, err := os.ReadDir(test.cfg.RunDir); err != nil || len(entries) > 0 {
				t.Errorf("left: %v, %v", entries, err)
			}
		})
	}
}
