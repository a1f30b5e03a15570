package engine

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
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
		seen := map[string][]string{} // id -> the paths that it was read with
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			id := r.Header.Get(adminapi.HeaderID)
			seen[id] = append(seen[id], r.URL.Path)
		}))
		defer server.Close()
		rows := []Row{{URL: "/a"}, {URL: "/b"}, {URL: "/c"}, {URL: "/d"}}
		c := plan(
			Endpoint{Name: "fast", URL: server.URL, Rate: 200, Timeout: time.Second, Rows: rows},
			Endpoint{Name: "slow", URL: server.URL, Rate: 70, Timeout: time.Second, Rows: rows},
		)
		c.Duration, c.Arrivals, c.Seed = 500*time.Millisecond, Poisson, 7
		c.Engine, c.KeepRequests = kind, true
		if kind == Loop {
			c.Loops = 2 // each a shard of a shard
			c.Connections.Sources = []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")}
		}
		whole := c.arrivals()
		want := map[string][]string{}
		var due []Request
		for a, ok := whole.Next(); ok; a, ok = whole.Next() {
			name := c.Endpoints[a.From].Name
			want[name+"-"+strconv.Itoa(a.Index)] = []string{rows[a.Index%len(rows)].URL}
			due = append(due, Request{Endpoint: name, Index: a.Index, Due: a.Due})
		}
		var got []Request
		for _, r := range playShards(t, c, 3) {
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

// playShards plays the shards of c at once.
func playShards(t *testing.T, c Config, of int) []*Report {
	t.Helper()
	c.StartAt = time.Now().Add(300 * time.Millisecond)
	reports, errs := make([]*Report, of), make([]error, of)
	var all sync.WaitGroup
	for i := range of {
		c.Shard = arrival.Shard{Index: i, Of: of}
		e, err := New(t.Context(), c.WithDefaults())
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		all.Go(func() { reports[i], errs[i] = e.Run(t.Context()) })
	}
	all.Wait()
	for i, r := range reports {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		balanced(t, r)
	}
	return reports
}

// TestAStartThatCannotBeHad: names may take long to resolve. Late arrivals would be
// sent in a burst.
func TestAStartThatCannotBeHad(t *testing.T) {
	withEachEngine(t, func(t *testing.T, kind Kind, _ newClient) {
		for _, tt := range []struct {
			ahead, warmup time.Duration
			want          string
		}{
			{-time.Millisecond, 0, "is in the past; give a later time"},
			{maxDuration + time.Hour, 0, "is more than 720h0m0s ahead; give an earlier time"},
			{math.MaxInt64, 0, "is more than 720h0m0s ahead"},
			{time.Minute, time.Hour, "leaves no time for a warm-up of 1h0m0s"},
			{time.Minute, time.Second, ""},
		} {
			c := plan(Endpoint{Name: "fast", Rate: 1})
			c.Engine, c.Warmup, c.StartAt = kind, tt.warmup, time.Now().Add(tt.ahead)
			e, err := New(t.Context(), c.WithDefaults())
			if err == nil {
				e.Close()
			}
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("a start %v ahead: error %v, want %q", tt.ahead, err, tt.want)
			}
		}
	})
}

// digestChanges are changes of a plan, by the field that they change: those that
// make it another plan, and those that may differ from machine to machine. A field
// that is in neither fails the test, so that a new one has to be decided on.
var digestChanges = struct{ other, same map[string]func(*Config) }{
	other: map[string]func(*Config){
		"Duration":     func(c *Config) { c.Duration++ },
		"Arrivals":     func(c *Config) { c.Arrivals = Constant },
		"Seed":         func(c *Config) { c.Seed++ },
		"Pattern":      func(c *Config) { c.Pattern = mustParse("ramp:1..2") },
		"Warmup":       func(c *Config) { c.Warmup++ },
		"Phase":        func(c *Config) { c.Phase = "baseline" },
		"GracefulStop": func(c *Config) { c.GracefulStop = new(time.Duration) },
		"Quantum":      func(c *Config) { c.Quantum++ },

		"Connections.DisableKeepAlive": func(c *Config) { c.Connections.DisableKeepAlive = true },
		"Connections.MaxAge":           func(c *Config) { c.Connections.MaxAge++ },
		"Connections.MaxRequests":      func(c *Config) { c.Connections.MaxRequests++ },

		"Endpoints":         func(c *Config) { c.Endpoints = append(c.Endpoints, c.Endpoints[0]) },
		"Endpoints.Name":    func(c *Config) { c.Endpoints[0].Name = "slow" },
		"Endpoints.URL":     func(c *Config) { c.Endpoints[0].URL += "?id=1" },
		"Endpoints.Method":  func(c *Config) { c.Endpoints[0].Method = "PUT" },
		"Endpoints.Rate":    func(c *Config) { c.Endpoints[0].Rate++ },
		"Endpoints.Timeout": func(c *Config) { c.Endpoints[0].Timeout++ },
		"Endpoints.Header":  func(c *Config) { c.Endpoints[0].Header = []Field{{"Accept", "text/html"}} },
		"Endpoints.Body":    func(c *Config) { c.Endpoints[0].Body = []byte("body") },
		"Endpoints.Rows":    func(c *Config) { c.Endpoints[0].Rows = []Row{{URL: "/a"}} },
	},
	same: map[string]func(*Config){
		"Loops":             func(c *Config) { c.Loops++ },
		"Shard":             func(c *Config) { c.Shard.Index++ },
		"StartAt":           func(c *Config) { c.StartAt = c.StartAt.Add(time.Hour) },
		"Closed":            func(c *Config) { c.Closed = 1 }, // no shard has it
		"Engine":            func(c *Config) { c.Engine = Goroutines },
		"MaxLag":            func(c *Config) { c.MaxLag++ },
		"KeepRequests":      func(c *Config) { c.KeepRequests = true },
		"Log":               func(c *Config) { c.Log = io.Discard },
		"EachSecond":        func(c *Config) { c.EachSecond = func(Second) {} },
		"Endpoints.Workers": func(c *Config) { c.Endpoints[0].Workers++ },

		"Connections":             func(*Config) {}, // by its fields
		"Connections.Insecure":    func(c *Config) { c.Connections.Insecure = true },
		"Connections.Roots":       func(c *Config) { c.Connections.Roots = x509.NewCertPool() },
		"Connections.Certificate": func(c *Config) { c.Connections.Certificate = &tls.Certificate{} },
		"Connections.ServerName":  func(c *Config) { c.Connections.ServerName = "a" },
		"Connections.ConnectTo":   func(c *Config) { c.Connections.ConnectTo = []Redirect{{Host: "a"}} },
		"Connections.Resolve":     func(c *Config) { c.Connections.Resolve = []Redirect{{Host: "a"}} },
		"Connections.Sources":     func(c *Config) { c.Connections.Sources = []netip.Addr{netip.IPv6Loopback()} },
	},
}

func mustParse(text string) arrival.Pattern {
	p, err := arrival.ParsePattern(text, time.Second)
	if err != nil {
		panic(err)
	}
	return p
}

func digestPlan() Config {
	return Config{
		Duration: time.Second, Arrivals: Poisson, Seed: 1, Shard: arrival.Shard{Index: 0, Of: 3},
		StartAt:   time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Endpoints: []Endpoint{{Name: "fast", URL: "http://user:secret@127.0.0.1/", Rate: 10, Header: []Field{{"cookie", "secret"}}}},
	}.WithDefaults()
}

func TestDigestTellsPlansApart(t *testing.T) {
	want := digestPlan().Digest()
	digests := map[string]string{want: "the plan"}
	for field, change := range digestChanges.other {
		c := digestPlan()
		change(&c)
		got := c.Digest()
		if twin, ok := digests[got]; ok {
			t.Errorf("a change of %s has the digest of %s", field, twin)
		}
		digests[got] = field
	}
	for field, change := range digestChanges.same {
		c := digestPlan()
		change(&c)
		if c.Digest() != want {
			t.Errorf("a change of %s makes it another plan", field)
		}
	}
	other := digestPlan()
	other.Endpoints[0].URL, other.Endpoints[0].Header = "http://127.0.0.1/", []Field{{"cookie", "guess"}}
	if other.Digest() != want {
		t.Error("the digest depends on credentials, which could be guessed from it")
	}
}

func TestEveryFieldOfAPlanIsInTheDigestOrNot(t *testing.T) {
	for _, part := range []struct {
		prefix string
		of     reflect.Type
	}{
		{"", reflect.TypeFor[Config]()},
		{"Connections.", reflect.TypeFor[Connections]()},
		{"Endpoints.", reflect.TypeFor[Endpoint]()},
	} {
		for field := range part.of.Fields() {
			name := part.prefix + field.Name
			_, other := digestChanges.other[name]
			_, same := digestChanges.same[name]
			if other == same {
				t.Errorf("%s: say in digestChanges whether it makes another plan, and let digest follow", name)
			}
		}
	}
}

func TestAShardIsOnRecord(t *testing.T) {
	c := digestPlan()
	got := c.shard(time.Now())
	if got.Index != 0 || got.Of != 3 || !got.StartAt.Equal(c.StartAt) || got.Plan != c.Digest() || got.Planned["fast"] != c.wholePlan(0) {
		t.Errorf("%+v", got)
	}
	c.Shard, c.StartAt = arrival.Shard{Index: 0, Of: 1}, time.Time{}
	if now := time.Now(); !c.shard(now).StartAt.Equal(now) {
		t.Error("a plan of one shard starts when it starts")
	}
	c.Shard = arrival.Shard{}
	if c.shard(time.Now()) != nil {
		t.Error("a plan that is not split has a shard")
	}
}

func TestAClosedModelIsNotSplit(t *testing.T) {
	c := Config{
		Duration: time.Second, Shard: arrival.Shard{Index: 0, Of: 2}, StartAt: time.Now().Add(time.Hour), Closed: 2,
		Endpoints: []Endpoint{{Name: "fast", URL: "http://127.0.0.1/"}},
	}.WithDefaults()
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "no arrivals that could be split") {
		t.Errorf("error %v", err)
	}
}

// TestPoissonArrivalsFindAWorker: whatever the server does, none of a few million
// arrivals would be dropped.
func TestPoissonArrivalsFindAWorker(t *testing.T) {
	for seed := range uint64(20) {
		for _, of := range []int{1, 7} {
			c := plan(Endpoint{Name: "fast", Rate: 2000, Timeout: 750 * time.Millisecond})
			c.Duration, c.Arrivals, c.Seed, c.Shard = 50*time.Second, Poisson, seed, arrival.Shard{Of: of}
			c = c.WithDefaults()
			lead, trail := c.arrivals(), c.arrivals()
			last, _ := trail.Next()
			within := 0
			for a, ok := lead.Next(); ok; a, ok = lead.Next() {
				within++
				for ; a.Due-last.Due >= c.Endpoints[0].Timeout+workerSlack; last, _ = trail.Next() {
					within--
				}
				if within > c.Endpoints[0].Workers {
					t.Fatalf("seed %d, shard %v: %d arrivals within a timeout, and %d workers", seed, c.Shard, within, c.Endpoints[0].Workers)
				}
			}
		}
	}
}
