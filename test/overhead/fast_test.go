package overhead

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"text/tabwriter"

	"chokepoint/internal/result"
	"chokepoint/internal/stats"
)

const (
	rounds     = 21 // odd, so that the median is a round's own
	roundTime  = "1s"
	targetRate = "1000/s"
	// goalRatio is what the pool, the guard and the accounting may cost at the median.
	goalRatio = 1.3
)

// BenchmarkFast sends 1,000 requests a second to the victim's /fast and to the
// bare handler, in turns, and reports the median over the rounds of the ratio
// of their p50s. Ratios of neighbours in time are what a busy machine leaves
// comparable.
func BenchmarkFast(b *testing.B) {
	p := withDatabase(b)
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	bare := p.serve(bareArg, self, bareArg, p.database)
	pooled := p.serve("victim", p.program("victim"), "-listen=127.0.0.1:0", "-admin=127.0.0.1:0",
		"-database-url="+p.database, fmt.Sprintf("-database-conns=%d", databaseConns))
	for b.Loop() {
		p.measure("warm-up", bare)
		p.measure("warm-up", pooled)
		var bareP50, pooledP50, ratios []float64
		table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(table, "\n/fast at %s\tbare p50 ms\tp99\tvictim p50 ms\tp99\tratio of p50s\t\n", targetRate)
		for round := range rounds {
			var of [2]result.Endpoint
			servers := []int{0, 1}
			if round%2 == 1 {
				slices.Reverse(servers)
			}
			for _, i := range servers {
				of[i] = p.measure(fmt.Sprintf("round-%d", round+1), []string{bare, pooled}[i])
			}
			ratio := of[1].Service.P50 / of[0].Service.P50
			fmt.Fprintf(table, "round %d\t%.3f\t%.3f\t%.3f\t%.3f\t%.2f\t\n", round+1,
				of[0].Service.P50, of[0].Service.P99, of[1].Service.P50, of[1].Service.P99, ratio)
			bareP50, pooledP50 = append(bareP50, of[0].Service.P50), append(pooledP50, of[1].Service.P50)
			ratios = append(ratios, ratio)
		}
		ratio := stats.Median(ratios)
		fmt.Fprintf(table, "median\t%.3f\t\t%.3f\t\t%.2f\t(goal: at most %.1f)\n", stats.Median(bareP50), stats.Median(pooledP50), ratio, goalRatio)
		table.Flush()
		b.ReportMetric(ratio, "x-p50")
		b.ReportMetric(stats.Median(bareP50), "bare-p50-ms")
		b.ReportMetric(stats.Median(pooledP50), "victim-p50-ms")
	}
	b.ReportMetric(0, "ns/op") // the time of the rounds, which is fixed
}

// measure plays one round against a server. A round in which a request failed
// or was not sent is no figure.
func (p *processes) measure(name, server string) result.Endpoint {
	p.b.Helper()
	path := filepath.Join(p.dir, "load.json")
	child := p.start("loadgen-"+name, p.program("loadgen"), false, "-json="+path, "-max-lag=1h",
		"-duration="+roundTime, "-endpoint=name=fast,url=http://"+server+"/fast?id=7,rate="+targetRate)
	<-child.Done()
	if child.Err() != nil {
		p.b.Fatalf("loadgen: %s: %v", child.Status(), child.LastLog(5))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		p.b.Fatal(err)
	}
	var load result.Load
	if err := json.Unmarshal(text, &load); err != nil {
		p.b.Fatal(err)
	}
	e := load.Endpoints["fast"]
	if e.OK == 0 || e.OK != e.Planned {
		p.b.Fatalf("%s: %d of %d requests were answered", name, e.OK, e.Planned)
	}
	return e
}
