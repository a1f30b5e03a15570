// Package archtest holds the direction of imports, as a test: each rule with its
// reason. Tests are held to the same rules as what they test.
package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "chokepoint"

// contracts are open to every wing.
var contracts = []string{
	"internal/profile", "internal/result", "internal/stats", "internal/rate",
	"internal/delay", "internal/adminapi", "internal/cli",
}

// wings may import the contracts and themselves, and what crossings allows.
var wings = []string{"internal/load", "internal/service", "internal/evidence", "internal/lab"}

// crossings are the imports that cross from one wing to another.
var crossings = []struct{ from, to, reason string }{
	{"internal/service/victim", "internal/evidence/goroutines", "the victim captures its own dumps"},
	{"internal/evidence/report", "internal/load/latency", "a report reads the interval log"},
	{"internal/evidence/sizing", "internal/load/latency", "a size is taken from the interval log of a measured upstream"},
	{"internal/lab", "internal/evidence", "the lab predicts, parses dumps and renders reports"},
}

// programs are the wings that each command knows.
var programs = map[string][]string{
	"cmd/loadgen":  {"internal/load"},
	"cmd/victim":   {"internal/service"},
	"cmd/upstream": {"internal/service"},
	"cmd/lab":      {"internal/lab", "internal/evidence"},
}

// owners are the only packages that may import a dependency.
var owners = []struct{ dependency, owner, reason string }{
	{"github.com/HdrHistogram/hdrhistogram-go", "internal/load/latency", "one place decides range, precision and clamping"},
	{"github.com/sony/gobreaker", "internal/service/guard", "a guard is composed from a profile, not from a library's settings"},
	{"golang.org/x/sync/semaphore", "internal/service/guard", "dumps recognise a permit wait by this one caller"},
	{"github.com/fergusstrange/embedded-postgres", "internal/lab/pgserver", "where a PostgreSQL comes from is one decision"},
	{"k8s.io", "deploy/k8s/check", "Kubernetes' modules are none of the programs'"},
	{"sigs.k8s.io", "deploy/k8s/check", "Kubernetes' modules are none of the programs'"},
	{"github.com/Shopify/toxiproxy", "internal/lab/toxiproxy", "the lab alone puts a proxy into the path"},
	{"github.com/chromedp", "test/browser", "one place says how a page is looked at, and what it may not do"},
	{"go.yaml.in/yaml", "internal/load/plan", "one place says what a key of a plan is, and on which line it is wrong"},
	{"github.com/vishvananda", "internal/lab/netlab", "one place makes networks, and only where nothing of them stays"},
	{"github.com/google/nftables", "internal/lab/netlab", "one place drops packets, and only where nothing of that stays"},
	{"github.com/florianl/go-nfqueue", "internal/lab/netlab", "one place holds packets back, and only where nothing of that stays"},
	{"github.com/prometheus/common", "internal/lab/scrape", "one place reads the metrics of others"},
}

var bannedNames = []string{"util", "utils", "common", "helpers", "helper", "misc", "shared"}

func under(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

func underAny(pkg string, dirs []string) bool {
	for _, dir := range dirs {
		if under(pkg, dir) {
			return true
		}
	}
	return false
}

// importsOf lists every import of the module's packages, by package folder.
func importsOf(t *testing.T) map[string]map[string][]string {
	t.Helper()
	root := filepath.Join("..", "..")
	imports := map[string]map[string][]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "results" || name == "bin" || name == "tools") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(rel))
		if imports[pkg] == nil {
			imports[pkg] = map[string][]string{}
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports[pkg][imported] = append(imports[pkg][imported], rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(imports) < 15 {
		t.Fatalf("found %d packages: the walk does not see the module", len(imports))
	}
	return imports
}

func TestImportsGoDownAndDoNotCrossTheWings(t *testing.T) {
	for pkg, imports := range importsOf(t) {
		for imported, files := range imports {
			target, internal := strings.CutPrefix(imported, module+"/")
			if !internal {
				continue
			}
			if reason := forbidden(pkg, target); reason != "" {
				t.Errorf("%s imports %s (%s): %s", pkg, target, files[0], reason)
			}
		}
	}
}

// forbidden says why pkg may not import target; empty if it may.
func forbidden(pkg, target string) string {
	switch {
	case under(pkg, "test"):
		return "" // end-to-end tests look from outside, at whatever they need
	case under(target, "cmd"):
		return "a command is nobody's library"
	case strings.HasPrefix(pkg, "cmd/"):
		if underAny(target, contracts) || underAny(target, programs[pkg]) {
			return ""
		}
		return "a command knows its own wing"
	case underAny(pkg, contracts):
		if pkg == target {
			return "" // its own external tests
		}
		return "a contract imports nothing internal: everyone depends on it"
	}
	if underAny(target, contracts) {
		return ""
	}
	for _, wing := range wings {
		if under(pkg, wing) && under(target, wing) {
			return ""
		}
	}
	for _, c := range crossings {
		if under(pkg, c.from) && under(target, c.to) {
			return ""
		}
	}
	return "the wings do not import each other; see crossings for the exceptions"
}

func TestDependenciesHaveOneOwner(t *testing.T) {
	for pkg, imports := range importsOf(t) {
		for imported, files := range imports {
			for _, o := range owners {
				if !under(imported, o.dependency) || under(pkg, o.owner) {
					continue
				}
				if allTests(files) {
					continue // a test may stand in for what it tests against
				}
				t.Errorf("%s imports %s (%s); only %s may: %s", pkg, imported, files[0], o.owner, o.reason)
			}
		}
	}
}

func allTests(files []string) bool {
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") {
			return false
		}
	}
	return true
}

func TestNoPackageIsCalledAfterNothing(t *testing.T) {
	for pkg := range importsOf(t) {
		for _, banned := range bannedNames {
			if path.Base(pkg) == banned {
				t.Errorf("package %s: the name says nothing of what it is for", pkg)
			}
		}
	}
}

// TestTheRulesBite: a rule that forbids nothing would pass as well.
func TestTheRulesBite(t *testing.T) {
	for _, tc := range []struct {
		pkg, target string
		allowed     bool
	}{
		{"internal/load/engine", "internal/service/pool", false},
		{"internal/service/pool", "internal/load/ledger", false},
		{"internal/lab/scenario", "internal/load/engine", false},
		{"internal/lab/scenario", "internal/service/victim", false},
		{"internal/evidence/report", "internal/lab/scenario", false},
		{"internal/evidence/queueing", "internal/load/latency", false},
		{"internal/result", "internal/stats", false},
		{"cmd/victim", "internal/lab/proc", false},
		{"cmd/lab", "internal/load/engine", false},
		{"internal/lab/scenario", "cmd/lab", false},
		{"internal/lab/scenario", "internal/evidence/queueing", true},
		{"internal/service/victim", "internal/evidence/goroutines", true},
		{"internal/evidence/report", "internal/load/latency", true},
		{"internal/load/engine", "internal/result", true},
		{"cmd/loadgen", "internal/load/engine", true},
	} {
		if reason := forbidden(tc.pkg, tc.target); (reason == "") != tc.allowed {
			t.Errorf("%s -> %s: allowed %v, want %v (%s)", tc.pkg, tc.target, reason == "", tc.allowed, reason)
		}
	}
}
