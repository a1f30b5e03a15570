package plan

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/cli"
	"chokepoint/internal/load/engine"
)

// made makes the plan of a command line, as the program does.
func made(args ...string) (Plan, error) {
	fs := flag.NewFlagSet("loadgen", flag.ContinueOnError)
	flags := Register(fs)
	if err := cli.Parse(fs, args, "", io.Discard); err != nil {
		return Plan{}, err
	}
	return flags.Plan(fs.Args())
}

// in writes files into a folder of their own and returns it.
func in(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// full is a plan that says everything.
const full = `# A shop.
duration: 1m
arrivals: poisson
seed: 7
warmup: 5s
graceful-stop: 2s
max-lag: 10ms
quantum: 1ms
phase: baseline
engine: goroutines
keepalive: true
max-age: 30s
max-requests: 100
insecure: true
connect-to: shop.test:80:127.0.0.1:8080
resolve: [a.test:80:127.0.0.1, b.test:80:127.0.0.1]
source: [127.0.0.2, 127.0.0.3]
timeout: 5s
header:
  Authorization: Bearer of-the-file
thresholds:
  - fast:p(95)<200ms
  - failed<1%
endpoints:
  - name: fast
    url: http://shop.test/fast
    rate: 100/s
  - name: order
    url: http://shop.test/orders
    rate: 600/m
    timeout: 1s
    workers: 20
    method: PUT
    header:
      Content-Type: application/json
      X-Tag: [a, b]
    body: '{"a": 1}'
`

func TestAFileIsReadAsTheFlagsAre(t *testing.T) {
	dir := in(t, map[string]string{"plan.yaml": full})
	file, err := made("-plan", filepath.Join(dir, "plan.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	flags, err := made("-duration", "1m", "-arrivals", "poisson", "-seed", "7", "-warmup", "5s", "-graceful-stop", "2s",
		"-max-lag", "10ms", "-quantum", "1ms", "-phase", "baseline", "-engine", "goroutines", "-max-age", "30s", "-max-requests", "100",
		"-insecure", "-connect-to", "shop.test:80:127.0.0.1:8080", "-resolve", "a.test:80:127.0.0.1", "-resolve", "b.test:80:127.0.0.1",
		"-source", "127.0.0.2,127.0.0.3", "-timeout", "5s", "-H", "Authorization: Bearer of-the-file",
		"-threshold", "fast:p(95)<200ms", "-threshold", "failed<1%",
		"-endpoint", "name=fast,url=http://shop.test/fast,rate=100/s",
		"-endpoint", `name=order,url=http://shop.test/orders,rate=600/m,timeout=1s,workers=20,method=PUT,header=Content-Type: application/json,header=X-Tag: a,header=X-Tag: b,body='{"a": 1}'`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(flags.Config, file.Config, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("(-flags +file)\n%s", diff)
	}
	if len(file.Thresholds) != 2 || len(flags.Thresholds) != 2 {
		t.Errorf("thresholds %v and %v", file.Thresholds, flags.Thresholds)
	}
	order := file.Config.Endpoints[1]
	want := []engine.Field{{Name: "Authorization", Value: "Bearer of-the-file"}, {Name: "Content-Type", Value: "application/json"}, {Name: "X-Tag", Value: "a"}, {Name: "X-Tag", Value: "b"}}
	if diff := cmp.Diff(want, order.Header); diff != "" || order.Timeout != time.Second || order.Rate != 10 || string(order.Body) != `{"a": 1}` {
		t.Errorf("%s, %+v", diff, order)
	}
	if fast := file.Config.Endpoints[0]; fast.Timeout != 5*time.Second || fast.Method != "GET" {
		t.Errorf("%+v", fast)
	}
}

// faultsOf are the faults of an error, a line each.
func faultsOf(t *testing.T, err error) string {
	t.Helper()
	faults, ok := errors.AsType[Faults](err)
	if !ok {
		t.Fatalf("error %v, want faults", err)
	}
	var lines []string
	for _, f := range faults {
		lines = append(lines, f.Error())
	}
	return strings.Join(lines, "\n")
}

// TestTheDocumentedPlan: the example of docs/programs.md is a plan.
func TestTheDocumentedPlan(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "programs.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(page), "```yaml\n")
	text, _, closed := strings.Cut(block, "```")
	if !ok || !closed {
		t.Fatal("there is no plan in docs/programs.md")
	}
	dir := in(t, map[string]string{"plan.yaml": text, "order.json": "{}", "orders.csv": "url\n/orders/1\n/orders/2\n"})
	p, err := made("-plan", filepath.Join(dir, "plan.yaml"), "-duration", "5m", "-endpoint", "name=fast,rate=200/s", "-H", "Authorization: Bearer x")
	if err != nil {
		t.Fatal(err)
	}
	want := "5m0s poisson | fast GET 127.0.0.1:8080/fast 200/s 2s Accept=application/json Authorization=Bearer x" +
		" | order POST 127.0.0.1:8080/orders 10/s 5s Accept=application/json Authorization=Bearer x body {} row /orders/1  row /orders/2 " +
		" | fast:p(95)<200ms | failed<1%"
	if diff := cmp.Diff(want, said(p)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
