package plan

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryFaultOfAFileHasItsLine(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"all of them", `duration: soon
grace-stop: 2s
gracefulStop: 2s
thresholds: [avg<2ms]
seed:
seed: 4
endpoints:
  - name: fast
    url: ftp://a/
    rate: 10
  - name: slow
    rate: many
    headers: {A: 1}
    timeout: 0s
  - url: http://a/
    rate: 3
`, `P:1: duration "soon": not a duration such as 500ms, 30s or 5m
P:2: unknown key "grace-stop"; did you mean graceful-stop?
P:3: unknown key "gracefulStop"; did you mean graceful-stop?
P:4: threshold "avg<2ms": a mean hides the slow answers; take med or a percentile such as p(95); write it as fast:p(95)<200ms, failed<1% or dropped==0
P:5: seed has no value; give one, or leave the key out
P:6: seed is given twice
P:8: endpoint fast: URL "ftp://a/" must start with http:// or https://
P:12: endpoint slow: rate "many": not a number; write it as 20, 20/s, 1200/m or 72000/h
P:13: unknown key "headers"; did you mean header?
P:14: endpoint slow: timeout 0s must be above zero
P:15: an endpoint has no name; give name: a`},
		{"what is read and what only the whole can tell", `warmup: -1s
max-lag: soon
quantum: 10ms
thresholds:
- nobody:med<1s
- noone:med<1s
endpoints:
- {name: fast, url: http://a/, rate: many}
- {name: fast, url: http://a/, rate: 1, method: get}
- {name: bare, url: a/path, rate: 1}
- {name: idle, url: http://a/}
- {name: both, url: a/path, rate: -1}
`, `P:1: a warm-up of -1s must be between 0 and 720h0m0s
P:2: max-lag "soon": not a duration such as 500ms, 30s or 5m
P:5: threshold "nobody:med<1s": there is no endpoint nobody, only fast, fast, bare, idle, both
P:6: threshold "noone:med<1s": there is no endpoint noone, only fast, fast, bare, idle, both
P:8: endpoint fast: rate "many": not a number; write it as 20, 20/s, 1200/m or 72000/h
P:9: two endpoints are named "fast"; give each its own name
P:9: endpoint fast: method "get" is not an HTTP method such as GET
P:10: endpoint bare: URL "a/path" must start with http:// or https://
P:11: endpoint idle: rate is missing; give rate=20/s, or -rate 20/s with a URL, or -closed 10 for 10 workers that send as fast as they are answered
P:12: endpoint both: rate "-1": must be above zero
P:12: endpoint both: URL "a/path" must start with http:// or https://`},
		{"nothing follows from a fault", `arrivals: burst
count: 5
url: http://a/
`, `P:1: arrivals "burst": choose constant, poisson, ramp:10/s..100/s, steps:100/s:30s,200/s:30s or replay:FILE`},
		{"what only the whole can tell", `quantum: 10ms
endpoints:
- {name: a, url: ftp://a/, rate: 10}
- {name: b, url: 'http:///x', rate: 10}
- {name: a b, url: http://a/, rate: 10}
`, `P:1: a quantum of 10ms makes requests up to 10ms late, and a maximum lag of 5ms makes that run invalid; lower the quantum or raise the maximum lag
P:3: endpoint a: URL "ftp://a/" must start with http:// or https://
P:4: endpoint b: URL "http:///x" has no host
P:5: endpoint name "a b": use letters, digits, _ and - only`},
		{"of each endpoint", `endpoints:
- {name: a, url: ftp://a/, rate: 10}
- {name: b, url: 'http:///x', rate: 10}
- {name: a b, url: http://a/, rate: 10}
- {name: c, url: http://a/, rate: 10}
`, `P:2: endpoint a: URL "ftp://a/" must start with http:// or https://
P:3: endpoint b: URL "http:///x" has no host
P:4: endpoint name "a b": use letters, digits, _ and - only`},
		{"a start that is no time", "url: http://a/\nrate: 1\nstart-at: yesterday\n", `P:3: start-at "yesterday": not a time such as 2026-01-31T15:04:05Z`},
		{"two of a name", "endpoints:\n- {name: a, url: http://a/, rate: 1}\n- {name: a, url: http://a/, rate: 1}\n",
			`P:3: two endpoints are named "a"; give each its own name`},
		{"no rate", "endpoints:\n- {name: a, url: http://a/}\n", "P:2: endpoint a: rate is missing; give rate=20/s, or -rate 20/s with a URL, or -closed 10 for 10 workers that send as fast as they are answered"},
		{"of one or of several", "rate: 4\nurl: http://b/\nendpoints:\n- {name: a, url: http://a/, rate: 1}\n",
			"P:1: rate is of one endpoint, and there is a list of them; write it into each\nP:2: url is of one endpoint, and there is a list of them; write it into each"},
		{"a threshold of nobody", "url: http://a/\nrate: 1\nthresholds:\n- slow:med<1s\n", `P:4: threshold "slow:med<1s": there is no endpoint slow, only url`},
		{"arrivals", "url: http://a/\narrivals: burst\n", `P:2: arrivals "burst": choose constant, poisson, ramp:10/s..100/s, steps:100/s:30s,200/s:30s or replay:FILE`},
		{"arrivals and a duration", "url: http://a/\narrivals: steps:5/s:1s\nduration: 2s\n", `P:2: arrivals "steps:5/s:1s" last 1s, and the duration is 2s; leave the duration out`},
		{"a count and a duration", "url: http://a/\nrate: 1\ncount: 5\nduration: 2s\n", "P:3: count 5: the duration is count / rate; leave the duration out"},
		{"a count of nothing", "url: http://a/\nrate: 1\ncount: 0\n", "P:3: count 0: give one or more"},
		{"files", "url: http://a/\nrate: 1\ncacert: absent.pem\ncert: plan.yaml\nbody: '@absent'\nrows: absent\n",
			"P:3: cacert: open D/absent.pem: no such file or directory\nP:4: cert D/plan.yaml and key D/plan.yaml: tls: failed to find any PEM data in certificate input\nP:5: endpoint url: body: open D/absent: no such file or directory\nP:6: endpoint url: rows: open D/absent: no such file or directory"},
		{"no certificate", "url: http://a/\nrate: 1\ncacert: plan.yaml\nkey: plan.yaml\n", "P:3: cacert: D/plan.yaml holds no certificate in PEM form\nP:4: key D/plan.yaml has no certificate; give -cert"},
		{"lists where there are none", "url: [http://a/]\nrate: {a: 1}\nduration: [1s]\nendpoints: 3\n",
			"P:1: url is not a single value\nP:2: rate is not a single value\nP:3: duration is not a single value\nP:4: endpoints is not a list; write each as - name: a, with its url and rate below"},
		{"an endpoint that is none", "endpoints: [http://a/]\n", "P:1: an endpoint is not a mapping; write it as key: value, a line each"},
		{"not a mapping", "- duration: 1s\n", "P:1: the plan is not a mapping; write it as key: value, a line each"},
		{"empty", "# nothing\n", "P: the plan is empty; give endpoints and a duration"},
		{"two documents", "url: http://a/\n---\nurl: http://b/\n", "P:2: a second document begins; give one plan"},
		{"merge keys", "endpoints:\n- &a {name: a, url: http://a/, rate: 1}\n- {<<: *a, name: b}\n",
			"P:3: merge keys are not read; what stands beside endpoints holds for each of them"},
		{"syntax", "url: http://a/\nrate: 1: 2\n", "P:2: mapping values are not allowed in this context"},
		{"a mark", "url: http://a/\nbody: @body.json\n", `P:2: found character that cannot start any token; quote a value that begins with a mark, as in "@body.json"`},
		{"a far key", "colour: red\n", `P:1: unknown key "colour"; the keys are ` + strings.Join(planKeyNames(), ", ")},
		{"an output", "url: http://a/\nrate: 1\njson: load.json\n", `P:3: unknown key "json"; the keys are ` + strings.Join(planKeyNames(), ", ")},
		{"negative", "url: http://a/\nrate: 1\ngraceful-stop: -1s\n", "P:3: graceful stop -1s is negative; leave it out to wait for every answer"},
		{"a closed model of nobody", "url: http://a/\nrate: 1\nclosed: 0\n", "P:3: a closed model with 0 workers; give one or more"},
		{"a seed", "url: http://a/\nrate: 1\nseed: -1\n", `P:3: seed "-1": not a whole number from 0 to 18446744073709551615`},
		{"a start", "url: http://a/\nrate: 1\nstart-at: tomorrow\n", `P:3: start-at "tomorrow": not a time such as 2026-01-31T15:04:05Z`},
		{"a boolean", "url: http://a/\nrate: 1\ninsecure: perhaps\n", `P:3: insecure "perhaps": not true or false`},
		{"two ways", "url: http://a/\nrate: 1\nkeepalive: false\nmax-age: 3s\n", "P:3: without keep-alive a connection carries one request: leave out its maximum age and maximum requests"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := in(t, map[string]string{"plan.yaml": test.file})
			path := filepath.Join(dir, "plan.yaml")
			_, err := made("-plan", path)
			if err == nil {
				t.Fatal("no fault")
			}
			got := regexp.MustCompile("(?m)^"+path+":").ReplaceAllString(faultsOf(t, err), "P:")
			got = strings.ReplaceAll(got, dir, "D")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is not one line", err)
			}
		})
	}
}

func TestAFileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, []byte(strings.Repeat("#\n", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "absent"): "plan: open " + filepath.Join(dir, "absent") + ": no such file or directory",
		dir:                          "plan: " + dir + " is a folder; give a file",
		"/dev/zero":                  "plan: /dev/zero is not a regular file; copy what it gives into one",
		large:                        "plan: " + large + " has 2097152 bytes, and at most 1048576 are read",
	} {
		if _, err := made("-plan", path); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestFaultsOfACommandLine(t *testing.T) {
	dir := in(t, map[string]string{"two.yaml": two, "rated.yaml": "rate: 5\n"})
	plan, rated := filepath.Join(dir, "two.yaml"), filepath.Join(dir, "rated.yaml")
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"a rate of several", []string{"-plan", plan, "-rate", "5"}, "-rate is of one endpoint, and the plan has 2; give -endpoint name=fast,rate=20/s"},
		{"a URL of several", []string{"-plan", plan, "http://b/"}, "a URL is of one endpoint, and the plan has 2; give -endpoint name=fast,url=URL"},
		{"a new endpoint without a URL", []string{"-plan", plan, "-endpoint", "name=new,rate=5"}, "endpoint new: url is missing; give url=http://HOST/PATH"},
		{"a flag of no endpoint", []string{"-H", "A: b"}, "-header belongs to a URL, and none is given; give one after the flags"},
		{"an endpoint without a name", []string{"-endpoint", "url=http://a/,rate=1"}, "-endpoint: name is missing; give name=a"},
		{"an endpoint with an empty name", []string{"-endpoint", "name=,rate=1"}, "-endpoint: name is missing; give name=a"},
		{"an endpoint with an empty URL", []string{"-endpoint", "name=a,url=,rate=1"}, "endpoint a: url is missing; give url=http://HOST/PATH"},
		{"a URL over a file of two, as a second", []string{"-plan", plan, "-endpoint", "name=c,url=http://c/,rate=1", "http://b/"}, "give a URL or -endpoint, not both"},
		{"the file's rate, and an -endpoint", []string{"-plan", rated, "-endpoint", "name=c,url=http://c/"}, rated + ":1: rate is of one endpoint, and there is an -endpoint too; write it into that"},
		{"standard input", []string{"-d", "@-", "-rate", "1", "http://a/"}, "endpoint url: body: standard input is not read; give a file"},
		{"several of -endpoint", []string{"-endpoint", "name", "-endpoint", "name=a,rat=3"},
			"-endpoint: \"name\" is not key=value; " + commaHint + "\n-endpoint: unknown key \"rat\"; did you mean rate? (" + commaHint + ")"},
		{"a count of several", []string{"-plan", plan, "-n", "5"}, "count 5: it is of one endpoint, and there are 2; give -duration"},
		{"-only of nobody", []string{"-only", "b", "-endpoint", "name=a,url=http://a/,rate=1"}, `-only "b": there is no such endpoint, only a`},
		{"a count of poisson arrivals", []string{"-n", "5", "-rate", "1", "-arrivals", "poisson", "http://a/"}, "count 5: of poisson arrivals only the mean is known before; give -duration"},
		{"a count of a ramp", []string{"-n", "5", "-arrivals", "ramp:0..1", "http://a/"}, "count 5: ramp arrivals have a count of their own; leave it out"},
		{"a count of a closed model", []string{"-n", "5", "-closed", "1", "http://a/"}, "count 5: a closed model sends as many as are answered; give -duration"},
		{"a count and a duration", []string{"-n", "5", "-z", "1s", "-rate", "1", "http://a/"}, "count 5: the duration is count / rate; leave the duration out"},
		{"a header without a colon", []string{"-H", "nonsense", "-rate", "1", "http://a/"}, "endpoint url: a header has no name and colon; write it as 'Name: value'"},
		{"a mistyped command", []string{"repotr", "-rate", "1"}, "one URL is enough, got 3 arguments; flags go before it, and more URLs are given with -endpoint"},
		{"a file for a URL", []string{"plan.yaml"}, `"plan.yaml" is neither a URL, which starts with http:// or https://, nor a command (plan, report, diff); the file of a plan goes after -plan`},
		{"a host for a URL", []string{"-rate", "1", "127.0.0.1:8080/a"}, `"127.0.0.1:8080/a" is neither a URL, which starts with http:// or https://, nor a command (plan, report, diff); the file of a plan goes after -plan`},
		{"a body file without a name", []string{"-d", "@", "-rate", "1", "http://a/"}, "endpoint url: body @: the file is missing, as in @body.json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := made(test.args...)
			if err == nil {
				t.Fatal("no fault")
			}
			if diff := cmp.Diff(test.want, faultsOf(t, err)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestNoFaultShowsASecret: what may be a password is in no message.
func TestNoFaultShowsASecret(t *testing.T) {
	const secret = "hunter2"
	for _, test := range []struct {
		name string
		args []string
	}{
		{"a URL", []string{"-rate", "0.5", "ftp://user:" + secret + "@a/"}},
		{"a URL without its scheme", []string{"-rate", "1", "user:" + secret + "@a/"}},
		{"one of an -endpoint", []string{"-endpoint", "name=a,rate=1,url=user:" + secret + "@a/"}},
		{"a URL that is malformed", []string{"-rate", "0.5", "http://user:" + secret + "/@a/"}},
		{"a URL twice", []string{"-rate", "5", "http://u:" + secret + "@a/", "http://u:" + secret + "@b/"}},
		{"a URL without a rate", []string{"http://u:" + secret + "@a/"}},
		{"the URL of an -endpoint", []string{"-endpoint", "name=a,url=http://u:" + secret + "@a/"}},
		{"a header without a colon", []string{"-H", secret, "-rate", "1", "http://a/"}},
		{"a header with a line break", []string{"-H", "Authorization: " + secret + "\r\n", "-H", "A: " + secret + "\x00", "-rate", "1", "http://a/"}},
		{"a header of an -endpoint", []string{"-endpoint", "name=a,url=http://a/,rate=1,header=" + secret}},
		{"what follows a comma in one", []string{"-endpoint", "name=a,url=http://a/,rate=1,header=A: b," + secret}},
		{"with an equals sign", []string{"-endpoint", "name=a,url=http://a/,rate=1,header=A: b," + secret + "=c"}},
		{"with a quote", []string{"-endpoint", "name=a,url=http://a/,rate=1,header=A: b," + secret + "='c"}},
		{"of a body", []string{"-endpoint", "name=a,url=http://a/,rate=1,body={\"a\": 1, \"password\": \"" + secret + "\"}"}},
		{"a quote that is not closed", []string{"-endpoint", "name=a,url=http://a/,rate=1,header=\"A: " + secret}},
		{"a quote that is closed too early", []string{"-endpoint", "name=a,url=http://a/,rate=1,header=\"A: b\"" + secret}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := made(test.args...)
			if err == nil {
				t.Fatal("no fault")
			}
			if text := faultsOf(t, err); strings.Contains(text, secret) {
				t.Error(text)
			}
		})
	}
}
