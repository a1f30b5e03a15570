package victim

import (
	"testing"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/profile"
	"chokepoint/internal/service/victim"
)

// One worker, held; behind it wait clients of which some leave, each in another
// way. They are counted when the worker reaches them, under every profile, and
// only "cancel" does not work for them.
func TestClientsThatLeaveTheQueueAreCounted(t *testing.T) {
	leave := []func(*client){
		func(c *client) { c.conn.Close() },
		func(c *client) { c.conn.SetLinger(0); c.conn.Close() },
		func(c *client) { c.conn.CloseWrite() }, // counts as gone too
	}
	for _, tc := range []struct {
		profile string
		want    map[string]int // the status that the victim counts
	}{
		{"anti", map[string]int{"200": 5}},
		{"cancel", map[string]int{"200": 2, "499": 3}},
	} {
		t.Run(tc.profile, func(t *testing.T) {
			w := newWorld(t, hang, func(c *victim.Config) {
				c.MaxWorkers = 1
				c.Profile = named(t, tc.profile, nil)
			})
			w.hold(1, "/upstream")
			w.pooled(1, 0)
			stay := w.hold(2, "/fast")
			leavers := w.hold(len(leave), "/fast")
			w.pooled(1, 2+len(leave))
			for i, c := range leavers {
				leave[i](c)
			}
			if s := w.stats().Pool; s.Abandoned != 0 || s.Queued != 5 {
				t.Errorf("%d abandoned, %d queued before a worker has reached them", s.Abandoned, s.Queued)
			}
			w.stub.Close()
			wantEqual(t, "who stayed", map[outcome]int{{Status: 200}: 2}, outcomes(t, receiveAll(stay)...))
			// Nobody hears of those that are skipped, so nobody can wait for them.
			s := w.statsWhen("counted", func(s adminapi.VictimStats) bool {
				n := 0
				for _, of := range s.Endpoints["fast"][adminapi.PhaseOther].Status {
					n += of
				}
				return n == 5
			})
			wantEqual(t, "counted", tc.want, s.Endpoints["fast"][adminapi.PhaseOther].Status)
			if s.Pool.Abandoned != len(leave) {
				t.Errorf("%d abandoned, want %d", s.Pool.Abandoned, len(leave))
			}
		})
	}
}

// Whoever waits for the answer has not left: not with a second request already
// sent, not with one already read, and not while a worker is at it.
func TestClientsThatStayAreNotCounted(t *testing.T) {
	w := newWorld(t, hang, func(c *victim.Config) {
		c.MaxWorkers = 1
		c.Profile = named(t, "cancel", nil)
	})
	holder := w.hold(1, "/upstream")
	w.pooled(1, 0)
	pipelined := w.dial()
	pipelined.sendAll("/fast", 2) // one write: the victim reads both at once
	w.pooled(1, 1)
	second := w.hold(1, "/fast")[0]
	w.pooled(1, 2)
	second.send("/fast") // stays in the socket while the first is queued
	holder[0].conn.Close()

	w.stub.Close()
	for _, c := range []*client{pipelined, pipelined, second, second} {
		if a := c.receive(); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	s := w.statsWhen("counted", func(s adminapi.VictimStats) bool {
		return s.Endpoints["upstream"][adminapi.PhaseOther].Status["502"] == 1
	})
	if s.Pool.Abandoned != 0 {
		t.Errorf("%d abandoned, want 0: the holder left only after its worker had begun", s.Pool.Abandoned)
	}
	wantEqual(t, "counted", map[string]int{"200": 4}, s.Endpoints["fast"][adminapi.PhaseOther].Status)
}

// Without a pool nobody waits, so nobody can leave before the work begins.
func TestUnboundedAbandonsNobody(t *testing.T) {
	w := newWorld(t, hang, func(c *victim.Config) { c.Profile = profile.Profile{Unbounded: true} })
	clients := w.hold(20, "/upstream")
	w.pooled(20, 0)
	for _, c := range clients {
		c.conn.Close()
	}
	w.stub.Close()
	if s := w.pooled(0, 0).Pool; s.Abandoned != 0 || s.Limit != 0 || s.MaxBusy != 20 || s.MaxQueued != 0 {
		t.Errorf("pool %+v", s)
	}
}
