package queueing

import (
	"math"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
)

// TestPlacesByFault: a call that has no connection yet is in no read.
func TestPlacesByFault(t *testing.T) {
	for _, tt := range []struct {
		name, profile string
		set           func(*Config)
		want          map[string]want
	}{
		{"a handshake that hangs", "anti", func(c *Config) { c.Fault = adminapi.FaultTLSHang },
			map[string]want{"dump.load_15s.upstream_connect": exactly(200), "dump.load_15s.upstream_read": exactly(0), "fast.failed_ratio": among(1000./1200, 1002./1200)}},
		{"the same with permits", "fixed", func(c *Config) { c.Fault = adminapi.FaultTLSHang },
			map[string]want{"dump.load_15s.upstream_connect": exactly(20), "dump.load_40s.upstream_read": exactly(0), "fast.failed_ratio": exactly(0)}},
		{"an answer that never comes", "anti", func(c *Config) { c.Fault, c.FaultRate = adminapi.FaultHang, 1 },
			map[string]want{"dump.load_15s.upstream_connect": exactly(0), "dump.load_15s.upstream_read": exactly(200)}},
		{"refused", "anti", func(c *Config) { c.Fault = adminapi.FaultRefuse },
			map[string]want{"dump.load_15s.upstream_connect": among(0, 1), "pool.max_busy": among(1, 25), "fast.failed_ratio": exactly(0)}},
		// Ten requests leave on connections that were open, and stand in the read; the
		// others never get one.
		{"all packets lost", "anti", func(c *Config) { c.Loss, c.Kept = 1, 10 },
			map[string]want{"dump.load_15s.upstream_connect": exactly(190), "dump.load_15s.upstream_read": exactly(10),
				"dump.after_5s.upstream_connect": exactly(190), "fast.failed_ratio": among(1000./1200, 1002./1200), "upstream.timeout": exactly(1200)}},
		{"all packets lost, with a timeout and permits", "fixed", func(c *Config) { c.Loss, c.Kept = 1, 10 },
			map[string]want{"dump.load_15s.upstream_connect": exactly(20), "dump.load_15s.upstream_read": exactly(0),
				"upstream.upstream_timeout": among(595, 605), "upstream.bulkhead_full": among(595, 605), "fast.failed_ratio": exactly(0)}},
		{"some packets lost", "anti", func(c *Config) { c.Loss, c.Kept = 0.3, 10 },
			map[string]want{"upstream.failed_ratio": among(0, 0.01), "upstream.p50_ms": among(0, 410), "fast.failed_ratio": exactly(0)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := exhaustion(t, tt.profile, 1)
			cfg.Delay = Constant(0)
			tt.set(&cfg)
			expect(t, predict(t, cfg), tt.want)
		})
	}
}

// TestGivenUpByTheKernel: the times after which a path that loses everything ends a
// call by itself, in real time whatever the scale.
func TestGivenUpByTheKernel(t *testing.T) {
	for _, scale := range []float64{1, 0.05} {
		cfg := exhaustion(t, "anti", scale)
		cfg.Loss = 1
		s := newSimulation(&cfg, nominal(&cfg))
		for _, tt := range []struct {
			what string
			draw func() (time.Duration, bool)
			want float64
		}{{"a connect", s.connectLossy, 131}, {"a request", s.sendLossy, 924.8}} {
			takes, ok := tt.draw()
			if got := takes.Seconds() * scale; ok || math.Abs(got-tt.want) > 0.01 {
				t.Errorf("scale %v: %s ends after %v s real, ok %v; want %v", scale, tt.what, got, ok, tt.want)
			}
		}
	}
}
