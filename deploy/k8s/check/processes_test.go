package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// stub answers, and records the ids of the requests that it got.
type stub struct {
	*httptest.Server
	mu  sync.Mutex
	ids []string
}

func newStub(t *testing.T) *stub {
	s := &stub{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ids = append(s.ids, r.Header.Get("X-Chokepoint-Id"))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *stub) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.ids))
}

// node runs the containers of a build as processes: what kubelet would mount is
// in folders, and what it would put into the environment is all that they get.
type node struct {
	objects objects
	program string            // stands for the image
	claims  map[string]string // folders of the persistent volume claims
}

func newNode(t *testing.T, all objects) *node {
	t.Helper()
	program := filepath.Join(t.TempDir(), "loadgen")
	build := exec.Command("go", "build", "-o", program, "./cmd/loadgen")
	build.Dir = filepath.Join(manifests, "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return &node{objects: all, program: program, claims: map[string]string{"loadgen-results": t.TempDir()}}
}

// mounts are the folders that stand for the mount paths of a container.
func (n *node) mounts(t *testing.T, pod corev1.PodSpec) map[string]string {
	t.Helper()
	paths := map[string]string{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		for _, v := range pod.Volumes {
			switch {
			case v.Name != mount.Name:
			case v.ConfigMap != nil:
				paths[mount.MountPath] = mountConfigMap(t, n.objects.configMap(t, v.ConfigMap.Name))
			case v.PersistentVolumeClaim != nil:
				paths[mount.MountPath] = n.claims[v.PersistentVolumeClaim.ClaimName]
			}
		}
		if paths[mount.MountPath] == "" {
			t.Fatalf("nothing is mounted at %s", mount.MountPath)
		}
	}
	return paths
}

// mountConfigMap lays a ConfigMap out as kubelet does: the files are links into a
// folder that is itself reached by a link, so that all change at once.
func mountConfigMap(t *testing.T, m *corev1.ConfigMap) string {
	t.Helper()
	dir := t.TempDir()
	const data, version = "..data", "..2026_01_02_03_04_05.123456789"
	if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{data: version}
	for name, text := range m.Data {
		write(t, filepath.Join(dir, version, name), text)
		links[name] = filepath.Join(data, name)
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var reference = regexp.MustCompile(`\$\(([A-Za-z_][A-Za-z0-9_]*)\)`)

// command is the process of a pod's container. env is what a controller adds to
// that of the manifest.
func (n *node) command(t *testing.T, pod corev1.PodSpec, env ...corev1.EnvVar) *exec.Cmd {
	t.Helper()
	c := pod.Containers[0]
	if len(c.Command) != 0 {
		t.Fatalf("command %q replaces the program of the image", c.Command)
	}
	values := map[string]string{}
	cmd := exec.Command(n.program)
	cmd.Env = []string{}
	for _, v := range append(slices.Clone(c.Env), env...) {
		values[v.Name] = v.Value
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	mounts := n.mounts(t, pod)
	for _, arg := range c.Args {
		// Like kubelet, and unlike a shell: a variable that is not there stays.
		arg = reference.ReplaceAllStringFunc(arg, func(text string) string {
			if value, ok := values[reference.FindStringSubmatch(text)[1]]; ok {
				return value
			}
			return text
		})
		for path, dir := range mounts {
			arg = strings.Replace(arg, path+"/", dir+"/", 1)
		}
		cmd.Args = append(cmd.Args, arg)
	}
	cmd.Dir = t.TempDir()
	return cmd
}

// indexed starts the pods of an indexed Job, each with the index that the Job
// controller gives it.
func (n *node) indexed(t *testing.T, name string) []*exec.Cmd {
	t.Helper()
	job := n.objects.job(t, name)
	var pods []*exec.Cmd
	for i := range int(*job.Spec.Completions) {
		cmd := n.command(t, job.Spec.Template.Spec, corev1.EnvVar{Name: "JOB_COMPLETION_INDEX", Value: strconv.Itoa(i)})
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if cmd.ProcessState == nil {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
			if t.Failed() {
				t.Logf("%s %d: %s", name, i, out.String())
			}
		})
		pods = append(pods, cmd)
	}
	return pods
}

// exitCode waits for a process; -1 is a signal.
func exitCode(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// merged is what the report says of the run, in print and as a file.
type merged struct {
	Validity  struct{ Valid bool }
	Endpoints map[string]struct{ Planned, Scheduled, OK int }
	Merged    struct {
		Shards     int
		Incomplete []string
	}
}

// report runs the second Job.
func (n *node) report(t *testing.T) (code int, text string, m merged) {
	t.Helper()
	cmd := n.command(t, n.objects.job(t, "loadgen-report").Spec.Template.Spec)
	// One that cannot be written ends as exit code 1.
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	for _, arg := range cmd.Args {
		if path, ok := strings.CutPrefix(arg, "-json="); ok {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if err := json.Unmarshal(data, &m); err != nil {
				t.Fatal(err)
			}
		}
	}
	return cmd.ProcessState.ExitCode(), string(out), m
}

const (
	shards  = 3
	planned = 100 // 200/s for half a second
)

// run builds the example with a plan against a stub, as its user would change it,
// and starts its pods.
func run(t *testing.T, s *stub) (*node, []*exec.Cmd) {
	t.Helper()
	dir := editable(t)
	// A limit on lag that a crowded machine cannot exceed.
	write(t, filepath.Join(dir, "example", "plan.yaml"),
		fmt.Sprintf("duration: 500ms\nmax-lag: 1h\nendpoints:\n  - name: fast\n    url: %s\n    rate: 200/s\n    timeout: 5s\n", s.URL))
	n := newNode(t, nil)
	setRun(t, dir, shards, time.Now().Add(3*time.Second).UTC().Format(time.RFC3339Nano))
	n.objects = build(t, filepath.Join(dir, "example"))
	return n, n.indexed(t, "loadgen")
}

func TestThePodsPlayThePlan(t *testing.T) {
	s := newStub(t)
	n, pods := run(t, s)
	for i, pod := range pods {
		if code := exitCode(t, pod); code != 0 {
			t.Errorf("shard %d: exit code %d", i, code)
		}
	}
	var want []string
	for i := range planned {
		want = append(want, "fast-"+strconv.Itoa(i))
	}
	slices.Sort(want)
	if got := s.seen(); !slices.Equal(got, want) {
		t.Errorf("the stub saw %d requests, want each of the plan's %d once:\n%q", len(got), planned, got)
	}
	code, text, m := n.report(t)
	fast := m.Endpoints["fast"]
	if code != 0 || !m.Validity.Valid || m.Merged.Shards != shards || fast.Planned != planned || fast.OK != planned || !strings.Contains(text, "3 of 3 shards") {
		t.Errorf("exit code %d, %+v:\n%s", code, m, text)
	}
}

func TestAPodThatIsKilledIsMissed(t *testing.T) {
	s := newStub(t)
	n, pods := run(t, s)
	const victim = 1
	// When it has sent something, so that there is something to lose.
	deadline := time.Now().Add(10 * time.Second)
	for !slices.Contains(s.seen(), "fast-"+strconv.Itoa(victim)) {
		if time.Now().After(deadline) {
			t.Fatal("shard 1 has sent nothing")
		}
		time.Sleep(time.Millisecond)
	}
	if err := pods[victim].Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for i, pod := range pods {
		if code := exitCode(t, pod); (code == 0) != (i != victim) {
			t.Errorf("shard %d: exit code %d", i, code)
		}
	}
	code, text, m := n.report(t)
	// Of 100 arrivals, shard 1 has 33.
	fast := m.Endpoints["fast"]
	if code != 3 || m.Validity.Valid || fast.Planned != planned || fast.Scheduled != 67 || fast.OK != 67 {
		t.Errorf("exit code %d, %+v, want 3 and 67 of 100", code, m)
	}
	if !strings.Contains(text, "shard 1 of 3 is missing") || len(m.Merged.Incomplete) != 1 {
		t.Errorf("incomplete %q:\n%s", m.Merged.Incomplete, text)
	}
}

// TestAPodThatIsDeletedIsNotMissed: SIGTERM leaves a whole result, of a load that
// was stopped early.
func TestAPodThatIsDeletedIsNotMissed(t *testing.T) {
	n, pods := run(t, newStub(t))
	time.Sleep(1500 * time.Millisecond) // they have started, and the load has not
	if err := pods[2].Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for i, pod := range pods {
		if code, want := exitCode(t, pod), []int{0, 0, 130}[i]; code != want {
			t.Errorf("shard %d: exit code %d, want %d", i, code, want)
		}
	}
	code, text, m := n.report(t)
	fast := m.Endpoints["fast"]
	if code != 3 || m.Validity.Valid || fast.Planned != planned || fast.Scheduled != 67 || len(m.Merged.Incomplete) != 0 {
		t.Errorf("exit code %d, %+v, want 3 and nothing missing", code, m)
	}
	if !strings.Contains(text, "stopped early: 0 of 33 arrivals had fallen due") {
		t.Errorf("the report does not say why:\n%s", text)
	}
}

// TestTheExamplesPlanIsOne: as it is in the ConfigMap, and split as the run says.
func TestTheExamplesPlanIsOne(t *testing.T) {
	n := newNode(t, build(t, filepath.Join(manifests, "example")))
	file := filepath.Join(t.TempDir(), "plan.yaml")
	write(t, file, n.objects.configMap(t, "loadgen-plan").Data["plan.yaml"])
	start := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	out, err := exec.Command(n.program, "plan", "-shard=2/3", "-start-at="+start, file).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("fast")) {
		t.Errorf("%v: %s", err, out)
	}
}
