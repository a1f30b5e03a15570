package profile

import (
	"fmt"
	"strings"
	"time"
)

// Defence is a named defence of the kept connections.
type Defence struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
	add     func(*Connections)
}

// Defences lists the named defences in the order of reports. Their times suit devices
// and servers that forget or close after a minute, the shortest idle timeout in common
// use; where one is shorter, these must be too.
func Defences() []Defence {
	return []Defence{
		{"none", "whatever connection the pool has, and one attempt", func(*Connections) {}},
		{"stale_check", "looks for a FIN or an RST before a connection is used again",
			func(c *Connections) { c.StaleCheck = StalePeek }},
		{"age_check", "does not use a connection that has rested for 30 s",
			func(c *Connections) { c.MaxIdleAge = 30 * time.Second }},
		{"evict", "closes connections that have rested for 30 s, in the background",
			func(c *Connections) { c.EvictIdle = 30 * time.Second }},
		{"evict_not_running", "evict, with nobody who does it",
			func(c *Connections) { c.EvictIdle, c.EvictNotRunning = 30*time.Second, true }},
		{"keepalive_default", "the keepalive that Go's dialer has by itself: 15 s, 15 s, 9",
			func(c *Connections) { c.KeepAlive = goKeepAlive }},
		{"keepalive", "probes after 15 s of rest, and three unanswered ones end the connection",
			func(c *Connections) { c.KeepAlive = KeepAlive{15 * time.Second, 5 * time.Second, 3} }},
		{"user_timeout", "ends a connection whose written data is not acknowledged for 5 s",
			func(c *Connections) { c.UserTimeout = 5 * time.Second }},
		{"library_retry", "the retries that the client library makes by itself",
			func(c *Connections) { c.Retry = RetryLibrary }},
		{"retry_stale", "sends again what has not been sent",
			func(c *Connections) { c.Retry = RetryStale }},
		{"retry_idempotent", "sends idempotent methods again when the connection failed",
			func(c *Connections) { c.Retry, c.RetryFresh = RetryIdempotent, true }},
		{"retry_idempotency_key", "retry_idempotent, and requests that have an Idempotency-Key",
			func(c *Connections) { c.Retry, c.RetryFresh = RetryIdempotencyKey, true }},
		{"retry_all", "sends anything again after any failure: double writes",
			func(c *Connections) { c.Retry = RetryAll }},
		{"recommended", "all that hold: checks, eviction, keepalive, and retries that cannot write twice",
			func(c *Connections) {
				c.StaleCheck, c.MaxIdleAge, c.EvictIdle = StalePeek, 30*time.Second, 30*time.Second
				c.KeepAlive, c.UserTimeout = KeepAlive{15 * time.Second, 5 * time.Second, 3}, 30*time.Second
				c.Retry, c.RetryFresh = RetryIdempotencyKey, true
			}},
	}
}

// DefenceNames lists their names.
func DefenceNames() []string {
	var names []string
	for _, d := range Defences() {
		names = append(names, d.Name)
	}
	return names
}

// Defend is c's client with exactly the defences that names has, separated by
// commas; of two that set the same the later one holds.
func (c Connections) Defend(names string) (Connections, error) {
	defended := Connections{Client: c.Client}
next:
	for name := range strings.SplitSeq(names, ",") {
		for _, d := range Defences() {
			if d.Name == name {
				d.add(&defended)
				continue next
			}
		}
		return c, fmt.Errorf("unknown defence %q; choose of %s", name, strings.Join(DefenceNames(), ", "))
	}
	return defended, nil
}
