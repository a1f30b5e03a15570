package plan

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"chokepoint/internal/cli"
)

// FuzzPlan reads any text as a plan. It must end in a plan that the engine takes,
// or in faults of one line each that name the file.
func FuzzPlan(f *testing.F) {
	for _, seed := range []string{
		full, one, two, ramp, closed,
		"", "---\n", "a", "- a\n", "{", "a: b: c", "\x00", "\xff", "? [a, b]\n: c\n",
		"&a a: *a", "a: &b\n  c: *b\n", "endpoints: &e\n- *e\n", "header: &h {a: *h}\n",
		"endpoints: [{name: a, url: http://a/, rate: 1e300}]\nduration: 1h\n",
		"duration: 1ns\nurl: http://a/\nrate: 1e9\n", "url: http://a/\narrivals: steps:" + strings.Repeat("1/s:1s,", 50) + "1/s:1s\n",
		"url: http://a/\narrivals: replay:/dev/zero\n", "body: '@/dev/zero'\nurl: http://a/\nrate: 1\n",
		"count: 9223372036854775807\nrate: 1\nurl: http://a/\n", "closed: -1\nurl: http://a/\n",
		"url: !!binary aGVsbG8=\nrate: !!int 3\n", "url: |\n  http://a/\n  b\nrate: 1\n", "<<: {a: b}\n",
		strings.Repeat("[", 20_000), strings.Repeat("- ", 5_000),
		"thresholds: [p(95)<200ms, x]\nstart-at: 2001-01-01\nsource: [::1, x]\nresolve: ['[::1]:80:127.0.0.1']\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "plan.yaml")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := made("-plan", path)
		if err == nil {
			if err := p.Config.Validate(); err != nil {
				t.Errorf("a plan that is not valid: %v", err)
			}
			return
		}
		for line := range strings.SplitSeq(faultsOf(t, err), "\n") {
			if line == "" {
				t.Errorf("a fault of no or of several lines: %q", err)
			}
		}
	})
}

// FuzzEndpoint reads any text as an -endpoint, and writes what it has read down
// again, quoted.
func FuzzEndpoint(f *testing.F) {
	for _, seed := range []string{
		"", "name", "name=", "name=a,url=http://a/,rate=20/s,timeout=10s,workers=3,method=PUT,header=A: b,header=C: d,body=@x,rows=@y",
		`name="a,""b",body='it''s'`, `name="`, `name='a'b`, "name=a,,", "=", ",", "name=a,header=,b=c", `name=a,body=""""""`, "name=\xff\x00,url=\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseEndpoint(text)
		if err != nil {
			if utf8.ValidString(text) && strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q is not one line", err)
			}
			return
		}
		var again []string
		for _, k := range endpointKeys {
			for _, v := range d.texts[k.name] {
				again = append(again, k.name+`="`+strings.ReplaceAll(v.text, `"`, `""`)+`"`)
			}
		}
		same, err := parseEndpoint(strings.Join(again, ","))
		if err != nil {
			t.Fatalf("%q, written as %q: %v", text, again, err)
		}
		for _, k := range endpointKeys {
			a, b := d.texts[k.name], same.texts[k.name]
			if len(a) != len(b) {
				t.Fatalf("%q, written as %q: %v and %v", text, again, a, b)
			}
			for i := range a {
				if a[i].text != b[i].text {
					t.Fatalf("%q, written as %q: %v and %v", text, again, a, b)
				}
			}
		}
		// The values themselves may be anything.
		fs := flag.NewFlagSet("loadgen", flag.ContinueOnError)
		flags := Register(fs)
		if cli.Parse(fs, []string{"-endpoint", text}, "", io.Discard) == nil && !strings.Contains(text, "@") && !d.has("rows") {
			_, _ = flags.Plan(nil)
		}
	})
}

// FuzzRows reads any text as a file of rows: there are some, or there is an error
// at a line.
func FuzzRows(f *testing.F) {
	for _, seed := range []string{
		"", "url\n/1\n", "url,body\n/1,\"a\nb\"\n", "{\"url\": \"/1\", \"body\": [1]}\n{\"body\": \"a\"}\n", "{", "{}", "{} {}", "url\n\"", "body\r\nx\r\n",
		"\ufeff{\"url\": \"\\ud800\"}", "{\"url\": null, \"body\": null}", "{\"body\": 1e999}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := parseRows(data)
		if err == nil && len(rows) == 0 {
			t.Error("no rows and no error")
		}
		if err != nil && !strings.HasPrefix(err.Error(), ":") {
			t.Errorf("error %q does not begin with a line", err)
		}
	})
}
