package goroutines

import (
	"runtime"
	"time"
)

// DefaultMaxBytes is the MaxBytes of a Capturer that sets none: some 100,000
// goroutines.
const DefaultMaxBytes = 256 << 20

const (
	// perGoroutine is the room for one goroutine. A worker in an upstream read, 25
	// calls deep, takes 3.6 kB; the memory that is not written to costs nothing.
	perGoroutine = 8 << 10
	slack        = 64 << 10 // for what starts between the count and the capture
)

// Capturer takes dumps of its own process, and keeps its buffer between them. The
// zero value is ready. It is for one goroutine at a time.
type Capturer struct {
	// MaxBytes bounds the buffer; 0 means DefaultMaxBytes. A dump that needs more
	// is cut there, and its last goroutine parses as Truncated.
	MaxBytes int

	buf []byte
}

// Capture returns the text of every goroutine, the caller's first, and for how
// long it stopped the world, or was about to. (4,000 goroutines took 85 ms in a
// prototype.) The text is valid until the next Capture.
//
// A buffer that is too small costs a second stop, whose time counts too, so it is
// sized by the number of goroutines, generously. What an earlier capture needed
// is no guide: idle goroutines need a tenth of busy ones.
func (c *Capturer) Capture() (text []byte, pause time.Duration) {
	limit := c.MaxBytes
	if limit <= 0 {
		limit = DefaultMaxBytes
	}
	want := min(runtime.NumGoroutine()*perGoroutine+slack, limit)
	for {
		if len(c.buf) < want {
			c.buf = make([]byte, want)
		}
		start := time.Now()
		n := runtime.Stack(c.buf, true)
		pause += time.Since(start)
		if n < len(c.buf) || len(c.buf) >= limit {
			return c.buf[:n], pause
		}
		want = min(2*len(c.buf), limit)
	}
}
