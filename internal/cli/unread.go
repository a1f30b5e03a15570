package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"
)

// unreadGrace is how long a program that has been told to end waits for the reader
// of what it writes: enough for one that reads, and with the engine's wait for
// answers well under the 10 s after which docker stop kills.
const unreadGrace = 3 * time.Second

// ErrUnread is the error of a write to a pipe, or of its opening, that nobody took
// in time after a signal.
var ErrUnread = fmt.Errorf("nobody has read it %v after the signal to end", unreadGrace)

// Await calls write and waits for its end: as long as it takes until ctx ends, and
// from then on unreadGrace. It then gives up, and its error is ErrUnread; write goes
// on by itself, and must leave alone what the caller uses. Package os cannot
// interrupt the opening of a pipe, nor a write to one that it has inherited.
func Await(ctx context.Context, write func() error) error {
	done := make(chan error, 1)
	go func() { done <- write() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(unreadGrace):
		return ErrUnread
	}
}

// Awaited is w with every write awaited (see Await). After the first error it writes
// no more. It is for one goroutine at a time.
func Awaited(ctx context.Context, w io.Writer) io.Writer {
	return &awaited{ctx: ctx, w: w}
}

type awaited struct {
	ctx context.Context
	w   io.Writer
	err error
}

func (a *awaited) Write(data []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	data = bytes.Clone(data) // a write that was given up still reads it
	n := make(chan int, 1)
	a.err = Await(a.ctx, func() error {
		written, err := a.w.Write(data)
		n <- written
		return err
	})
	select {
	case written := <-n:
		return written, a.err
	default:
		return 0, a.err
	}
}
