package victim

import (
	"testing"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/service/victim"
)

// TestVisitsFollowEachRequest: one worker is held in the upstream, one request
// waits behind it, and one was answered before.
func TestVisitsFollowEachRequest(t *testing.T) {
	w := newWorld(t, hang, func(c *victim.Config) {
		c.MinWorkers, c.MaxWorkers = 1, 1
		c.Profile = named(t, "anti", nil)
	})
	load := adminapi.HeaderPhase + ": " + adminapi.PhaseLoad
	id := func(id string) string { return adminapi.HeaderID + ": " + id }
	w.get("/fast", id("answered"), load)
	w.hold(1, "/upstream", id("held"), load)
	w.pooled(1, 0)
	w.hold(1, "/fast", id("waiting"), load)
	w.pooled(1, 1)

	var got adminapi.Visits
	w.adminJSON(adminapi.PathVisits+"?phase="+adminapi.PhaseLoad, &got)
	answered, waiting, held := got["fast"]["answered"], got["fast"]["waiting"], got["upstream"]["held"]
	if len(got["fast"]) != 2 || len(got["upstream"]) != 1 {
		t.Fatalf("visits %+v", got)
	}
	if !answered.Finished || answered.StartedNS < answered.ReceivedNS || answered.DatabaseNS <= 0 || answered.UpstreamNS != 0 {
		t.Errorf("the answered request: %+v", answered)
	}
	if held.Finished || held.StartedNS < held.ReceivedNS || held.ReceivedNS <= answered.ReceivedNS {
		t.Errorf("the held request: %+v; want one that a worker has", held)
	}
	if waiting.Finished || waiting.StartedNS != 0 || waiting.ReceivedNS <= held.StartedNS {
		t.Errorf("the waiting request: %+v; want one that no worker has", waiting)
	}
}
