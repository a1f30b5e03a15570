package plan

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// said is what a plan says, in a form that is short to write down.
func said(p Plan) string {
	c := p.Config
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s", c.Duration, c.Arrivals)
	if c.Closed > 0 {
		fmt.Fprintf(&b, " closed %d", c.Closed)
	}
	for _, e := range c.Endpoints {
		fmt.Fprintf(&b, " | %s %s %s", e.Name, e.Method, strings.TrimPrefix(e.URL, "http://"))
		if e.Rate > 0 {
			fmt.Fprintf(&b, " %v", e.Rate)
		}
		fmt.Fprintf(&b, " %v", e.Timeout)
		for _, h := range e.Header {
			fmt.Fprintf(&b, " %s=%s", h.Name, h.Value)
		}
		if len(e.Body) > 0 {
			fmt.Fprintf(&b, " body %s", e.Body)
		}
		for _, r := range e.Rows {
			fmt.Fprintf(&b, " row %s %s", r.URL, r.Body)
		}
	}
	for _, t := range p.Thresholds {
		fmt.Fprintf(&b, " | %v", t)
	}
	return b.String()
}

const (
	one = "duration: 1m\nurl: http://a/\nrate: 10\nheader: {Accept: x, B: 1}\n"
	two = `duration: 1m
timeout: 3s
header: {Authorization: secret, Accept: x}
thresholds: [dropped==0]
endpoints:
- {name: fast, url: http://a/f, rate: 10, header: {accept: y}}
- {name: slow, url: http://a/s, rate: 1, timeout: 9s}
`
	ramp   = "arrivals: ramp:0..10/s\nduration: 4s\nurl: http://a/\n"
	closed = "closed: 3\nduration: 4s\nurl: http://a/\n"
)

func TestWhatWinsOverWhat(t *testing.T) {
	for _, test := range []struct {
		name, file string
		env        map[string]string
		args       []string
		want       string
	}{
		{name: "the short form", args: []string{"-rate", "5", "http://a/"}, want: "10s constant | url GET a/ 5/s 10s"},
		{name: "short names", args: []string{"-z", "2s", "-q", "300/m", "-c", "4", "-m", "PUT", "-H", "A: b: c", "-d", "x", "http://a/"},
			want: "2s constant | url PUT a/ 5/s 10s A=b: c body x"},
		{name: "a body makes it a POST", args: []string{"-rate", "5", "-d", "x", "http://a/"}, want: "10s constant | url POST a/ 5/s 10s body x"},
		{name: "an exact count", args: []string{"-n", "100", "-rate", "7", "http://a/"}, want: "14.285714285s constant | url GET a/ 7/s 10s"},
		{name: "a file of one", file: one, want: "1m0s constant | url GET a/ 10/s 10s Accept=x B=1"},
		{name: "the environment over the file", file: one, env: map[string]string{"CHOKEPOINT_DURATION": "2s", "CHOKEPOINT_HEADER": "Accept: z\nC: 2"},
			want: "2s constant | url GET a/ 10/s 10s B=1 Accept=z C=2"},
		{name: "the flag over both", file: one, env: map[string]string{"CHOKEPOINT_DURATION": "2s", "CHOKEPOINT_RATE": "3"}, args: []string{"-z", "3s", "-timeout", "1s"},
			want: "3s constant | url GET a/ 3/s 1s Accept=x B=1"},
		{name: "a file without a URL", file: "rate: 2\ntimeout: 3s\n", args: []string{"http://a/"}, want: "10s constant | url GET a/ 2/s 3s"},
		{name: "a file without a URL, and -endpoint", file: "timeout: 3s\n", args: []string{"-endpoint", "name=a,url=http://a/,rate=1"}, want: "10s constant | a GET a/ 1/s 3s"},
		{name: "headers as a list", file: "url: http://a/\nrate: 1\nheader: ['A: 1', 'B: 2']\n", want: "10s constant | url GET a/ 1/s 10s A=1 B=2"},
		{name: "an alias for a value", file: "url: &u http://a/\nrate: 1\nbody: *u\n", want: "10s constant | url POST a/ 1/s 10s body http://a/"},
		{name: "a URL over that of the file", file: one, args: []string{"http://b/"}, want: "1m0s constant | url GET b/ 10/s 10s Accept=x B=1"},
		{name: "the plan named by the environment", file: one, env: map[string]string{"CHOKEPOINT_PLAN": "@"}, want: "1m0s constant | url GET a/ 10/s 10s Accept=x B=1"},
		{name: "what is beside endpoints is of each", file: two,
			want: "1m0s constant | fast GET a/f 10/s 3s Authorization=secret accept=y | slow GET a/s 1/s 9s Authorization=secret Accept=x | dropped==0"},
		{name: "flags of every endpoint", file: two, args: []string{"-timeout", "1s", "-H", "authorization: other", "-threshold", "count>1"},
			want: "1m0s constant | fast GET a/f 10/s 1s accept=y authorization=other | slow GET a/s 1/s 1s Accept=x authorization=other | count>1"},
		{name: "-endpoint over one of them, and another", file: two, args: []string{"-timeout", "1s", "-endpoint", "name=slow,timeout=2s,rate=5", "-endpoint", "name=new,url=http://n/,rate=2"},
			want: "1m0s constant | fast GET a/f 10/s 1s Authorization=secret accept=y | slow GET a/s 5/s 2s Authorization=secret Accept=x | new GET n/ 2/s 1s Authorization=secret Accept=x | dropped==0"},
		{name: "one of several endpoints, with what is of it and of all", file: strings.Replace(two, "[dropped==0]", `[dropped==0, "fast:med<1s", "slow:med<1s"]`, 1),
			args: []string{"-only", "fast", "-endpoint", "name=fast,rate=2"},
			want: "1m0s constant | fast GET a/f 2/s 3s Authorization=secret accept=y | dropped==0 | fast:med<1s"},
		{name: "a count over the file's duration", file: one, args: []string{"-n", "5"}, want: "500ms constant | url GET a/ 10/s 10s Accept=x B=1"},
		{name: "a duration over the file's count", file: "count: 5\nrate: 10\nurl: http://a/\n", args: []string{"-z", "3s"}, want: "3s constant | url GET a/ 10/s 10s"},
		{name: "a count in the file", file: "count: 5\nrate: 10\nurl: http://a/\n", want: "500ms constant | url GET a/ 10/s 10s"},
		{name: "the closed model over an open plan", file: two + "quantum: 1ms\narrivals: poisson\n", args: []string{"-closed", "2"},
			want: "1m0s constant closed 2 | fast GET a/f 3s Authorization=secret accept=y | slow GET a/s 9s Authorization=secret Accept=x | dropped==0"},
		{name: "a rate over the closed model", file: closed, args: []string{"-rate", "5"}, want: "4s constant | url GET a/ 5/s 10s"},
		{name: "arrivals over the closed model", file: closed, args: []string{"-arrivals", "ramp:0..10/s"}, want: "4s ramp | url GET a/ 10s"},
		{name: "a pattern over the file's rates and duration", file: one, args: []string{"-arrivals", "steps:5/s:2s"}, want: "2s steps | url GET a/ 10s Accept=x B=1"},
		{name: "a rate over the file's pattern", file: ramp, args: []string{"-rate", "5"}, want: "4s constant | url GET a/ 5/s 10s"},
		{name: "poisson over the file's pattern, with a rate", file: ramp, args: []string{"-rate", "5", "-arrivals", "poisson"}, want: "4s poisson | url GET a/ 5/s 10s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := test.args
			if test.file != "" {
				path := filepath.Join(in(t, map[string]string{"plan.yaml": test.file}), "plan.yaml")
				if test.env["CHOKEPOINT_PLAN"] != "" {
					test.env["CHOKEPOINT_PLAN"] = path
				} else {
					args = append([]string{"-plan", path}, args...)
				}
			}
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			p, err := made(args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, said(p)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestPathsOfAFileAreRelativeToIt(t *testing.T) {
	dir := in(t, map[string]string{
		"plan.yaml": "arrivals: replay:times.csv\nurl: http://a/\nbody: '@body.json'\nrows: rows.csv\n",
		"times.csv": "0\n0.5\n", "body.json": "{}\n", "rows.csv": "url\n/1\n/2\n",
	})
	p, err := made("-plan", filepath.Join(dir, "plan.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := said(p), "1s replay | url POST a/ 10s body {}\n row /1  row /2 "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	t.Chdir(dir)
	if p, err = made("-rate", "1", "-body", "@body.json", "-rows", "@rows.csv", "http://a/"); err != nil {
		t.Fatal(err)
	}
	if got, want := said(p), "10s constant | url POST a/ 1/s 10s body {}\n row /1  row /2 "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestACountIsExact(t *testing.T) {
	for _, rate := range []string{"1", "3", "7", "30", "999.7", "1e6", "3e7", "1/m", "7/h", "0.001"} {
		for _, n := range []string{"1", "2", "3", "10", "900", "99999"} {
			p, err := made("-n", n, "-rate", rate, "http://a/")
			if err != nil {
				if !strings.Contains(err.Error(), "longer than 720h") {
					t.Errorf("%s at %s: %v", n, rate, err)
				}
				continue
			}
			c := p.Config
			if got := fmt.Sprint(c.Endpoints[0].Rate.Count(c.Duration)); got != n {
				t.Errorf("%s at %s: %s in %v", n, rate, got, c.Duration)
			}
		}
	}
}
