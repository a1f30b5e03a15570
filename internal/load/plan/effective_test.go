package plan

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/load/arrival"
)

func TestWhatAnEffectivePlanSays(t *testing.T) {
	dir := in(t, map[string]string{"plan.yaml": strings.Replace(full, "http://shop.test/fast", "http://user:hunter2@shop.test/fast", 1)})
	p, err := made("-plan", filepath.Join(dir, "plan.yaml"), "-H", "Authorization: Bearer hunter2")
	if err != nil {
		t.Fatal(err)
	}
	e := p.Effective()
	want := []string{
		"certificates are not verified", "connections are closed after 30s", "connections are closed after 100 requests",
		"shop.test:80 leads to 127.0.0.1:8080", "a.test:80 leads to 127.0.0.1:*", "b.test:80 leads to 127.0.0.1:*",
		"connections come from 127.0.0.2", "connections come from 127.0.0.3",
	}
	if diff := cmp.Diff(want, e.Connections); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	fast, order := e.Endpoints[0], e.Endpoints[1]
	if fast.URL != "http://***@shop.test/fast" || fast.Planned == 0 || order.Method != "PUT" || order.Workers != 20 || order.TimeoutMS != 1000 || order.BodyBytes != 8 {
		t.Errorf("%+v", e.Endpoints)
	}
	if diff := cmp.Diff([]string{"Content-Type", "X-Tag", "X-Tag", "Authorization"}, order.Headers); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if e.Model != "open" || *e.Seed != 7 || e.WarmupS != 5 || *e.GracefulS != 2 || e.Engine != "goroutines" || e.Needs.Connections < fast.Workers+20 {
		t.Errorf("%+v", e)
	}
	var text bytes.Buffer
	e.Print(&text)
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	for name, written := range map[string]string{"text": text.String(), "JSON": string(data)} {
		if strings.Contains(written, "hunter2") || strings.Contains(written, "of-the-file") {
			t.Errorf("the %s shows a secret: %s", name, written)
		}
	}
}

// TestArrivalsByShardAreThePlan: what the shards have is what the whole plan has.
func TestArrivalsByShardAreThePlan(t *testing.T) {
	for _, args := range [][]string{
		{"-rate", "7", "-duration", "3s", "http://a/"},
		{"-rate", "50", "-arrivals", "poisson", "http://a/"},
		{"-arrivals", "ramp:0..30", "-endpoint", "name=a,url=http://a/", "-endpoint", "name=b,url=http://b/"},
		{"-rate", "1", "-duration", "1s", "http://a/"},
	} {
		whole, err := made(args...)
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, n := range whole.Config.Planned() {
			total += n
		}
		sum, own := 0, 0
		shard := whole
		for i := range 4 {
			shard.Config.Shard = arrival.Shard{Index: i, Of: 4}
			e := shard.Effective()
			if i == 0 {
				for _, n := range e.ByShard {
					sum += n
				}
			}
			planned := 0
			for _, ep := range e.Endpoints {
				planned += ep.Planned
			}
			if planned != e.ByShard[i] {
				t.Errorf("%q: shard %d has %d arrivals, and the list says %v", args, i, planned, e.ByShard)
			}
			own += planned
		}
		if sum != total || own != total {
			t.Errorf("%q: %d and %d in the shards, %d in the plan", args, sum, own, total)
		}
	}
}
