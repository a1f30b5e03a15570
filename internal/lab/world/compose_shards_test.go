//go:build compose

package world

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/result"
)

// TestReplicasShareOnePlan: what "compose up --scale" starts from
// docker-compose.shards.yml, without a number for each, is one plan. One replica
// too many is refused.
func TestReplicasShareOnePlan(t *testing.T) {
	w := start(t)
	// The replicas start one after the other, each in a second or two.
	startAt := time.Now().Add(20 * time.Second).UTC().Format(time.RFC3339)
	t.Setenv("CHOKEPOINT_SHARDS", "3")
	t.Setenv("CHOKEPOINT_START_AT", startAt)
	t.Setenv("CHOKEPOINT_LOAD", "-max-lag=10s -endpoint=name=fast,url="+w.VictimURL()+"/fast,rate=50/s -duration=2s")
	if out := scale(t, w, 4); !strings.Contains(out, "all 3 shards of the plan that starts at "+startAt+" are claimed in /results") {
		t.Errorf("nothing says that one is too many: %s", out)
	}

	seen := seenIDs(t, w)
	if len(seen) != 100 {
		t.Errorf("the victim saw %d ids, want 100", len(seen))
	}
	for i := range 100 {
		if id := fmt.Sprintf("fast-%d", i); seen[id] != 1 {
			t.Errorf("the victim saw %s %d times, want once", id, seen[id])
		}
	}
	merged := filepath.Join(w.cfg.RunDir, "merged.json")
	out, err := exec.Command(filepath.Join(binDir, "loadgen"), "report", "-json", merged,
		filepath.Join(w.cfg.RunDir, "load-"+startAt+"-*.json")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "3 of 3 shards in parallel") {
		t.Fatalf("%v: %s", err, out)
	}
	l, err := result.ReadLoad(merged)
	if err != nil {
		t.Fatal(err)
	}
	if e := l.Endpoints["fast"]; !l.Validity.Valid || e.Planned != 100 || e.OK != 100 || e.TargetRate != 50 {
		t.Errorf("%+v, %+v, want 100 of 100 at 50/s", l.Validity, e)
	}
	if claims, _ := filepath.Glob(filepath.Join(w.cfg.RunDir, "*.claim")); len(claims) != 0 {
		t.Errorf("left: %q", claims)
	}
}

// scale starts replicas of the load generator and returns what they say, when all
// have ended.
func scale(t *testing.T, w *Compose, replicas int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	args := append(w.engine.composeArgs(w.project, w.composeFile, filepath.Join(repository, "docker-compose.shards.yml"), w.overrideFile()),
		"--env-file", w.variablesFile(), "--ansi", "never",
		"up", "--no-build", "--no-deps", "--scale", fmt.Sprintf("loadgen=%d", replicas), "loadgen")
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("compose up: %v: %s", err, out)
	}
	return string(out)
}

// seenIDs are how often the victim read each id of the load on /fast.
func seenIDs(t *testing.T, w *Compose) map[string]int {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.VictimAdmin()+adminapi.PathSeen+"?phase="+adminapi.PhaseLoad, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var seen adminapi.Seen
	if err := json.NewDecoder(response.Body).Decode(&seen); err != nil {
		t.Fatal(err)
	}
	return seen["fast"]
}
