package result

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// endpointName is what loadgen takes for a name. Anything else in a file could forge
// lines of a report.
var endpointName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// check says what in l no run can have written: a file that was damaged or edited
// must not be summed up or compared. Whether its ledger balances is another matter.
func (l Load) check() error {
	if l.Validity.Valid && len(l.Validity.Reasons) > 0 {
		return fmt.Errorf("it is valid, with a reason against it: %.100q", l.Validity.Reasons[0])
	}
	if err := notNegative("",
		number{"window_s", l.WindowS}, number{"offered_s", l.OfferedS}, number{"elapsed_s", l.ElapsedS},
		number{"generator.cpu_seconds", l.Generator.CPUSeconds}, number{"generator.run_queue_wait_ms", l.Generator.RunQueueWaitMS},
	); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(l.Endpoints)) {
		if !endpointName.MatchString(name) {
			return fmt.Errorf("an endpoint is named %.40q", name)
		}
		if err := l.Endpoints[name].check(name + "."); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.Drops)) {
		for _, n := range l.Drops[name] {
			if n < 0 {
				return fmt.Errorf("drops_per_second.%s has %d", name, n)
			}
		}
	}
	return nil
}

func (e Endpoint) check(prefix string) error {
	numbers := []number{
		{"planned", float64(e.Planned)}, {"scheduled", float64(e.Scheduled)}, {"dropped", float64(e.Dropped)},
		{"started", float64(e.Started)}, {"ok", float64(e.OK)}, {"http_error", float64(e.HTTPError)},
		{"timeout", float64(e.Timeout)}, {"connect_error", float64(e.ConnectError)},
		{"transport_error", float64(e.TransportError)}, {"interrupted", float64(e.Interrupted)},
		{"workers", float64(e.Workers)}, {"client_timeout_ms", e.ClientTimeoutMS},
		{"target_rate", e.TargetRate}, {"achieved_rate", e.AchievedRate},
		{"received_bytes", float64(e.ReceivedBytes)}, {"received_bytes_per_s", e.ReceivedRate},
		{"failed_ratio", e.FailedRatio}, {"completed_failed_ratio", e.CompletedFailedRatio},
	}
	for _, counts := range []struct {
		name string
		of   map[string]int
	}{{"causes", e.Causes}, {"status", e.Status}, {"error_bodies", e.ErrorBodies}} {
		for _, key := range slices.Sorted(maps.Keys(counts.of)) {
			numbers = append(numbers, number{fmt.Sprintf("%s.%.40q", counts.name, key), float64(counts.of[key])})
		}
	}
	if err := notNegative(prefix, numbers...); err != nil {
		return err
	}
	if ratio := max(e.FailedRatio, e.CompletedFailedRatio); ratio > 1 {
		return fmt.Errorf("%sfailed_ratio is %v, above 1", prefix, ratio)
	}
	return cmp.Or(
		e.Response.check(prefix+"response_ms."), e.OKResponse.check(prefix+"ok_response_ms."),
		e.FailedResponse.check(prefix+"failed_response_ms."), e.Service.check(prefix+"service_ms."), e.Lag.check(prefix+"lag_ms."),
	)
}

// check: the figures of one distribution do not decrease.
func (p Percentiles) check(prefix string) error {
	ascending := []number{{"min", p.Min}, {"p50", p.P50}, {"p90", p.P90}, {"p95", p.P95}, {"p99", p.P99}, {"max", p.Max}}
	if p.P999 != nil {
		ascending = slices.Insert(ascending, 5, number{"p99_9", *p.P999})
	}
	if err := notNegative(prefix, append(ascending, number{"count", float64(p.Count)})...); err != nil {
		return err
	}
	for i, n := range ascending[1:] {
		if before := ascending[i]; n.value < before.value {
			return fmt.Errorf("%s%s is %v, below %s, which is %v", prefix, n.name, n.value, before.name, before.value)
		}
	}
	return nil
}

// number is a figure of a file by its name.
type number struct {
	name  string
	value float64
}

func notNegative(prefix string, all ...number) error {
	for _, n := range all {
		if n.value < 0 {
			return fmt.Errorf("%s%s is %v, below 0", prefix, n.name, n.value)
		}
	}
	return nil
}
