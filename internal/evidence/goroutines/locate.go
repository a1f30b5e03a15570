package goroutines

import "chokepoint/internal/evidence/stacks"

// Place is where a goroutine stands.
type Place = stacks.Place

// Locate says where g stands, by its stack and state alone.
func Locate(g Goroutine) Place {
	r := Rules()
	return r.Locate(g.Stack())
}
