package engine

import (
	"fmt"
	"time"
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
		return fmt.Errorf("shard %v needs the moment that all %d shards start at; give each the same -start-at, as in -start-at %s",
			c.Shard, c.Shard.Of, time.Now().UTC().Add(time.Minute).Format(time.RFC3339))
	}
	return nil
}
