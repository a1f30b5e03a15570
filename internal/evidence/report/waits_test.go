package report

import (
	"testing"

	"chokepoint/internal/result"
)

// TestFollowedWaitsAreShown: where the clients' waits were followed they are what
// is shown, and add up; where they were not, the victim's own means stand in.
func TestFollowedWaitsAreShown(t *testing.T) {
	endpoint := result.Endpoint{
		ServerTiming: &result.ServerTiming{Queue: 5000},
		Waits:        &result.Waits{Requests: 10, Lag: 1, Accept: 2, Queue: 3, Permit: 4, Upstream: 5, Database: 6, Other: 7},
	}
	r := runFolder{summary: result.Summary{Endpoints: map[string]result.Endpoint{"fast": endpoint}}}
	_, row := waitRow(plain("fast"), r.waitsOf("fast"))
	if row.full != 28 || waitNote(r.summary) != followedNote {
		t.Errorf("a bar of %v ms with the note %q", row.full, waitNote(r.summary))
	}
	endpoint.Waits = nil
	r.summary.Endpoints["fast"] = endpoint
	_, row = waitRow(plain("fast"), r.waitsOf("fast"))
	if row.full != 5000 || waitNote(r.summary) != unfollowedNote {
		t.Errorf("not followed: a bar of %v ms with the note %q", row.full, waitNote(r.summary))
	}
}
