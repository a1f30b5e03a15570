//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"chokepoint/internal/cli"
	"chokepoint/internal/result"
)

// report is bench-peers-<UTC>.json; its tables are bench-peers-<UTC>.md.
type report struct {
	Schema    string    `json:"schema"`
	StartedAt time.Time `json:"started_at"`
	Version   string    `json:"version"` // of this repository
	Go        string    `json:"go"`
	Kernel    string    `json:"kernel"`
	CPU       string    `json:"cpu"`
	CPUs      int       `json:"cpus"`
	// LoadBefore and LoadAfter are the load averages of the machine. A busy machine
	// makes every figure worse, and not in proportion.
	LoadBefore string `json:"load_average_before"`
	LoadAfter  string `json:"load_average_after"`
	Rounds     int    `json:"rounds"`
	Short      bool   `json:"short"`
	// Interrupted says that parts are missing.
	Interrupted bool          `json:"interrupted,omitempty"`
	OwnNetwork  bool          `json:"own_network"`
	Tools       []toolVersion `json:"tools"`
	Missing     []string      `json:"left_out"`
	Parts       []table       `json:"parts"`
}

type toolVersion struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// table is a part as it was measured.
type table struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Columns []string `json:"columns"`
	Rows    []row    `json:"rows"`
	Goals   []goal   `json:"goals"`
}

type row struct {
	Label   string   `json:"label"`
	Command string   `json:"command"`
	Cells   []string `json:"cells"` // medians
	Failed  []string `json:"failed,omitempty"`
	Samples []sample `json:"samples"`
}

func newReport(o options, found []installed, missing []string) *report {
	r := &report{
		Schema: "chokepoint/bench-peers/v1", StartedAt: time.Now().UTC(), Version: cli.Version(), Go: runtime.Version(),
		Kernel: kernel(), CPU: cpuModel(), CPUs: runtime.NumCPU(), LoadBefore: loadAverage(),
		Rounds: o.rounds, Short: o.short, OwnNetwork: o.network, Missing: missing,
	}
	for _, t := range found {
		r.Tools = append(r.Tools, toolVersion{t.name, t.version})
	}
	return r
}

func (r *report) add(b *bench, p part, samples medians) {
	t := table{Name: p.name, Title: p.title, Goals: p.goals(samples)}
	for _, c := range p.columns {
		t.Columns = append(t.Columns, c.title)
	}
	for _, c := range p.cells {
		w := row{Label: c.label, Command: b.arguments(c), Samples: samples[c.label]}
		for _, column := range p.columns {
			w.Cells = append(w.Cells, column.get(samples, c.label))
		}
		for _, s := range w.Samples {
			if s.Failed != "" {
				w.Failed = append(w.Failed, s.Failed)
			}
		}
		t.Rows = append(t.Rows, w)
	}
	r.Parts = append(r.Parts, t)
}

// write leaves the report in two files, and prints the tables.
func (r *report) write(dir string, stdout io.Writer) error {
	var b bytes.Buffer
	r.markdown(&b)
	base := filepath.Join(dir, "bench-peers-"+r.StartedAt.Format("20060102T150405Z"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := result.WriteJSON(base+".json", r); err != nil {
		return err
	}
	if err := result.WriteFile(base+".md", b.Bytes()); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%s.json and .md\n", base)
	_, err := stdout.Write(b.Bytes())
	return err
}

func (r *report) markdown(w io.Writer) {
	fmt.Fprintf(w, "# Load generators side by side\n\n%s, version %s, %s, Linux %s, %s, %d CPUs. The generator has one core and the server another",
		r.StartedAt.Format(time.RFC3339), r.Version, r.Go, r.Kernel, r.CPU, r.CPUs)
	if r.OwnNetwork {
		fmt.Fprint(w, ", on a loopback of their own")
	}
	fmt.Fprintf(w, ". Medians of %d interleaved rounds. Load average %s before and %s after.\n", r.Rounds, r.LoadBefore, r.LoadAfter)
	if r.Interrupted {
		fmt.Fprintln(w, "\nInterrupted: only the parts that were measured whole are here.")
	}
	if r.Short {
		fmt.Fprintln(w, "\nA short run: its figures prove nothing.")
	}
	fmt.Fprintln(w)
	for _, t := range r.Tools {
		fmt.Fprintf(w, "- %s: %s\n", t.Name, t.Version)
	}
	for _, name := range r.Missing {
		fmt.Fprintf(w, "- %s: left out, it is neither in PEERS_DIR nor on the PATH\n", name)
	}
	for _, t := range r.Parts {
		t.markdown(w)
	}
}

func (t table) markdown(w io.Writer) {
	fmt.Fprintf(w, "\n## %s\n\n| | %s |\n|---|%s\n", t.Title, strings.Join(t.Columns, " | "), strings.Repeat("---|", len(t.Columns)))
	for _, r := range t.Rows {
		fmt.Fprintf(w, "| %s | %s |\n", r.Label, strings.Join(r.Cells, " | "))
	}
	for _, r := range t.Rows {
		if len(r.Failed) > 0 {
			fmt.Fprintf(w, "\n%s failed %d of %d times: %s\n", r.Label, len(r.Failed), len(r.Samples), r.Failed[0])
		}
	}
	if len(t.Goals) > 0 {
		fmt.Fprint(w, "\n| goal of loadgen | wanted | got | |\n|---|---|---|---|\n")
	}
	for _, g := range t.Goals {
		met := "met"
		if !g.Met {
			met = "**missed**"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", g.What, g.Want, g.Got, met)
	}
	fmt.Fprintln(w)
	for _, r := range t.Rows {
		fmt.Fprintf(w, "- %s: `%s`\n", r.Label, r.Command)
	}
}

func kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Release[:])
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if name, model, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return "unknown CPU"
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
