package world

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"chokepoint/internal/lab/proc"
)

// Ports inside the namespace, as docker-compose.yml has them.
const (
	victimPort      = 8080
	victimAdminPort = 9080
	stubPort        = 8081
	stubAdminPort   = 9081
)

// resultsMount is where the load generator finds the run's folder.
const resultsMount = "/results"

// limitVariables are the variables of docker-compose.yml that go through from
// the lab's environment: a machine may have less than the limits.
var limitVariables = []string{
	"CHOKEPOINT_VICTIM_CPUS", "CHOKEPOINT_VICTIM_MEMORY",
	"CHOKEPOINT_POSTGRES_CPUS", "CHOKEPOINT_POSTGRES_MEMORY",
}

// findComposeFile finds docker-compose.yml.
func findComposeFile(cfg Config, programs map[string]string) (string, error) {
	if cfg.ComposeFile != "" {
		if _, err := os.Stat(cfg.ComposeFile); err != nil {
			return "", fmt.Errorf("the compose file: %w", err)
		}
		return filepath.Abs(cfg.ComposeFile)
	}
	above := filepath.Dir(filepath.Dir(programs["victim"]))
	for _, dir := range []string{above, "."} {
		path, err := filepath.Abs(filepath.Join(dir, "docker-compose.yml"))
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no docker-compose.yml in %s nor in the working folder; run the lab in its repository, or name the file with -compose-file", above)
}

// override is what one run lays over docker-compose.yml.
type override struct {
	Services map[string]service `json:"services"`
	Networks map[string]network `json:"networks"`
}

type service struct {
	Image       string             `json:"image,omitempty"`
	Command     []string           `json:"command,omitempty"`
	Environment map[string]*string `json:"environment,omitempty"` // nil: not set
	User        string             `json:"user,omitempty"`
	Volumes     []volume           `json:"volumes,omitempty"`
	Healthcheck *healthcheck       `json:"healthcheck,omitempty"`
	Labels      map[string]string  `json:"labels"`
}

type volume struct {
	Type   string `json:"type"`
	Source string `json:"source"`
	Target string `json:"target"`
}

type healthcheck struct {
	Interval string `json:"interval"`
}

type network struct {
	Labels map[string]string `json:"labels"`
}

// newOverride is a run's own part: its binaries, its arguments, and whose it is.
func newOverride(cfg Config, images map[string]string, lab proc.Identity, user string) (override, error) {
	identity, err := json.Marshal(lab)
	if err != nil {
		return override{}, err
	}
	labels := map[string]string{labLabel: verbatim(string(identity))}
	// A check every few seconds would run programs in the middle of a measurement.
	// The first comes after an interval, and so not at all. (Compose 1 refuses to
	// switch off a check that has other settings.)
	unchecked := &healthcheck{Interval: "24h"}
	environment := map[string]*string{"GOMAXPROCS": nil, "GOMEMLIMIT": nil}
	for name, value := range cfg.victimLimits() {
		value = verbatim(value)
		environment[name] = &value
	}
	return override{
		Services: map[string]service{
			"upstream": {Image: images["upstream"], Command: verbatimAll(cfg.StubArgs), Healthcheck: unchecked, Labels: labels},
			"postgres": {Healthcheck: unchecked, Labels: labels},
			"victim": {
				Image: images["victim"], Command: verbatimAll(cfg.composeVictimArgs()), Environment: environment,
				Healthcheck: unchecked, Labels: labels,
			},
			"loadgen": {
				// Its files are to be the lab's.
				Image: images["loadgen"], User: user, Labels: labels,
				Volumes: []volume{{Type: "bind", Source: verbatim(cfg.RunDir), Target: resultsMount}},
			},
		},
		Networks: map[string]network{"default": {Labels: labels}},
	}, nil
}

// verbatim protects a text from the variables of a compose file.
func verbatim(s string) string { return strings.ReplaceAll(s, "$", "$$") }

func verbatimAll(texts []string) []string {
	all := make([]string, len(texts))
	for i, s := range texts {
		all[i] = verbatim(s)
	}
	return all
}

// variables are those of docker-compose.yml, for its --env-file.
func variables(cfg Config) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s=%s\n", postgresImageVariable, postgresImage())
	for _, name := range limitVariables {
		if value := os.Getenv(name); value != "" {
			fmt.Fprintf(&b, "%s=%s\n", name, value)
		}
	}
	for _, port := range []struct{ flag, address string }{
		{"victim-listen", cfg.VictimListen}, {"victim-admin", cfg.VictimAdmin},
		{"stub-listen", cfg.StubListen}, {"stub-admin", cfg.StubAdmin},
	} {
		published, err := publishAt(port.address)
		if err != nil {
			return "", fmt.Errorf("-%s %q: %w", port.flag, port.address, err)
		}
		name := "CHOKEPOINT_" + strings.ToUpper(strings.ReplaceAll(port.flag, "-", "_"))
		fmt.Fprintf(&b, "%s=%s\n", name, published)
	}
	return b.String(), nil
}

// publishAt writes where a port is to be published as compose wants it, where
// "127.0.0.1:" takes a free port of the host.
func publishAt(address string) (string, error) {
	if address == "" {
		return "127.0.0.1:", nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("%w; write it as IP:port", err)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.Is4() {
		return "", fmt.Errorf("with containers the host must be an IPv4 address, such as 127.0.0.1")
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", fmt.Errorf("the port must be a number up to 65535, 0 for a free one")
	}
	if number == 0 {
		port = ""
	}
	return host + ":" + port, nil
}

// writeFiles writes what a run lays over docker-compose.yml.
func (w *Compose) writeFiles(lab proc.Identity, settings string) error {
	o, err := newOverride(w.cfg, w.images, lab, w.engine.loadUser())
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(w.overrideFile(), text, 0o600); err != nil {
		return err
	}
	return os.WriteFile(w.variablesFile(), []byte(settings), 0o600)
}

func (w *Compose) overrideFile() string  { return filepath.Join(w.cfg.RunDir, ".compose.json") }
func (w *Compose) variablesFile() string { return filepath.Join(w.cfg.RunDir, ".compose.env") }

// loadUser is whom the load generator runs as in its container so that its files
// belong to the lab's user outside.
func (e *engine) loadUser() string {
	if e.rootless {
		return "0:0"
	}
	return fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
}

// composeVictimArgs are the victim's flags. Its upstream is in the compose file, by
// http; a flag stands above that.
func (c Config) composeVictimArgs() []string {
	if !c.StubTLS {
		return c.VictimArgs
	}
	return append(slices.Clone(c.VictimArgs), "-upstream=https://127.0.0.1:8081/")
}
