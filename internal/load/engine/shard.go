package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/textproto"
	"slices"
	"time"

	"chokepoint/internal/load/arrival"
	"chokepoint/internal/result"
)

// validateShard says what keeps the plan from being split.
func (c Config) validateShard() error {
	if err := c.Shard.Validate(); err != nil {
		return err
	}
	switch {
	case c.Shard.Of > 1 && c.Closed > 0:
		return fmt.Errorf("shard %v: a closed model has no arrivals that could be split; run one for each machine without -shard", c.Shard)
	case c.Shard.Of > 1 && c.StartAt.IsZero():
		return fmt.Errorf("%d shards need one moment at which all of them start; give each the same -start-at, as in -start-at %s",
			c.Shard.Of, time.Now().UTC().Add(time.Minute).Format(time.RFC3339))
	}
	return nil
}

// shard is what the result says of the part of the plan that c is; nil if the plan
// is not split.
func (c Config) shard(start time.Time) *result.Shard {
	if c.Shard == (arrival.Shard{}) {
		return nil
	}
	if !c.StartAt.IsZero() {
		start = c.StartAt
	}
	s := &result.Shard{
		Index: c.Shard.Index, Of: c.Shard.Of, Plan: c.Digest(),
		StartAt: start.Round(0).UTC(), Planned: map[string]int{},
	}
	for i, e := range c.Endpoints {
		s.Planned[e.Name] = c.wholePlan(i)
	}
	return s
}

// secretFields are header fields whose value has no part in the digest: one that
// is short could be guessed from it.
var secretFields = []string{"Authorization", "Cookie", "Proxy-Authorization"}

// Digest tells the plan from every other one: what is sent, when, and how long an
// answer is waited for. What may differ from machine to machine has no part in it:
// workers, engine, addresses, certificates, outputs, limits, and credentials.
func (c Config) Digest() string {
	h := sha256.New()
	fmt.Fprintln(h, int64(c.Duration), c.Arrivals, int64(c.Warmup), c.Phase, int64(c.Quantum))
	if c.Arrivals == Poisson {
		fmt.Fprintln(h, c.Seed)
	}
	if c.GracefulStop != nil {
		fmt.Fprintln(h, "stop", int64(*c.GracefulStop))
	}
	fmt.Fprintln(h, c.Connections.DisableKeepAlive, int64(c.Connections.MaxAge), c.Connections.MaxRequests)
	if c.Pattern != nil {
		c.Pattern.Identify(h)
	}
	for _, e := range c.Endpoints {
		e.identify(h)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func (e Endpoint) identify(w io.Writer) {
	address := e.URL
	if u, err := target(e.URL); err == nil {
		u.User = nil
		address = u.String()
	}
	fmt.Fprintf(w, "endpoint %q %q %q %v %d\n", e.Name, e.Method, address, e.Rate.PerSecond(), int64(e.Timeout))
	for _, f := range e.Header {
		value := f.Value
		if slices.Contains(secretFields, textproto.CanonicalMIMEHeaderKey(f.Name)) {
			value = ""
		}
		fmt.Fprintf(w, "header %q %q\n", f.Name, value)
	}
	fmt.Fprintf(w, "body %x\n", sha256.Sum256(e.Body))
	for _, row := range e.Rows {
		fmt.Fprintf(w, "row %q %x\n", row.URL, sha256.Sum256(row.Body))
	}
}
