package scenario

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/cli"
	"chokepoint/internal/evidence/dumps"
	"chokepoint/internal/evidence/stacks"
	"chokepoint/internal/lab/scrape"
	"chokepoint/internal/result"
)

const (
	// maxDump bounds a dump, in bytes: that of 100,000 goroutines has some 60 MB.
	maxDump = 512 << 20
	// meterTick is the time between two readings of the metrics, and between two
	// probes.
	meterTick = time.Second
	// meterTimeout bounds a reading: where metrics are served by the pool under
	// test, they wait as its users do.
	meterTimeout = 5 * time.Second
	// cpuCount is what Micrometer has beside process_cpu_usage, a share of all CPUs.
	cpuCount = "system_cpu_count"
)

// dumpLead is how long before the load the first dump is begun, beyond its second:
// a service may take a while for it.
func (s *AttachSettings) dumpLead() time.Duration { return min(s.DumpTimeout, 2*time.Second) }

// takeDumps takes each dump at its moment, the first before the warm-up. One that
// fails is a fault of the evidence; those after it are still worth having.
func (p *attachPhases) takeDumps(ctx context.Context, warmup time.Duration) {
	e := p.e
	for i, point := range e.points {
		due := e.loadOn.Add(point.At)
		if point.At < 0 {
			due = due.Add(-warmup - e.settings.dumpLead())
		}
		if !sleepUntil(ctx, due) {
			return
		}
		d, window, err := e.settings.dump(ctx, e.dir, i+1, point.Name)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			fault := fmt.Sprintf("dump %s: %v", point.Name, err)
			p.progress("%s", fault)
			e.faults = append(e.faults, fault)
			continue
		}
		d.AtS = window[0].Sub(e.loadOn).Seconds()
		late := window[0].Sub(due)
		if late > dumpLateness || point.At < 0 && window[1].After(e.loadOn.Add(-warmup)) {
			e.faults = append(e.faults, fmt.Sprintf("dump %s was begun %v late, at %.1f s, and took %.1f s: it is not of its moment", point.Name, late.Round(time.Millisecond), d.AtS, d.TookMS/1000))
		}
		e.dumps, e.windows = append(e.dumps, d), append(e.windows, window)
		e.events = append(e.events, result.Event{AtS: d.AtS, Name: "dump", Detail: d.Point})
		p.progress("dump %s: %s", d.Point, placesInWords(d))
	}
}

// placesInWords is who stands where, without those that wait for nothing in
// particular.
func placesInWords(d result.Dump) string {
	words := fmt.Sprintf("%d goroutines", d.Goroutines)
	if d.Unit != "" {
		words = fmt.Sprintf("%d %s", d.Goroutines, d.Unit)
	}
	if d.Workers > 0 {
		words += fmt.Sprintf(", %d workers", d.Workers)
	}
	for _, where := range stacks.Wheres() {
		if n := d.Where[where]; n > 0 && where != stacks.Other {
			words += fmt.Sprintf(", %d %s", n, strings.ReplaceAll(where, "_", " "))
		}
	}
	return words
}

// dump takes a dump and keeps its text as it came. The window is when it was under
// way.
func (s *AttachSettings) dump(ctx context.Context, dir string, number int, point string) (result.Dump, [2]time.Time, error) {
	start := time.Now()
	text, err := s.dumpText(ctx)
	window := [2]time.Time{start, time.Now()}
	if err != nil {
		return result.Dump{}, window, err
	}
	all, err := dumps.Read(bytes.NewReader(text), withoutSecrets(s.DumpURL), stacks.ByPlace)
	if err != nil {
		return result.Dump{}, window, err
	}
	read := all[len(all)-1]
	d := read.Result()
	d.Point, d.TookMS = point, window[1].Sub(start).Seconds()*1000
	if read.Format.Unit() == "threads" {
		d.Unit = "threads"
	}
	extension := ".txt"
	if read.Format == dumps.ActuatorJSON || read.Format == dumps.JcmdJSON {
		extension = ".json"
	}
	if read.Gzip {
		extension += ".gz"
	}
	d.File = filepath.ToSlash(filepath.Join(result.DumpsDir, fmt.Sprintf("%02d-%s%s", number, point, extension)))
	return d, window, result.WriteFile(filepath.Join(dir, filepath.FromSlash(d.File)), text)
}

func (s *AttachSettings) dumpText(ctx context.Context) ([]byte, error) {
	source, err := dumps.Open(ctx, s.DumpURL, dumps.Options{Timeout: s.DumpTimeout, MaxBytes: maxDump, Header: s.AdminHeader})
	if err != nil {
		return nil, err
	}
	defer source.Close()
	text, err := io.ReadAll(source)
	if err != nil {
		err = fmt.Errorf("%s: %w", source.Name, err)
	}
	return text, err
}

// recoveryProbes is how many probes in a row must be good: one may be lucky.
const recoveryProbes = 3

// recover watches, from the end of the load, until the protected endpoint answers as
// in the baseline and, where that is known, no more workers are busy than then. The
// moment is that of the first of the good probes. A probe is one request as in the
// plan, on a connection of its own, and one is in flight at a time.
func (p *attachPhases) recover(ctx context.Context, m *meter, loadOff time.Time) result.Recovery {
	ctx, cancel := context.WithDeadline(ctx, loadOff.Add(p.e.settings.RecoveryWait))
	defer cancel()
	bound := p.e.settings.bound(p.e.baselines)
	var first time.Time
	good := 0
	for next := loadOff; sleepUntil(ctx, next); next = time.Now().Add(meterTick) {
		sent := time.Now()
		if !p.probe(ctx, bound) || m.busyAboveBaseline() {
			good = 0
			continue
		}
		if good++; good == 1 {
			first = sent
		}
		if good == recoveryProbes {
			seconds := first.Sub(loadOff).Seconds()
			return result.Recovery{Recovered: true, Seconds: &seconds, WaitedS: time.Since(loadOff).Seconds()}
		}
	}
	return result.Recovery{WaitedS: watchedFor(loadOff, p.e.settings.RecoveryWait).Seconds()}
}

// probe says whether the protected endpoint answers within bound.
func (p *attachPhases) probe(ctx context.Context, bound time.Duration) bool {
	file := filepath.Join(p.e.dir, "probe.json")
	defer os.Remove(file)
	// At that rate its window is short; it is waited for to its end.
	load, err := p.generator.StartLoad(ctx, append(p.alone(adminapi.PhaseRecovery, file, 100), "-count=1"))
	if err != nil {
		return false
	}
	got, err := await(ctx, load, file)
	if err != nil || load.ExitCode() == cli.ExitInterrupted {
		return false
	}
	endpoint := got.Endpoints[p.e.protect.Name]
	return endpoint.OK == 1 && endpoint.Response.Max <= bound.Seconds()*1000
}

// reading is what a service's metrics said at one moment.
type reading struct {
	at     time.Time
	values map[string]float64 // by result.Metric word
	// cpuCount is the CPUs of a service that tells its use of CPU as a share of
	// all; 1 where it does not say how many.
	cpuCount float64
}

// readings are all of a run.
type readings struct {
	all     []reading
	failed  int   // questions that got no answer
	failure error // of the last of them
}

// meter reads a service's metrics at every tick. Without a metrics URL its readings
// are moments alone.
type meter struct {
	url     string
	header  http.Header
	metrics map[string]scrape.Selector
	client  *http.Client

	mu       sync.Mutex
	readings readings
	loadOn   time.Time
}

func newMeter(s *AttachSettings, client *http.Client) *meter {
	return &meter{url: s.MetricsURL, header: s.AdminHeader, metrics: s.metrics, client: client}
}

// run reads until ctx is done. Each reading is taken at its own due time: a slow
// answer does not move the next one.
func (m *meter) run(ctx context.Context) {
	start := time.Now()
	for k := time.Duration(0); sleepUntil(ctx, start.Add(k*meterTick)); k = time.Since(start)/meterTick + 1 {
		m.take(ctx)
	}
}

func (m *meter) take(ctx context.Context) {
	r := reading{at: time.Now(), values: map[string]float64{}, cpuCount: 1}
	var err error
	if m.url != "" {
		var families scrape.Families
		asking, cancel := context.WithTimeoutCause(ctx, meterTimeout, fmt.Errorf("no whole answer within %v", meterTimeout))
		families, err = scrape.Get(asking, m.client, m.url, m.header)
		if err != nil && asking.Err() != nil {
			err = context.Cause(asking)
		}
		cancel()
		r.at = time.Now()
		for metric, selector := range m.metrics {
			if v, ok := families.Value(selector); ok {
				r.values[metric] = v
			}
		}
		if n, ok := families.Value(scrape.Named(cpuCount)); ok && n >= 1 {
			r.cpuCount = n
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		m.readings.failed++
		m.readings.failure = err
	default:
		m.readings.all = append(m.readings.all, r)
	}
}

func (m *meter) setLoadOn(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loadOn = at
}

// busyAboveBaseline says whether more workers are busy than ever were before the
// load; false where that is not known.
func (m *meter) busyAboveBaseline() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	peace, known := 0.0, false
	now := 0.0
	for _, r := range m.readings.all {
		busy, ok := r.values[result.MetricBusy]
		if !ok {
			continue
		}
		if r.at.Before(m.loadOn) {
			peace, known = max(peace, busy), true
		}
		now = busy
	}
	return known && now > peace
}

func (m *meter) all() readings {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.readings
}
