package engine

import (
	"strings"
	"testing"
	"time"

	"chokepoint/internal/load/arrival"
)

func TestValidate(t *testing.T) {
	ms := func(n time.Duration) *time.Duration { n *= time.Millisecond; return &n }
	header := func(name, value string) func(*Config) {
		return func(c *Config) { c.Endpoints[0].Header = []Field{{name, value}} }
	}
	row := func(url string) func(*Config) {
		return func(c *Config) { c.Endpoints[0].Rows = []Row{{URL: url}} }
	}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no endpoint", func(c *Config) { c.Endpoints = nil }, "no endpoint"},
		{"duration", func(c *Config) { c.Duration = 0 }, "duration 0s must be above zero"},
		{"long duration", func(c *Config) { c.Duration = 800 * time.Hour }, "duration 800h0m0s is longer than 720h"},
		{"arrivals", func(c *Config) { c.Arrivals = "uniform" }, `arrivals "uniform": choose`},
		{"graceful stop", func(c *Config) { c.GracefulStop = ms(-1) }, "graceful stop -1ms is negative"},
		{"lag", func(c *Config) { c.MaxLag = -1 }, "maximum lag"},
		{"quantum", func(c *Config) { c.Quantum = -1 }, "quantum -1ns is negative"},
		{"coarse quantum", func(c *Config) { c.Quantum = 10 * time.Millisecond }, "raise the maximum lag"},
		{"engine", func(c *Config) { c.Engine = "turbo" }, `engine "turbo": choose auto, loop or goroutines`},
		{"space in the URL", func(c *Config) { c.Endpoints[0].URL = "http://127.0.0.1/?a b" }, "contains a space"},
		{"port of the URL", func(c *Config) { c.Endpoints[0].URL = "http://127.0.0.1:99999/" }, `endpoint fast: port "99999" is not a number from 1 to 65535`},
		{"phase", func(c *Config) { c.Phase = "a b" }, `phase "a b"`},
		{"start", func(c *Config) { c.StartAt = time.Now().Add(-time.Second) }, "in the past"},
		{"same names", func(c *Config) { c.Endpoints = append(c.Endpoints, c.Endpoints[0]) }, `two endpoints are named "fast"`},
		{"name", func(c *Config) { c.Endpoints[0].Name = "a/b" }, `endpoint name "a/b"`},
		{"method", func(c *Config) { c.Endpoints[0].Method = "G T" }, `method "G T"`},
		{"rate", func(c *Config) { c.Endpoints[0].Rate = 0 }, "rate 0 must be above zero"},
		{"huge rate", func(c *Config) { c.Endpoints[0].Rate = 1e300 }, "lower the rate"},
		{"many poisson arrivals", func(c *Config) { c.Arrivals, c.Endpoints[0].Rate = Poisson, 1e8 }, "more than 1e+09 poisson arrivals"},
		{"timeout", func(c *Config) { c.Endpoints[0].Timeout = -1 }, "timeout -1ns is negative"},
		{"workers", func(c *Config) { c.Endpoints[0].Workers = -1 }, "-1 workers"},
		{"warm-up", func(c *Config) { c.Warmup = -1 }, "a warm-up of -1ns"},
		{"warm-up before now", func(c *Config) { c.StartAt, c.Warmup = time.Now().Add(time.Hour), 2*time.Hour }, "leaves no time for a warm-up of 2h0m0s"},
		{"closed", func(c *Config) { c.Closed = -1 }, "-1 workers"},
		{"closed with a rate", func(c *Config) { c.Closed = 3 }, "rate 20/s is of the open model"},
		{"closed with workers", func(c *Config) { c.Closed, c.Endpoints[0].Rate = 3, 0 }, "leave the workers out"},
		{"closed poisson", func(c *Config) { c.Closed, c.Arrivals = 3, Poisson }, "poisson arrivals are of the open model"},
		{"closed with a quantum", func(c *Config) { c.Closed, c.Quantum = 3, time.Millisecond }, "quantum of 1ms is of the open model"},
		{"header name", header("Acc ept", "x"), `header name "Acc ept" is not a token`},
		{"no header name", header("", "x"), `header name "" is not a token`},
		{"header value", header("X-Key", "a\r\nb"), "the value of header X-Key has a control character"},
		{"content length", header("content-length", "3"), "header Content-Length cannot be given"},
		{"transfer encoding", header("Transfer-Encoding", "chunked"), "header Transfer-Encoding cannot be given"},
		{"connection", header("Connection", "close"), "header Connection cannot be given"},
		{"identity", header("x-chokepoint-id", "1"), "header X-Chokepoint-Id cannot be given"},
		{"phase header", header("X-Chokepoint-Phase", "load"), "header X-Chokepoint-Phase cannot be given"},
		{"no Host", header("Host", ""), "header Host is empty"},
		{"two Hosts", func(c *Config) { c.Endpoints[0].Header = []Field{{"Host", "a"}, {"host", "b"}} }, "header Host is given 2 times"},
		{"row of another host", row("http://127.0.0.2:1/"), `row 1: URL "http://127.0.0.2:1/" leaves http://127.0.0.1:1`},
		{"row of another port", row("http://127.0.0.1/"), "row 1: URL"},
		{"row of another scheme", row("https://127.0.0.1:1/"), "row 1: URL"},
		{"row without a scheme", row("//127.0.0.2:1/"), "row 1: URL"},
		{"row with credentials", row("http://user:secret@127.0.0.1:1/"), `row 1: URL "http://user:xxxxx@127.0.0.1:1/" has credentials`},
		{"row with a space", row("/a b"), "contains a space"},
		{"row that is no URL", row("http://[::1/"), `row 1: URL "http://[::1/": missing`},
		{"no URL", func(c *Config) { c.Endpoints[0].URL = "" }, "must start with http"},
		{"scheme", func(c *Config) { c.Endpoints[0].URL = "ftp://x/" }, "must start with http"},
		{"host", func(c *Config) { c.Endpoints[0].URL = "http:///x" }, "has no host"},
		{"syntax", func(c *Config) { c.Endpoints[0].URL = "http://[::1/" }, `URL "http://[::1/": missing`},
		{"password", func(c *Config) { c.Endpoints[0].URL = "ftp://user:secret@x/" }, `URL "ftp://***@x/" must start`},
		{"password that is no URL", func(c *Config) { c.Endpoints[0].URL = "http://user:se/cret@x/" }, `URL "http://***@x/" is malformed; in`},
		{"password and the engine", func(c *Config) { c.Engine, c.Endpoints[0].URL = Loop, "https://user:secret@x/" }, `"https://***@x/" is not`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := plan(Endpoint{Name: "fast", Rate: 20}).WithDefaults()
			if err := c.Validate(); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			tt.change(&c)
			err := c.Validate()
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, tt.want)
			}
		})
	}
}

func TestTheEngineOfAPlan(t *testing.T) {
	https := Endpoint{Name: "secure", URL: "https://127.0.0.1/", Rate: 1}
	best := Goroutines
	if loopSupported {
		best = Loop
	}
	for _, tt := range []struct {
		engine    Kind
		endpoints []Endpoint
		want      Kind
	}{
		{"", []Endpoint{{Name: "fast", Rate: 1}}, best},
		{Auto, []Endpoint{{Name: "fast", Rate: 1}}, best},
		{Auto, []Endpoint{{Name: "fast", Rate: 1}, https}, Goroutines},
		{Goroutines, []Endpoint{{Name: "fast", Rate: 1}}, Goroutines},
	} {
		c := plan(tt.endpoints...)
		c.Engine = tt.engine
		if got := c.WithDefaults().engine(); got != tt.want {
			t.Errorf("%q with %d endpoints: %s, want %s", tt.engine, len(tt.endpoints), got, tt.want)
		}
	}
	c := plan(https)
	c.Engine = Loop
	if err := c.WithDefaults().Validate(); err == nil || !strings.Contains(err.Error(), "choose auto or goroutines") {
		t.Errorf("https on the loop: %v", err)
	}
}

func TestShardsShareWorkersAndRates(t *testing.T) {
	plan := Config{
		Duration: 10 * time.Second, StartAt: time.Now().Add(time.Hour),
		Endpoints: []Endpoint{{Name: "fast", URL: "http://127.0.0.1/", Rate: 100, Timeout: time.Second}},
	}
	for _, tt := range []struct {
		shard            arrival.Shard
		planned, workers int
		target           float64
	}{
		{arrival.Shard{}, 1000, 125 + 8, 100},
		{arrival.Shard{Index: 0, Of: 1}, 1000, 125 + 8, 100},
		{arrival.Shard{Index: 0, Of: 3}, 334, 42 + 8, 100. / 3},
		{arrival.Shard{Index: 2, Of: 3}, 333, 42 + 8, 100. / 3},
		{arrival.Shard{Index: 0, Of: 2000}, 1, 1 + 8, 0.05},
		{arrival.Shard{Index: 1500, Of: 2000}, 0, 1 + 8, 0.05},
	} {
		c := plan
		c.Shard = tt.shard
		c = c.WithDefaults()
		if err := c.Validate(); err != nil {
			t.Errorf("shard %v: %v", tt.shard, err)
		}
		if planned, workers, target := c.planned(0), c.Endpoints[0].Workers, c.targetRate(0); planned != tt.planned || workers != tt.workers || target != tt.target {
			t.Errorf("shard %v: %d planned, %d workers, %v/s, want %d, %d and %v/s", tt.shard, planned, workers, target, tt.planned, tt.workers, tt.target)
		}
	}
}

func TestAShardNeedsAStart(t *testing.T) {
	plan := Config{
		Duration: time.Second, Shard: arrival.Shard{Index: 1, Of: 2},
		Endpoints: []Endpoint{{Name: "fast", URL: "http://127.0.0.1/", Rate: 1}},
	}.WithDefaults()
	if err := plan.Validate(); err == nil || !strings.Contains(err.Error(), "2 shards need one moment at which all of them start; give each the same -start-at, as in -start-at 20") {
		t.Errorf("error %v, want that the start is missing", err)
	}
	plan.StartAt = time.Now().Add(-time.Second)
	if err := plan.Validate(); err == nil || !strings.Contains(err.Error(), "is in the past") {
		t.Errorf("error %v, want that the start is in the past", err)
	}
	plan.StartAt, plan.Shard.Index = time.Now().Add(time.Hour), 2
	if err := plan.Validate(); err == nil || !strings.Contains(err.Error(), "shard 2/2 does not exist") {
		t.Errorf("error %v, want that there is no such shard", err)
	}
}
