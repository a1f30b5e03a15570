package netlab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/florianl/go-nfqueue/v2"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"golang.org/x/sys/unix"
)

const (
	// queueNumber is that of the router's queue in its namespace.
	queueNumber = 0
	// maxHeld is how many packets are held at most; the kernel throws away what
	// comes beyond.
	maxHeld = 16384
	// receiveBytes is asked of the kernel for packets that the lab has not taken
	// yet. Only their heads travel, of about 200 bytes.
	receiveBytes = 4 << 20
)

// queueKind is how a kernel hands packets to a program.
type queueKind int

const (
	noQueue       queueKind = iota
	nftQueue                // nftables' own statement
	targetNFQUEUE           // the iptables target, through nftables' compatibility
)

func (k queueKind) exprs() []expr.Any {
	switch k {
	case nftQueue:
		return []expr.Any{&expr.Queue{Num: queueNumber, Total: 1}}
	case targetNFQUEUE:
		// struct xt_NFQ_info_v1 of linux/netfilter/xt_NFQUEUE.h: number and count.
		info := make(xt.Unknown, 4)
		binary.NativeEndian.PutUint16(info, queueNumber)
		binary.NativeEndian.PutUint16(info[2:], 1)
		return []expr.Any{&expr.Target{Name: "NFQUEUE", Rev: 1, Info: &info}}
	}
	return nil
}

// findQueue finds out how the kernel queues, by a rule that it is given and that
// is taken back.
func findQueue(h *Host) (queueKind, error) {
	var errs []error
	for _, kind := range []queueKind{nftQueue, targetNFQUEUE} {
		err := tryRule(h, nftables.ChainTypeFilter, nftables.ChainHookForward, kind.exprs())
		if err == nil {
			return kind, nil
		}
		errs = append(errs, err)
	}
	return noQueue, &Unavailable{
		What:   "queue for packets (NFQUEUE), which a delay takes",
		Err:    errors.Join(errs...),
		Remedy: "load the kernel module nft_queue, or xt_NFQUEUE and nft_compat, as root with modprobe; everything but delays works without",
	}
}

// delayLine holds every packet of the queue for the same time, and lets it go on
// in the order in which they came.
type delayLine struct {
	queue *nfqueue.Nfqueue
	stop  context.CancelFunc
	held  chan heldPacket
	ended chan struct{}
	delay atomic.Int64 // a time.Duration

	lost   atomic.Uint64
	lastID uint32 // of the receiving goroutine

	mu  sync.Mutex
	err error
}

type heldPacket struct {
	id  uint32
	due time.Time
}

func startDelayLine(h *Host) (*delayLine, error) {
	ctx, stop := context.WithCancel(context.Background())
	d := &delayLine{stop: stop, held: make(chan heldPacket, maxHeld), ended: make(chan struct{})}
	err := h.Do(func() (err error) {
		d.queue, err = nfqueue.Open(&nfqueue.Config{
			NfQueue:     queueNumber,
			MaxQueueLen: maxHeld,
			Copymode:    nfqueue.NfQnlCopyMeta,
			// The kernel does not cut large writes into segments for us: they stay whole.
			Flags:    nfqueue.NfQaCfgFlagGSO,
			AfFamily: unix.AF_INET,
		})
		if err != nil {
			return err
		}
		if err := d.queue.Con.SetReadBuffer(receiveBytes); err != nil {
			return err
		}
		return d.queue.RegisterWithErrorFunc(ctx, d.take, d.failed)
	})
	if err != nil {
		stop()
		if d.queue != nil {
			err = errors.Join(err, d.queue.Close())
		}
		return nil, fmt.Errorf("take packets from the kernel's queue: %w", err)
	}
	go d.release(ctx)
	return d, nil
}

func (d *delayLine) set(delay time.Duration) { d.delay.Store(int64(delay)) }

// take is called for each packet, in the order of their ids, which the kernel
// counts from 1. What is missing was thrown away.
func (d *delayLine) take(a nfqueue.Attribute) int {
	if a.PacketID == nil {
		return 0
	}
	id := *a.PacketID
	if gap := id - d.lastID - 1; d.lastID != 0 && gap > 0 {
		d.lost.Add(uint64(gap))
	}
	d.lastID = id
	// The kernel holds maxHeld packets at most, so this does not wait.
	d.held <- heldPacket{id, time.Now().Add(time.Duration(d.delay.Load()))}
	return 0
}

// failed is called when no packet could be received. It ends the receiving:
// anything else would try again without a pause.
func (d *delayLine) failed(err error) int {
	if errors.Is(err, unix.ENOBUFS) {
		// Packets came faster than they were read. The gap in their ids will tell.
		return 0
	}
	d.fail(err)
	return 1
}

func (d *delayLine) fail(err error) {
	// Closing the queue ends its calls with such an error.
	if errors.Is(err, net.ErrClosed) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = err
	}
}

// release lets each packet go on when it is due.
func (d *delayLine) release(ctx context.Context) {
	defer close(d.ended)
	for {
		select {
		case p := <-d.held:
			select {
			case <-time.After(time.Until(p.due)):
			case <-ctx.Done():
				return
			}
			if err := d.queue.SetVerdict(p.id, nfqueue.NfAccept); err != nil {
				d.fail(err)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// state is how many packets were thrown away, and why the line does not work any
// more; nil while it does.
func (d *delayLine) state() (lost uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost.Load(), d.err
}

// close ends the line; the kernel throws away what it still holds.
func (d *delayLine) close() error {
	d.stop()
	<-d.ended
	return d.queue.Close()
}
