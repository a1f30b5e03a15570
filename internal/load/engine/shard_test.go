package engine

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/load/arrival"
)

// TestShardsAreThePlanOnEveryEngine: the requests of the shards, as the server and
// as the generators have them, are those of the one plan.
func TestShardsAreThePlanOnEveryEngine(t *testing.T) {
	withEachEngine(t, func(t *testing.T, kind Kind, _ newClient) {
		var mu sync.Mutex
		seen := map[string]int{}
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen[r.Header.Get(adminapi.HeaderID)]++
			mu.Unlock()
		}))
		defer server.Close()
		c := plan(
			Endpoint{Name: "fast", URL: server.URL, Rate: 200, Timeout: time.Second},
			Endpoint{Name: "slow", URL: server.URL, Rate: 70, Timeout: time.Second},
		)
		c.Duration, c.Arrivals, c.Seed = 500*time.Millisecond, Poisson, 7
		c.Engine, c.KeepRequests = kind, true
		whole := c.arrivals()
		want := map[string]int{}
		var due []Request
		for a, ok := whole.Next(); ok; a, ok = whole.Next() {
			name := c.Endpoints[a.From].Name
			want[name+"-"+strconv.Itoa(a.Index)] = 1
			due = append(due, Request{Endpoint: name, Index: a.Index, Due: a.Due})
		}
		c.StartAt = time.Now().Add(300 * time.Millisecond)
		var shards sync.WaitGroup
		reports, errs := make([]*Report, 3), make([]error, 3)
		for i := range reports {
			c.Shard = arrival.Shard{Index: i, Of: len(reports)}
			e, err := New(t.Context(), c.WithDefaults())
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			shards.Go(func() { reports[i], errs[i] = e.Run(t.Context()) })
		}
		shards.Wait()
		var got []Request
		for i, r := range reports {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			balanced(t, r)
			for _, kept := range r.Requests {
				got = append(got, Request{Endpoint: kept.Endpoint, Index: kept.Index, Due: kept.Due})
			}
		}
		slices.SortFunc(got, func(a, b Request) int {
			return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Endpoint, b.Endpoint))
		})
		if diff := gocmp.Diff(due, got); diff != "" {
			t.Errorf("the records of the shards are not the plan:\n%s", diff)
		}
		if diff := gocmp.Diff(want, seen); diff != "" {
			t.Errorf("the server's requests are not the plan:\n%s", diff)
		}
	})
}
