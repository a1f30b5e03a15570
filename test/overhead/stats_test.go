package overhead

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"chokepoint/internal/adminapi"
)

// liveAsks is how often a second the live view asks (liveEvery in lab/scenario).
const liveAsks = 8

// BenchmarkStats asks a victim whose workers are all held for its state, as the
// live view does. The CPU is that of both ends, since victim and client are in one
// process here: an upper bound on what being watched costs the victim.
func BenchmarkStats(b *testing.B) {
	url := fullVictim(b) + adminapi.PathStats + "?" + adminapi.ParamAnswersAfter + "=0"
	const asks = 1000
	for b.Loop() {
		before, size := used(b), 0
		for range asks {
			size = fetch(b, url)
		}
		each := (used(b) - before) / asks
		share := 100 * liveAsks * each.Seconds()
		table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(table, "\nstate of a full pool\tCPU a question, both ends, us\tat %d a second, %% of one core\tbytes\t\n", liveAsks)
		fmt.Fprintf(table, "/stats\t%.0f\t%.2f\t%d\t\n", float64(each)/float64(time.Microsecond), share, size)
		table.Flush()
		b.ReportMetric(share, "live-cpu-%")
	}
	b.ReportMetric(0, "ns/op")
}

// used is the CPU time of this process.
func used(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
