package proc

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Group is a set of children that are needed together: it says which one died
// first by itself, and stops them in the reverse order of their start.
type Group struct {
	died chan *Child

	mu       sync.Mutex
	children []*Child
	watchers sync.WaitGroup
}

// NewGroup returns an empty group.
func NewGroup() *Group { return &Group{died: make(chan *Child, 1)} }

// Add puts a started child into the group.
func (g *Group) Add(c *Child) {
	g.mu.Lock()
	g.children = append(g.children, c)
	g.mu.Unlock()
	g.watchers.Go(func() {
		<-c.Done()
		if c.endedByItself() {
			select {
			case g.died <- c:
			default: // another was first
			}
		}
	})
}

// Died delivers, once, the first child that ended without having been stopped,
// whatever its exit status: a child of the lab has no reason to leave early.
func (g *Group) Died() <-chan *Child { return g.died }

// Children returns the children in the order of their start.
func (g *Group) Children() []*Child {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*Child(nil), g.children...)
}

// Stop stops the children one after the other, the last one first, each with
// the given grace (see Child.Stop), and returns when all have ended. Its errors
// are those of the children that could not be ended.
func (g *Group) Stop(ctx context.Context, grace time.Duration) error {
	children := g.Children()
	var errs []error
	for i := len(children) - 1; i >= 0; i-- {
		errs = append(errs, children[i].Stop(ctx, grace))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	g.watchers.Wait()
	return nil
}
