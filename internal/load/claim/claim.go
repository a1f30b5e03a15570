// Package claim deals out the shards of a plan among generators that do not know
// which one each of them is, as the replicas of a compose service: through files
// in a folder that all of them see.
//
// It refuses to wait and to take over. A shard that was claimed by a generator
// that then died is missing in the result, and is reported as such.
package claim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Claim is a shard that is this generator's.
type Claim struct {
	Index int // from 0
	path  string
}

// Take claims the lowest free shard of a plan that is split into that many, and
// starts at startAt. The folder must exist. Of any number of generators that call
// it, on one machine or several, no two get the same shard: the system creates a
// file once (O_EXCL), and the file's name tells the plan, its start and the shard.
func Take(folder, plan string, startAt time.Time, of int) (*Claim, error) {
	for i := range of {
		name := fmt.Sprintf("%s-%s-%d-of-%d.claim", startAt.UTC().Format("20060102T150405.999999999Z"), plan, i, of)
		path := filepath.Join(folder, name)
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		switch {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			var cause *fs.PathError
			if errors.As(err, &cause) {
				err = cause.Err
			}
			return nil, fmt.Errorf("cannot claim a shard in %s: %w; give a folder that every shard can write to", folder, err)
		}
		return &Claim{Index: i, path: path}, f.Close()
	}
	return nil, fmt.Errorf("all %d shards of the plan that starts at %s are claimed in %s; start no more generators than shards",
		of, startAt.UTC().Format(time.RFC3339Nano), folder)
}

// Release removes the claim. After the plan's start nobody can take it any more.
func (c *Claim) Release() error { return os.Remove(c.path) }
