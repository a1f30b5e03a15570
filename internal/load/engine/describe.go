package engine

// Planned is how many arrivals each endpoint of c has in the window, of its shard
// alone. A closed model plans none.
func (c Config) Planned() []int {
	planned := make([]int, len(c.Endpoints))
	if c.Closed > 0 {
		return planned
	}
	for i := range planned {
		planned[i] = c.planned(i)
	}
	return planned
}

// Plays is the engine that plays c, with Auto decided, and how many loops it has;
// Goroutines has none.
func (c Config) Plays() (kind Kind, loops int) {
	if kind = c.engine(); kind == Loop {
		loops = c.loops()
	}
	return kind, loops
}
