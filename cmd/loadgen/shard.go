package main

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"chokepoint/internal/cli"
	"chokepoint/internal/load/arrival"
	"chokepoint/internal/load/claim"
)

// shardMark stands for the shard's index in the names of output files.
const shardMark = "{shard}"

// automatic takes the place of a shard's index that is to be claimed.
const automatic = "auto"

// sharding is which part of the plan this generator plays, and how it knows.
type sharding struct {
	claim  bool   // the index is claimed
	folder string // where
}

// addFlags adds the flags of shards to fs.
func (s *sharding) addFlags(fs *flag.FlagSet, shard *arrival.Shard) {
	fs.Func("shard", "play part `i/n` of the plan, i from 0; auto/n claims one. "+shardMark+" in the name of an output is i", func(text string) (err error) {
		of, claimed := strings.CutPrefix(text, automatic+"/")
		if s.claim = claimed; claimed {
			text = "0/" + of
		}
		*shard, err = arrival.ParseShard(text)
		return err
	})
	cli.FileVar(fs, &s.folder, "claim", "claim a part for -shard auto/n in this `folder`, which all generators see")
}

// checkSharding refuses what does not go together.
func (o *options) checkSharding() error {
	shard, s := o.plan.Shard, o.sharding
	switch {
	case s.claim && s.folder == "":
		return fmt.Errorf("-shard %s/%d needs a folder that every generator sees; give -claim FOLDER", automatic, shard.Of)
	case s.claim && o.plan.StartAt.IsZero():
		return fmt.Errorf("-shard %s/%d needs the moment that all start at; give each the same -start-at", automatic, shard.Of)
	case !s.claim && s.folder != "":
		return errors.New("-claim goes with -shard auto/n")
	}
	for _, f := range o.outputFiles() {
		if shard == (arrival.Shard{}) && strings.Contains(f.path, shardMark) {
			return fmt.Errorf("-%s %q: there is no -shard to stand for %s", f.flag, f.path, shardMark)
		}
	}
	return nil
}

// settleShard decides which shard this is and names the outputs after it. What it
// claims is released by the function that it returns.
func (o *options) settleShard() (release func(), err error) {
	release = func() {}
	if o.sharding.claim {
		c, err := claim.Take(o.sharding.folder, o.plan.Digest(), o.plan.StartAt, o.plan.Shard.Of)
		if err != nil {
			return release, err
		}
		o.plan.Shard.Index = c.Index
		// Whoever sees it go learns nothing new: the start has passed, or the run has
		// failed before it.
		release = func() { _ = c.Release() }
	}
	index := strconv.Itoa(o.plan.Shard.Index)
	for _, path := range []*string{&o.json, &o.requests, &o.hlog, &o.perSecond, &o.hgrm} {
		*path = strings.ReplaceAll(*path, shardMark, index)
	}
	return release, nil
}
