// Package check holds the manifests of deploy/k8s to what Kubernetes would say of
// them, without a cluster: kustomize builds them, every object is decoded strictly
// into the types of the API, pods are held to the "restricted" Pod Security
// Standard, and the containers are run as processes. It is a module of its own, so
// that Kubernetes' modules are none of the programs'.
package check

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// manifests is deploy/k8s.
const manifests = ".."

// objects are the API objects of a build, by kind and name as in "Job loadgen".
type objects map[string]runtime.Object

// build builds the overlay in a folder as "kubectl apply -k" does.
func build(t *testing.T, folder string) objects {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	all := objects{}
	for _, r := range built.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		object, err := decode(text)
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", r.GetKind(), r.GetName(), err, text)
		}
		all[r.GetKind()+" "+r.GetName()] = object
	}
	return all
}

// decode decodes a manifest into the type of the API that it is of. A field that
// the type does not have is an error, and so is one that is there twice.
func decode(text []byte) (runtime.Object, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	object, _, err := codecs.UniversalDeserializer().Decode(text, nil, nil)
	return object, err
}

// job is a Job of the build.
func (o objects) job(t *testing.T, name string) *batchv1.Job {
	t.Helper()
	job, ok := o["Job "+name].(*batchv1.Job)
	if !ok {
		t.Fatalf("there is no Job %s", name)
	}
	return job
}

// configMap is the ConfigMap whose name begins so; a hash of its content follows.
func (o objects) configMap(t *testing.T, prefix string) *corev1.ConfigMap {
	t.Helper()
	for name, object := range o {
		if strings.HasPrefix(name, "ConfigMap "+prefix) {
			return object.(*corev1.ConfigMap)
		}
	}
	t.Fatalf("there is no ConfigMap %s", prefix)
	return nil
}

// editable is a copy of the manifests that a test may change.
func editable(t *testing.T) string {
	t.Helper()
	// Without links: kustomize compares paths.
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"base", "shards", "example"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(manifests, part))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// setRun sets what changes from run to run, as its user does.
func setRun(t *testing.T, dir string, shards int, startAt string) {
	t.Helper()
	write(t, filepath.Join(dir, "example", "run.yaml"), fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata:
  name: run
  annotations:
    config.kubernetes.io/local-config: "true"
data:
  shards: "%d"
  startAt: "%s"
`, shards, startAt))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheExampleIsWhatTheAPITakes(t *testing.T) {
	all := build(t, filepath.Join(manifests, "example"))
	want := []string{"Job loadgen", "Job loadgen-report", "PersistentVolumeClaim loadgen-results"}
	if len(all) != len(want)+1 {
		t.Errorf("%d objects, want a ConfigMap and %q", len(all), want)
	}
	for _, name := range want {
		if all[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	if plan := all.configMap(t, "loadgen-plan"); len(plan.Data) == 0 {
		t.Error("the plan is empty")
	}
}

func TestTheRunReachesEveryPlace(t *testing.T) {
	for _, shards := range []int32{1, 7} {
		dir := editable(t)
		setRun(t, dir, int(shards), "2030-01-02T03:04:05Z")
		all := build(t, filepath.Join(dir, "example"))
		job := all.job(t, "loadgen")
		if *job.Spec.Completions != shards || *job.Spec.Parallelism != shards || *job.Spec.CompletionMode != batchv1.IndexedCompletion {
			t.Errorf("%d completions, %d at a time, %s; want %d of each, indexed", *job.Spec.Completions, *job.Spec.Parallelism, *job.Spec.CompletionMode, shards)
		}
		for _, name := range []string{"loadgen", "loadgen-report"} {
			for _, v := range all.job(t, name).Spec.Template.Spec.Containers[0].Env {
				want := map[string]string{"SHARDS": fmt.Sprint(shards), "START_AT": "2030-01-02T03:04:05Z"}[v.Name]
				if v.Value != want {
					t.Errorf("%s: %s is %q, want %q", name, v.Name, v.Value, want)
				}
			}
		}
		plan := all.configMap(t, "loadgen-plan").Name
		if mounted := job.Spec.Template.Spec.Volumes[0].ConfigMap.Name; mounted != plan {
			t.Errorf("the plan is %s, and %s is mounted", plan, mounted)
		}
	}
}

// TestAFailedShardIsNotRepeated: its start has passed, and the others must go on.
func TestAFailedShardIsNotRepeated(t *testing.T) {
	job := build(t, filepath.Join(manifests, "example")).job(t, "loadgen")
	spec := job.Spec
	if spec.BackoffLimitPerIndex == nil || *spec.BackoffLimitPerIndex != 0 || spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever || spec.BackoffLimit != nil {
		t.Errorf("backoff limit %v, per index %v, restart policy %s", spec.BackoffLimit, spec.BackoffLimitPerIndex, spec.Template.Spec.RestartPolicy)
	}
}

func TestPodsAreRestricted(t *testing.T) {
	all := build(t, filepath.Join(manifests, "example"))
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, name := range []string{"loadgen", "loadgen-report"} {
		pod := all.job(t, name).Spec.Template
		verdict := func() policy.AggregateCheckResult {
			return policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec))
		}
		if result := verdict(); !result.Allowed {
			t.Errorf("%s: %s", name, result.ForbiddenDetail())
		}
		c := &pod.Spec.Containers[0]
		if c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
			t.Errorf("%s may write to its root", name)
		}
		if *pod.Spec.AutomountServiceAccountToken || *pod.Spec.EnableServiceLinks {
			t.Errorf("%s has a token of the cluster or the variables of services", name)
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: resources %+v", name, c.Resources)
		}
		// Could it be forbidden at all?
		privileged := true
		c.SecurityContext.Privileged = &privileged
		if verdict().Allowed {
			t.Errorf("%s: a privileged container is allowed", name)
		}
	}
	// Guaranteed: its requests are its limits.
	if r := all.job(t, "loadgen").Spec.Template.Spec.Containers[0].Resources; !equality.Semantic.DeepEqual(r.Requests, r.Limits) {
		t.Errorf("resources %+v", r)
	}
}

func TestWhatTheAPIWouldRefuseIsRefused(t *testing.T) {
	good, err := os.ReadFile(filepath.Join(manifests, "base", "loadgen.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decode(good); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, old, new, want string }{
		{"an unknown field", "completionMode:", "completionsMode:", `unknown field "spec.completionsMode"`},
		{"one deep inside", "readOnlyRootFilesystem:", "readOnlyRootFileSystem:", `unknown field "spec.template.spec.containers[0].securityContext.readOnlyRootFileSystem"`},
		{"a field twice", "  parallelism: 1", "  parallelism: 1\n  parallelism: 1", "already set"},
		{"a wrong type", "completions: 1", `completions: "1"`, "cannot unmarshal string"},
		{"an unknown kind", "kind: Job", "kind: Jobs", `no kind "Jobs"`},
	} {
		text := strings.Replace(string(good), tt.old, tt.new, 1)
		if text == string(good) {
			t.Fatalf("%s: nothing was changed", tt.name)
		}
		if _, err := decode([]byte(text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}
