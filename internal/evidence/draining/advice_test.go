package draining

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func question(t *testing.T, change func(*Question)) Advice {
	t.Helper()
	response, err := ReadResponse("p50=80ms,p99=4s,max=30s", 0.0001)
	if err != nil {
		t.Fatal(err)
	}
	q := Question{
		Traffic:             Traffic{Response: response, Rate: 10, Propagation: time.Minute, KeepaliveIdle: time.Minute},
		DeregistrationDelay: 2 * time.Minute, Margin: 0.2,
	}
	change(&q)
	a, err := Advise(q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestTheAdviceOfThePublishedCase: a published case ended with a pre-stop as long as its
// deregistration delay of 120 s and a drain of 90 s, behind an edge that closes what
// rested for 60 s. It left no room for an answer's way.
func TestTheAdviceOfThePublishedCase(t *testing.T) {
	for _, p := range question(t, func(*Question) {}).Products {
		want := Stop{120 * time.Second, 91 * time.Second}
		if p.Name == "kubernetes" {
			want.Drain = 31 * time.Second // closes what rests
		}
		got := Stop{seconds(p.Recommended.PreStopS), seconds(p.Recommended.DrainS)}
		if got != want || p.GraceS != (want.end()+10*time.Second).Seconds() {
			t.Errorf("%s: %+v, killed after %v s; want %+v", p.Name, got, p.GraceS, want)
		}
		if p.Default.Lost.None() || !p.Smallest.Lost.None() || !p.Recommended.Lost.None() {
			t.Errorf("%s loses: as it comes %+v, smallest %+v, recommended %+v", p.Name, p.Default.Lost, p.Smallest.Lost, p.Recommended.Lost)
		}
		for _, number := range []string{fmt.Sprintf("%.0f", p.Recommended.PreStopS), fmt.Sprintf("%.0fs", p.Recommended.DrainS), fmt.Sprintf("%.0f", p.GraceS)} {
			if !strings.Contains(p.Snippet, number) {
				t.Errorf("%s: no %s in\n%s", p.Name, number, p.Snippet)
			}
		}
	}
}

func TestMarginsAreOnWhatWasMeasured(t *testing.T) {
	a := question(t, func(q *Question) {
		q.DeregistrationDelay, q.KeepaliveIdle = 0, 0
		q.Response.Bounded = false
	})
	for _, p := range a.Products {
		if r := p.Recommended; r.PreStopS != 72 || r.DrainS != 37 || r.Idle != CloseIdle && p.Name != "envoy-istio" {
			t.Errorf("%s: %+v, want 60 s and 30 s with a fifth more, and a second", p.Name, r)
		}
	}
}

// TestATerminatingBalancerOutlastsTheDrain of the product that takes the longest.
func TestATerminatingBalancerOutlastsTheDrain(t *testing.T) {
	a := question(t, func(q *Question) { q.Terminate = true })
	if p := a.Products[0].Recommended; p.PreStopS != 72 || p.DrainS != 91 || a.Balancer[0].Value != "173" || a.Balancer[1].Value != "true" {
		t.Errorf("%+v behind %+v", p, a.Balancer)
	}
}

func TestAdviseRefuses(t *testing.T) {
	for _, tt := range []struct {
		change func(*Question)
		want   string
	}{
		{func(q *Question) { q.Propagation = -time.Second }, "-propagation -1s: want 0s to"},
		{func(q *Question) { q.KeepaliveIdle = 25 * time.Hour }, "-keepalive-idle 25h0m0s: want 0s to"},
		{func(q *Question) { q.DeregistrationDelay = -1 }, "-deregistration-delay -1ns: want 0s to"},
		{func(q *Question) { q.Rate = 0 }, "-rate 0: want more than 0"},
		{func(q *Question) { q.Margin = -0.1 }, "-margin -0.1: want 0 to 10"},
		{func(q *Question) { q.Terminate = true }, "give -deregistration-delay"},
	} {
		q := Question{Traffic: Traffic{Response: ResponseOf(constant(time.Second), time.Second), Rate: 1}}
		tt.change(&q)
		if _, err := Advise(q); err == nil || !strings.HasPrefix(err.Error(), tt.want) && !strings.HasSuffix(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

// TestTheAdviceIsSafe whatever is asked, and no shorter than what was searched.
func TestTheAdviceIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		on := traffic(t)
		q := Question{
			Traffic: on, Margin: float64(rapid.IntRange(0, 20).Draw(t, "margin")) / 10,
			DeregistrationDelay: time.Duration(rapid.IntRange(0, 60).Draw(t, "delay")) * time.Second,
		}
		a, err := Advise(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range a.Products {
			if !p.Recommended.Lost.None() || p.Recommended.PreStopS < p.Smallest.PreStopS || p.Recommended.DrainS <= p.Smallest.DrainS || p.GraceS <= p.Recommended.PreStopS+p.Recommended.DrainS {
				t.Fatalf("%s: %+v after %+v, killed after %v s", p.Name, p.Recommended, p.Smallest, p.GraceS)
			}
		}
	})
}
