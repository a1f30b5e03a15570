package scenario

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"chokepoint/internal/cli"
	"chokepoint/internal/evidence/dumps"
	"chokepoint/internal/lab/scrape"
	"chokepoint/internal/rate"
	"chokepoint/internal/result"
)

// AttachName is the name of the scenario that runs against a service which is not
// the lab's own.
const AttachName = "attach"

// AttachSettings is the whole configuration of a run against a service that is not
// ours. Every duration and rate is real.
type AttachSettings struct {
	Name string // of the run; by default the plan's
	Plan string // a file of loadgen -plan

	AllowTargets []string    // host or host:port of those that are no loopback
	LoadHeader   []string    // of every request of the load, beside those of the plan
	AdminHeader  http.Header // of the questions for dumps and metrics

	DumpURL     string
	DumpAt      string // empty: a quarter and two thirds of the load, and 5 s after
	DumpTimeout time.Duration

	MetricsURL string
	metrics    map[string]scrape.Selector // by result.Metric word

	Protect    string   // the endpoint that must survive; by default the plan's only one
	MaxFailed  float64  // share of it that may fail
	MaxP95     optional // of its response time
	Thresholds []string // of loadgen, beside those of the plan

	BaselineDuration time.Duration
	BaselineRate     rate.Rate // 0: that of the endpoint in the plan
	RecoveryWait     time.Duration

	ResultsDir string
	BinDir     string

	flags *flag.FlagSet
}

// optional is a duration that need not be given.
type optional struct {
	time.Duration
	given bool
}

// metricFlags are the flags that name a metric, by what it stands for.
var metricFlags = []struct{ flag, metric, usage string }{
	{"busy-metric", result.MetricBusy, "`metric` of the busy workers, such as tomcat_threads_busy_threads"},
	{"limit-metric", result.MetricLimit, "`metric` of the most workers there can be, such as tomcat_threads_config_max_threads"},
	{"queued-metric", result.MetricQueued, "`metric` of the requests that wait for a worker"},
	{"cpu-metric", result.MetricCPU, "`metric` of the CPU: seconds used (process_cpu_seconds_total), nanoseconds (process_cpu_time_ns_total), or the share of all CPUs (process_cpu_usage)"},
	{"memory-metric", result.MetricMemory, "`metric` of the memory in bytes, such as process_resident_memory_bytes"},
}

// Bind registers a flag for every setting, with its default.
func (s *AttachSettings) Bind(fs *flag.FlagSet) {
	s.flags, s.AdminHeader, s.metrics = fs, http.Header{}, map[string]scrape.Selector{}
	list := func(to *[]string, name, usage string) {
		fs.Func(name, usage, func(text string) error {
			*to = append(*to, text)
			return nil
		})
	}
	fs.StringVar(&s.Plan, "plan", "", "the load: a YAML `file` of loadgen -plan")
	fs.StringVar(&s.Name, "name", "", "what the run is called in results (default: the plan's file name)")
	list(&s.AllowTargets, "allow-target", "a `host` or host:port that is no loopback and that you may load until it breaks; may be repeated")
	fs.Func("header", "a header `line` of every request of the load, as loadgen's; may be repeated", func(text string) error {
		if strings.ContainsAny(text, "\r\n") || strings.Contains(text, " #") {
			return errors.New("a header of the load has neither a line break nor a # after a space here; put it into the plan")
		}
		s.LoadHeader = append(s.LoadHeader, text)
		return nil
	})
	fs.Func("admin-header", "a header `line` for -dump-url and -metrics-url, such as 'Authorization: Bearer ...'; may be repeated", func(text string) error {
		name, value, ok := strings.Cut(text, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return errors.New("want a line such as 'Name: value'") // not the line: it may be a secret
		}
		s.AdminHeader.Add(name, strings.TrimSpace(value))
		return nil
	})
	fs.StringVar(&s.DumpURL, "dump-url", "", "`URL` of a dump: Go's /debug/pprof/goroutine?debug=2 or Spring Boot's /actuator/threaddump")
	fs.StringVar(&s.DumpAt, "dump-at", "", "`moments` of the dumps under load, and after its end with a +, as 15s,40s,+5s (default: a quarter and two thirds of the load, and +5s)")
	fs.DurationVar(&s.DumpTimeout, "dump-timeout", 10*time.Second, "how long a dump may take, to its last byte")
	fs.StringVar(&s.MetricsURL, "metrics-url", "", "`URL` of metrics in the text format of Prometheus; asked once a second")
	for _, m := range metricFlags {
		fs.Func(m.flag, m.usage, func(text string) error {
			selector, err := scrape.ParseSelector(text)
			s.metrics[m.metric] = selector
			return err
		})
	}
	fs.StringVar(&s.Protect, "protect", "", "the `endpoint` of the plan that must survive (default: its only one)")
	fs.Func("max-failed", "the `share` of the protected endpoint that may fail, as 0.01 or 1% (default 0)", func(text string) (err error) {
		s.MaxFailed, err = parseShare(text)
		return err
	})
	fs.Func("max-p95", "the p95 that the protected endpoint may have, a `duration` (default: twice that of its baseline, at the least 25ms)", func(text string) (err error) {
		s.MaxP95.Duration, err = time.ParseDuration(text)
		s.MaxP95.given = true
		return err
	})
	list(&s.Thresholds, "threshold", "a `condition` of loadgen that must hold as well, such as 'shop:p(95)<200ms'; may be repeated")
	fs.DurationVar(&s.BaselineDuration, "baseline-duration", 10*time.Second, "how long the protected endpoint is measured before the load, alone")
	fs.Func("baseline-rate", "the `rate` of that (default: its mean rate in the plan)", s.BaselineRate.Set)
	fs.DurationVar(&s.RecoveryWait, "recovery-wait", 45*time.Second, "how long to watch for recovery after the load")
	s.ResultsDir = "results"
	cli.FileVar(fs, &s.ResultsDir, "results", "`folder` of the results")
	fs.StringVar(&s.BinDir, "bin-dir", "", "`folder` of loadgen (default: beside this program)")
}

func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, errors.New("want a share from 0 to 1, or 0% to 100%")
	}
	return share, nil
}

// runName is what may be part of a folder's name, and of a title.
var runName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Validate refuses what can be told without the plan, and gives the run its name.
// Its errors are usage errors.
func (s *AttachSettings) Validate() error {
	if s.Plan == "" {
		return errors.New("-plan is missing; give the load as a file of loadgen -plan (loadgen plan -check tells whether it is one)")
	}
	if s.Name == "" {
		s.Name = strings.TrimSuffix(filepath.Base(s.Plan), filepath.Ext(s.Plan))
	}
	if !runName.MatchString(s.Name) {
		return fmt.Errorf("-name %q: want up to 64 letters, digits, dots, _ and -, the first a letter or a digit", s.Name)
	}
	switch {
	case s.DumpURL == "":
		return errors.New("-dump-url is missing; give that of /debug/pprof/goroutine?debug=2 in Go, or of /actuator/threaddump in Spring Boot")
	case !isHTTPURL(s.DumpURL):
		return fmt.Errorf("-dump-url %s: want a URL such as http://127.0.0.1:6060/debug/pprof/goroutine?debug=2", withoutSecrets(s.DumpURL))
	case s.MetricsURL != "" && !isHTTPURL(s.MetricsURL):
		return fmt.Errorf("-metrics-url %s: want a URL such as http://127.0.0.1:8081/actuator/prometheus", withoutSecrets(s.MetricsURL))
	case s.MetricsURL != "" && len(s.metrics) == 0:
		return errors.New("-metrics-url without a metric; name one, as in -busy-metric tomcat_threads_busy_threads")
	case s.MetricsURL == "" && len(s.metrics) > 0:
		return errors.New("a metric without -metrics-url; give that of /actuator/prometheus or /metrics")
	case s.MaxP95.given && s.MaxP95.Duration <= 0:
		return fmt.Errorf("-max-p95 %v: want more than 0s", s.MaxP95.Duration)
	case s.RecoveryWait < 0 || s.RecoveryWait > longest:
		return fmt.Errorf("-recovery-wait %v: want 0s to %v", s.RecoveryWait, longest)
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"dump-timeout", s.DumpTimeout}, {"baseline-duration", s.BaselineDuration}} {
		if d.value <= 0 || d.value > longest {
			return fmt.Errorf("-%s %v: want more than 0s, up to %v", d.flag, d.value, longest)
		}
	}
	if s.DumpAt != "" {
		if _, err := dumpPoints(s.DumpAt, longest+1); err != nil {
			return err
		}
	}
	return nil
}

// withoutSecrets is a URL that may be printed; of a text that is none it says so.
func withoutSecrets(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "(not a URL)"
	}
	return dumps.Shown(u)
}

// Effective is the whole configuration, flag by flag, without secrets: what the plan
// says is in plan.json, and of a header only the name is kept.
func (s *AttachSettings) Effective() map[string]string {
	all := map[string]string{}
	s.flags.VisitAll(func(f *flag.Flag) { all[f.Name] = f.Value.String() })
	for _, name := range []string{"config", "version", "json"} {
		delete(all, name)
	}
	var names []string
	for name := range s.AdminHeader {
		names = append(names, name)
	}
	all["admin-header"] = strings.Join(names, ", ")
	names = nil
	for _, line := range s.LoadHeader {
		name, _, _ := strings.Cut(line, ":")
		names = append(names, name)
	}
	all["header"] = strings.Join(names, ", ")
	all["allow-target"], all["threshold"] = strings.Join(s.AllowTargets, ", "), strings.Join(s.Thresholds, ", ")
	all["dump-url"] = withoutSecrets(s.DumpURL)
	if s.MetricsURL != "" {
		all["metrics-url"] = withoutSecrets(s.MetricsURL)
	}
	for _, m := range metricFlags {
		all[m.flag] = s.metrics[m.metric].String()
	}
	all["max-failed"], all["baseline-rate"] = formatFloat(s.MaxFailed), ""
	if s.BaselineRate > 0 {
		all["baseline-rate"] = s.BaselineRate.String()
	}
	all["max-p95"] = ""
	if s.MaxP95.given {
		all["max-p95"] = s.MaxP95.String()
	}
	return all
}
