package overhead

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/metrics"
	"testing"
	"text/tabwriter"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/profile"
	"chokepoint/internal/service/upstream"
	"chokepoint/internal/service/victim"
	"chokepoint/internal/stats"
)

const (
	dumpConnections = 3600 // with 200 workers and as many connections of the stub: 4,000 goroutines
	dumpWorkers     = 200
	dumps           = 11
)

// BenchmarkDump fills a victim with requests that a dead upstream holds and has
// it write every goroutine, as the lab does at its four points, and the
// goroutine profile with labels beside it. The pause is the runtime's own figure
// (/sched/pauses/total/other:seconds), which it keeps in buckets: each is good to some 10 %.
//
// The victim runs in the benchmark's process, so that this figure can be read:
// what pauses a process is the number of its goroutines and not whose they are.
func BenchmarkDump(b *testing.B) {
	admin := fullVictim(b)
	kinds := []struct{ name, path string }{
		{"full dump (text)", adminapi.PathGoroutines},
		{"goroutine profile (debug=0)", "/debug/pprof/goroutine?debug=0"},
	}
	for b.Loop() {
		table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(table, "\n%d goroutines\tworld stopped, median ms\tmax\ttook, median ms\tkB\t\n", runtime.NumGoroutine())
		for i, kind := range kinds {
			var paused, took []float64
			size := 0
			for range dumps {
				before, start := pauses(), time.Now()
				size = fetch(b, admin+kind.path)
				took = append(took, milliseconds(time.Since(start)))
				paused = append(paused, milliseconds(longestSince(before)))
			}
			longest := stats.Summarize(paused).Max
			fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%.1f\t%d\t\n", kind.name, stats.Median(paused), longest, stats.Median(took), size/1024)
			b.ReportMetric(stats.Median(paused), []string{"dump-pause-ms", "profile-pause-ms"}[i])
		}
		table.Flush()
	}
	b.ReportMetric(0, "ns/op")
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// fullVictim is the admin URL of a victim whose workers are all held, with the
// other connections queued behind them.
func fullVictim(b *testing.B) string {
	b.Helper()
	p := withDatabase(b)
	stub, err := upstream.Start(b.Context(), upstream.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0",
		Behaviour: adminapi.Behaviour{Delay: "0s", Fault: adminapi.FaultHang, FaultRate: 1},
	})
	if err != nil {
		b.Fatal(err)
	}
	v, err := victim.Start(b.Context(), victim.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", UpstreamURL: "http://" + stub.Listening().Public + "/",
		DatabaseURL: p.database, DatabaseConns: 1, Profile: profile.Profile{Name: "anti"},
		MinWorkers: 10, MaxWorkers: dumpWorkers, AcceptBacklog: 1000, MaxConnections: 2 * dumpConnections,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stub.Close()
		v.Close(context.Background())
	})
	for range dumpConnections {
		c, err := net.Dial("tcp", v.Listening().Public)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, "GET /upstream HTTP/1.1\r\nHost: victim\r\n\r\n"); err != nil {
			b.Fatal(err)
		}
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		s := v.Stats()
		if s.Pool.Busy == dumpWorkers && s.Pool.Queued == dumpConnections-dumpWorkers && stub.Stats().InFlight == dumpWorkers {
			return "http://" + v.Listening().Admin
		}
		if time.Now().After(end) {
			b.Fatalf("not full: %+v", s.Pool)
		}
	}
}

// fetch reads an answer to its end and returns its size in bytes.
func fetch(b *testing.B, url string) int {
	b.Helper()
	resp, err := http.Get(url)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("GET %s: %s, %v", url, resp.Status, err)
	}
	return int(n)
}

// pauses reads the stops of the world that were not for the garbage collector.
func pauses() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/other:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64Histogram()
}

// longestSince is the middle of the highest bucket that has grown.
func longestSince(before *metrics.Float64Histogram) time.Duration {
	now := pauses()
	for i := len(now.Counts) - 1; i >= 0; i-- {
		if now.Counts[i] > before.Counts[i] {
			low, high := max(now.Buckets[i], 0), now.Buckets[i+1]
			if math.IsInf(high, 1) {
				high = low
			}
			return time.Duration((low + high) / 2 * float64(time.Second))
		}
	}
	return 0
}
