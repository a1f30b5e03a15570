package engine

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/load/ledger"
	"chokepoint/internal/result"
)

func TestTheClosedModelSendsWhenTheLastRequestIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plan(Endpoint{Name: "fast"}, Endpoint{Name: "upstream"})
		c.Closed, c.Duration, c.KeepRequests = 3, 10*time.Second, true
		r := play(t, t.Context(), c, newFake(func(endpoint, _ int) time.Duration {
			return []time.Duration{100 * time.Millisecond, 3 * time.Second}[endpoint]
		}))
		fast, upstream := r.Load.Endpoints["fast"], r.Load.Endpoints["upstream"]
		// Of upstream the fourth round begins at 9 s and is waited for.
		if fast.OK != 300 || upstream.OK != 12 || fast.Workers != 3 || r.Load.ElapsedS != 12 {
			t.Errorf("fast %+v, upstream %+v, elapsed %v; want 300 and 12 ok, after 12 s", fast, upstream, r.Load.ElapsedS)
		}
		for _, e := range r.Load.Endpoints {
			if e.Planned != 0 || e.Scheduled != e.Started || e.Dropped != 0 || e.TargetRate != 0 || e.Lag.Count != 0 || e.Response != e.Service {
				t.Errorf("got %+v", e)
			}
		}
		if fast.AchievedRate != 30 || r.Load.Model != result.ModelClosed {
			t.Errorf("%v/s of model %q, want 30/s of the closed one", fast.AchievedRate, r.Load.Model)
		}
		indices := map[string]int{}
		for i, q := range r.Requests {
			indices[fmt.Sprintf("%s-%d", q.Endpoint, q.Index)]++
			if i > 0 && q.Due < r.Requests[i-1].Due || q.Lag != 0 {
				t.Errorf("record %d: %+v", i, q)
			}
		}
		if len(r.Requests) != 312 || len(indices) != 312 {
			t.Errorf("%d records of %d requests, want 312 of both", len(r.Requests), len(indices))
		}
		v := r.Load.Validity
		if !v.Valid || len(v.Warnings) < 1 || !strings.HasPrefix(v.Warnings[0], "closed model, a control: each of 3 workers") || !strings.Contains(v.Warnings[0], "coordinated omission") {
			t.Errorf("validity %+v", v)
		}
	})
}

// closedPlan is a closed model of three workers for a short while.
func closedPlan(p *peer, with func(*Config)) Config {
	c := plan(Endpoint{Name: "fast", URL: p.url()})
	c.Closed, c.Duration = 3, 300*time.Millisecond
	with(&c)
	return c
}

func TestTheClosedModelAgainstAServer(t *testing.T) {
	withEachPlayer(t, func(t *testing.T, with func(*Config)) {
		p := newPeer(t, write(okAnswer))
		c := closedPlan(p, with)
		c.Warmup = 300 * time.Millisecond
		r := live(t, c)
		e, w := r.Load.Endpoints["fast"], r.Load.Warmup.Endpoints["fast"]
		if e.OK < 3 || e.Planned != 0 || e.Scheduled != e.OK || e.Started != e.OK || e.Response.Count != int64(e.OK) {
			t.Errorf("got %+v, want the same count of everything, and nothing planned", e)
		}
		if w.OK < 3 || w.Scheduled != w.OK || w.Failed != 0 {
			t.Errorf("warm-up %+v", w)
		}
		want := slices.Concat(numbered("load fast-", e.OK), numbered("warmup fast-w", w.OK))
		slices.Sort(want)
		if diff := cmp.Diff(want, identities(p)); diff != "" {
			t.Errorf("what the server saw:\n%s", diff)
		}
		// What the warm-up has in flight at 0 can cost as many connections again.
		if connections, _, _ := p.counts(); connections < 3 || connections > 6 {
			t.Errorf("%d connections, want those of 3 workers", connections)
		}
	})
}

func TestTheClosedModelWithoutAnAnswer(t *testing.T) {
	withEachPlayer(t, func(t *testing.T, with func(*Config)) {
		p := newPeer(t, write(""))
		c := closedPlan(p, with)
		c.Endpoints[0].Timeout = time.Hour
		c.GracefulStop = new(time.Duration)
		r := live(t, c)
		if e := r.Load.Endpoints["fast"]; e.Planned != 0 || e.Started != 3 || e.Interrupted != 3 {
			t.Errorf("got %+v, want 3 interrupted", e)
		}
	})
}

func TestTheClosedModelWithoutAServer(t *testing.T) {
	withEachPlayer(t, func(t *testing.T, with func(*Config)) {
		p := newPeer(t, write(okAnswer))
		p.listener.Close()
		c := closedPlan(p, with)
		e := live(t, c).Load.Endpoints["fast"]
		if e.Started < 3 || e.ConnectError != e.Started || e.Causes[CauseRefused] != e.Started {
			t.Errorf("got %+v, want every request refused", e)
		}
	})
}

func TestCancelOfTheClosedModel(t *testing.T) {
	withEachPlayer(t, func(t *testing.T, with func(*Config)) {
		arrived := make(chan struct{}, 1_000_000)
		p := newPeer(t, func(conn *net.TCPConn, head string) bool {
			arrived <- struct{}{}
			return write(okAnswer)(conn, head)
		})
		c := closedPlan(p, with)
		c.Duration = time.Hour
		r := stoppedAfter(t, c, arrived)
		e := r.Load.Endpoints["fast"]
		if !r.StoppedEarly || e.Started < 1 || e.OK+e.Interrupted != e.Started {
			t.Errorf("stopped early: %v, %+v", r.StoppedEarly, e)
		}
		last := r.Load.Validity.Reasons[len(r.Load.Validity.Reasons)-1]
		if !strings.HasPrefix(last, "stopped early: after ") || !strings.HasSuffix(last, " of 1h0m0s") {
			t.Errorf("reason %q", last)
		}
		if _, requests, _ := p.counts(); requests < e.OK || requests > e.Started {
			t.Errorf("the server saw %d requests, and %d of %d are ok", requests, e.OK, e.Started)
		}
	})
}

func TestAClosedModelThatSentNothingIsInvalid(t *testing.T) {
	c := plan(Endpoint{Name: "fast"})
	c.Closed = 3
	c = c.WithDefaults()
	for _, tt := range []struct {
		sent    int
		stopped bool
		valid   bool
		want    string
	}{
		{1, false, true, ""},
		{0, false, false, "fast: the generator was so late that no worker had sent a request"},
		{0, true, false, "stopped early: after 0.0 s of 30s"},
	} {
		tl := newTally(c, 0)
		for range tt.sent {
			tl.finish(job{index: tl.next()}, 0, time.Millisecond, 0, ledger.Answer{Outcome: ledger.OK, Status: 200})
		}
		load := result.Load{Endpoints: map[string]result.Endpoint{"fast": tl.endpoint(c.Endpoints[0], c.Duration, c.Duration)}}
		v := judge(c, []*tally{tl}, load, tt.stopped)
		if v.Valid != tt.valid || !tt.valid && (len(v.Reasons) != 1 || !strings.HasPrefix(v.Reasons[0], tt.want)) {
			t.Errorf("%d sent, stopped %v: %+v, want %q", tt.sent, tt.stopped, v, tt.want)
		}
	}
}
