package overhead

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"chokepoint/internal/profile"
	"chokepoint/internal/service/outbound"
	"chokepoint/internal/stats"
)

const (
	checkRounds = 125 // odd, so that the median is a round's own
	checkGETs   = 40
)

// checks are the ways to look at a kept connection before it is used again, for each
// client: first none, which the others are compared with. Reading, as Apache HttpClient
// does, cannot be had with net/http, which reads its idle connections itself.
func checks() []profile.Connections {
	var all []profile.Connections
	for _, client := range []profile.Client{profile.ClientFastHTTP, profile.ClientNetHTTP} {
		for _, check := range []profile.StaleCheck{profile.StaleOff, profile.StalePeek, profile.StaleTCPInfo, profile.StaleRead} {
			if client == profile.ClientFastHTTP || check != profile.StaleRead {
				all = append(all, profile.Connections{Client: client, StaleCheck: check})
			}
		}
	}
	return all
}

// BenchmarkCheck sends 5,000 GETs one after another on one connection with each client
// and each check, to a stub that answers at once: 40 at a time, all in turns, so that
// what else the machine does befalls all of them. It reports the median over the rounds
// of a request's time, and of its ratio to the same client without a check.
func BenchmarkCheck(b *testing.B) {
	p := newProcesses(b)
	url := "http://" + p.serve("upstream", p.program("upstream"), "-listen=127.0.0.1:0", "-admin=127.0.0.1:0", "-delay=0s") + "/"
	for b.Loop() {
		kinds := checks()
		took := make([][]float64, len(kinds)) // microseconds a request, by round
		var clients []*outbound.Client
		for _, kind := range kinds {
			client, err := outbound.New(url, kind)
			if err != nil {
				b.Fatal(err)
			}
			get(b, client, 1) // connects
			clients = append(clients, client)
		}
		order := make([]int, len(kinds))
		for i := range order {
			order[i] = i
		}
		for range checkRounds {
			for _, i := range order {
				start := time.Now()
				get(b, clients[i], checkGETs)
				took[i] = append(took[i], time.Since(start).Seconds()*1e6/checkGETs)
			}
			order = append(order[1:], order[0])
		}
		table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(table, "\n%d GETs on one connection\tcheck\tmedian us a request\tadded us\tratio\t\n", checkRounds*checkGETs)
		for i, kind := range kinds {
			none := slices.IndexFunc(kinds, func(k profile.Connections) bool { return k.Client == kind.Client })
			var added, ratios []float64
			for round, us := range took[i] {
				added = append(added, us-took[none][round])
				ratios = append(ratios, us/took[none][round])
			}
			fmt.Fprintf(table, "%s\t%s\t%.1f\t%.1f\t%.2f\t\n", kind.Client, kind.StaleCheck, stats.Median(took[i]), stats.Median(added), stats.Median(ratios))
			if i != none {
				b.ReportMetric(stats.Median(ratios), fmt.Sprintf("x-%s-%s", kind.Client, kind.StaleCheck))
			}
			if made := clients[i].Stats().Dialled; made != 1 {
				b.Errorf("%s with %s made %d connections, want 1", kind.Client, kind.StaleCheck, made)
			}
			clients[i].Close()
		}
		table.Flush()
	}
	b.ReportMetric(0, "ns/op") // the time of the rounds, most of which is the reading's
}

func get(b *testing.B, client *outbound.Client, times int) {
	b.Helper()
	for range times {
		answer, err := client.Do(time.Time{}, outbound.Call{})
		if err != nil || answer.Status != http.StatusOK {
			b.Fatalf("status %d, %v", answer.Status, err)
		}
	}
}
