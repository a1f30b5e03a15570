package drain

import (
	"fmt"
	"strings"
)

// shownIDs is how many ids of a connection's requests are told in words.
const shownIDs = 5

// lastAlive tells which connections were open when a gateway was killed: whose they
// are, and which requests they carried and when. Empty if none were.
func lastAlive(ended []Ended, all []joined) string {
	at := map[string]joined{}
	for _, r := range all {
		at[r.ID] = r
	}
	var b strings.Builder
	for _, e := range ended {
		if len(e.Left) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s was killed %.2f s after it was told to end; connections open: %d\n", e.Name, e.At.Seconds(), len(e.Left))
		for _, c := range e.Left {
			fmt.Fprintf(&b, "\n%s: the balancer's %s, which is the client's %s; requests on it: %d\n", c.ID, c.Balancer, c.Client, len(c.Requests))
			for _, id := range c.Requests {
				if r, known := at[id]; known {
					fmt.Fprintf(&b, "  %8.3f s  %-12s  %s\n", r.AtS, id, r.Got)
				} else {
					fmt.Fprintf(&b, "  before the load  %s\n", id)
				}
			}
		}
	}
	return b.String()
}

// inWords is a connection in one line: the client's end, and the ids on it.
func (c Connection) inWords() string {
	ids := c.Requests
	more := ""
	if len(ids) > shownIDs {
		more = fmt.Sprintf(" and %d before", len(ids)-shownIDs)
		ids = ids[len(ids)-shownIDs:]
	}
	return fmt.Sprintf("%s of %s with %s%s", c.ID, c.Client, strings.Join(ids, " "), more)
}
