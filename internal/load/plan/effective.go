package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"chokepoint/internal/load/arrival"
	"chokepoint/internal/load/engine"
)

// Schema names the form of an Effective plan in JSON.
const Schema = "chokepoint/plan/v1"

// Effective is a plan as it would be played, with its defaults and what it needs.
// It holds no password and no value of a header.
type Effective struct {
	Schema      string   `json:"schema"`
	File        string   `json:"file,omitempty"`
	Identity    string   `json:"identity"` // equal for equal plans, see result.Shard
	Model       string   `json:"model"`    // "open" or "closed"
	DurationS   float64  `json:"duration_s"`
	WarmupS     float64  `json:"warmup_s"`
	Arrivals    string   `json:"arrivals,omitempty"` // of the open model
	Seed        *uint64  `json:"seed,omitempty"`     // of poisson arrivals
	Engine      string   `json:"engine"`             // which one plays it
	Loops       int      `json:"loops,omitempty"`    // of the engine loop
	QuantumMS   float64  `json:"quantum_ms"`
	MaxLagMS    float64  `json:"max_lag_ms"`
	Phase       string   `json:"phase"`
	GracefulS   *float64 `json:"graceful_stop_s"` // null waits for every answer
	Shard       string   `json:"shard,omitempty"`
	ByShard     []int    `json:"arrivals_by_shard,omitempty"` // of all endpoints
	Thresholds  []string `json:"thresholds,omitempty"`
	Connections []string `json:"connections,omitempty"` // what is not the default, in words

	Endpoints []EffectiveEndpoint `json:"endpoints"`
	Needs     EffectiveNeeds      `json:"needs"`
}

// EffectiveEndpoint is one stream of requests.
type EffectiveEndpoint struct {
	Name      string   `json:"name"`
	Method    string   `json:"method"`
	URL       string   `json:"url"`
	Rate      float64  `json:"rate"`    // per second; 0 of a pattern or the closed model
	Planned   int      `json:"planned"` // arrivals, of the shard
	Workers   int      `json:"workers"`
	TimeoutMS float64  `json:"timeout_ms"`
	Headers   []string `json:"headers,omitempty"` // their names
	BodyBytes int      `json:"body_bytes,omitempty"`
	Rows      int      `json:"rows,omitempty"`
}

// EffectiveNeeds is what the plan takes of this machine at the most, and what there
// is; 0 is not known.
type EffectiveNeeds struct {
	Connections     int         `json:"connections"`
	Files           int         `json:"files"`
	FilesAllowed    int         `json:"files_allowed"`
	MemoryBytes     int64       `json:"memory_bytes"`
	MemoryAvailable int64       `json:"memory_available_bytes"`
	Ports           []PortsNeed `json:"ports"`
	Warnings        []string    `json:"warnings,omitempty"`
	// Lacks is why this machine cannot carry the plan; empty if it can.
	Lacks string `json:"lacks,omitempty"`

	line string
}

// PortsNeed is the local ports for one destination.
type PortsNeed struct {
	Address     string `json:"address"`
	Connections int    `json:"connections"`
	Closed      int    `json:"closed"` // not free again yet, at the most
	Available   int    `json:"available"`
}

// Effective is p as it would be played here: it looks at the limits of this
// machine, and raises the soft limit on open files to the hard one.
func (p Plan) Effective() Effective {
	c := p.Config
	kind, loops := c.Plays()
	e := Effective{
		Schema: Schema, File: p.File, Identity: c.Digest(), Model: "open",
		DurationS: c.Duration.Seconds(), WarmupS: c.Warmup.Seconds(), Arrivals: string(c.Arrivals),
		Engine: string(kind), Loops: loops, QuantumMS: milliseconds(c.Quantum), MaxLagMS: milliseconds(c.MaxLag), Phase: c.Phase,
		Connections: connectionWords(c.Connections), Needs: needs(c),
	}
	if c.Closed > 0 {
		e.Model, e.Arrivals = "closed", ""
	}
	if c.Arrivals == engine.Poisson {
		e.Seed = &c.Seed
	}
	if c.GracefulStop != nil {
		s := c.GracefulStop.Seconds()
		e.GracefulS = &s
	}
	for _, t := range p.Thresholds {
		e.Thresholds = append(e.Thresholds, t.String())
	}
	planned := c.Planned()
	for i, of := range c.Endpoints {
		e.Endpoints = append(e.Endpoints, effectiveEndpoint(of, planned[i]))
	}
	if c.Shard.Of > 1 {
		e.Shard, e.ByShard = c.Shard.String(), byShard(c)
	}
	return e
}

func effectiveEndpoint(e engine.Endpoint, planned int) EffectiveEndpoint {
	var headers []string
	for _, h := range e.Header {
		headers = append(headers, h.Name)
	}
	return EffectiveEndpoint{
		Name: e.Name, Method: e.Method, URL: engine.Redacted(e.URL), Rate: e.Rate.PerSecond(), Planned: planned,
		Workers: e.Workers, TimeoutMS: milliseconds(e.Timeout), Headers: headers, BodyBytes: len(e.Body), Rows: len(e.Rows),
	}
}

// byShard is how many arrivals each shard has.
func byShard(c engine.Config) []int {
	whole := c
	whole.Shard = arrival.Shard{}
	counts := make([]int, c.Shard.Of)
	for _, n := range whole.Planned() {
		for i := range counts {
			counts[i] += arrival.Shard{Index: i, Of: c.Shard.Of}.Count(n)
		}
	}
	return counts
}

func needs(c engine.Config) EffectiveNeeds {
	n, err := engine.Preflight(c)
	e := EffectiveNeeds{
		Connections: n.Connections, Files: n.Files, FilesAllowed: n.Limits.Files,
		MemoryBytes: n.Memory, MemoryAvailable: n.Limits.Memory, Warnings: n.Warnings(), line: n.String(),
	}
	for _, d := range n.Destinations {
		e.Ports = append(e.Ports, PortsNeed{Address: d.Address, Connections: d.Connections, Closed: d.Closed, Available: d.Ports})
	}
	if err != nil {
		e.Lacks = err.Error()
	}
	return e
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// connectionWords are the settings of connections that are not the default.
func connectionWords(c engine.Connections) []string {
	var words []string
	add := func(is bool, format string, args ...any) {
		if is {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(c.Insecure, "certificates are not verified")
	add(c.Roots != nil, "certificates are verified with authorities of a file")
	add(c.Certificate != nil, "a client certificate is shown")
	add(c.ServerName != "", "TLS asks for %s", c.ServerName)
	add(c.DisableKeepAlive, "one request for each connection")
	add(c.MaxAge > 0, "connections are closed after %v", c.MaxAge)
	add(c.MaxRequests > 0, "connections are closed after %d requests", c.MaxRequests)
	for _, r := range slices.Concat(c.ConnectTo, c.Resolve) {
		add(true, "%s:%s leads to %s:%s", cmp.Or(r.Host, "*"), port(r.Port), cmp.Or(r.ToHost, "*"), port(r.ToPort))
	}
	for _, s := range c.Sources {
		add(true, "connections come from %v", s)
	}
	return words
}

// port is a port number, or * for any.
func port(n uint16) string {
	if n == 0 {
		return "*"
	}
	return strconv.Itoa(int(n))
}

// Print writes the plan as text.
func (e Effective) Print(w io.Writer) {
	what := fmt.Sprintf("%v of %s arrivals", seconds(e.DurationS), e.Arrivals)
	if e.Model == "closed" {
		what = fmt.Sprintf("%v of a closed model, which sends as many as are answered", seconds(e.DurationS))
	}
	if e.Seed != nil {
		what += fmt.Sprintf(" (seed %d)", *e.Seed)
	}
	if e.WarmupS > 0 {
		what += fmt.Sprintf(" after %v of warm-up", seconds(e.WarmupS))
	}
	player := e.Engine
	if e.Loops > 1 {
		player += fmt.Sprintf(" with %d threads", e.Loops)
	}
	fmt.Fprintf(w, "%s, played by the engine %s; plan %s\n\n", what, player, e.Identity)

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "endpoint\tmethod\turl\trate\tarrivals\tworkers\ttimeout\tsends")
	for _, ep := range e.Endpoints {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%v\t%s\n", ep.Name, ep.Method, ep.URL, dash(ep.Rate > 0, "%v/s", ep.Rate),
			dash(e.Model == "open", "%d", ep.Planned), ep.Workers, seconds(ep.TimeoutMS/1000), ep.sends())
	}
	table.Flush()
	fmt.Fprintln(w)
	if e.Shard != "" {
		fmt.Fprintf(w, "shard %s; arrivals by shard: %s\n", e.Shard, strings.Trim(fmt.Sprint(e.ByShard), "[]"))
	}
	for _, c := range e.Connections {
		fmt.Fprintln(w, c)
	}
	for _, t := range e.Thresholds {
		fmt.Fprintln(w, "threshold", t)
	}
	fmt.Fprintln(w, e.Needs.line)
	for _, warning := range e.Needs.Warnings {
		fmt.Fprintln(w, "warning:", warning)
	}
	if e.Needs.Lacks != "" {
		fmt.Fprintln(w, "warning: this machine cannot carry it:", e.Needs.Lacks)
	}
}

// sends is what a request of the endpoint carries.
func (e EffectiveEndpoint) sends() string {
	var parts []string
	if len(e.Headers) > 0 {
		parts = append(parts, strings.Join(e.Headers, ", "))
	}
	if e.BodyBytes > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes", e.BodyBytes))
	}
	if e.Rows > 0 {
		parts = append(parts, fmt.Sprintf("%d rows", e.Rows))
	}
	return dash(len(parts) > 0, "%s", strings.Join(parts, "; "))
}

// dash is the value, or - where there is none.
func dash(is bool, format string, value any) string {
	if !is {
		return "-"
	}
	return fmt.Sprintf(format, value)
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond)
}
