package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxPackets bounds what a capture keeps: 65,536 heads are about 10 MB.
	maxPackets = 1 << 16
	// snapLength is how much of a frame is read: the longest headers and a line.
	snapLength = ethernetHeader + 60 + 60 + maxLine
	// receiveBuffer is asked of the kernel for the packets that are not read yet.
	// An ordinary user may get less (net.core.rmem_max); Lost then says so.
	receiveBuffer = 4 << 20
)

// Capture reads the packets of one interface until Stop.
type Capture struct {
	file  *os.File
	raw   syscall.RawConn
	ended chan struct{}

	mu      sync.Mutex
	packets []Packet
	lost    int
	err     error
}

// Start captures on the named interface of the network namespace of the calling
// thread, which must not leave it meanwhile (runtime.LockOSThread). The capture
// has begun when it returns. It takes CAP_NET_RAW in that namespace.
func Start(name string) (*Capture, error) {
	c, err := start(name)
	if err != nil {
		return nil, fmt.Errorf("capture on interface %s: %w", name, err)
	}
	return c, nil
}

func start(name string) (*Capture, error) {
	nic, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	// Protocol 0 receives nothing until bind has said on which interface.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := prepare(fd, nic.Index); err != nil {
		unix.Close(fd)
		return nil, err
	}
	c := &Capture{file: os.NewFile(uintptr(fd), "capture"), ended: make(chan struct{})}
	if c.raw, err = c.file.SyscallConn(); err != nil {
		c.file.Close()
		return nil, err
	}
	go c.run()
	return c, nil
}

// prepare asks for the kernel's times and binds the socket to an interface.
func prepare(fd, index int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return os.NewSyscallError("setsockopt SO_TIMESTAMPNS", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer); err != nil {
		return os.NewSyscallError("setsockopt SO_RCVBUF", err)
	}
	// The kernel wants the protocol in network byte order.
	var protocol [2]byte
	binary.BigEndian.PutUint16(protocol[:], unix.ETH_P_ALL)
	address := &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16(protocol[:]), Ifindex: index}
	return os.NewSyscallError("bind", unix.Bind(fd, address))
}

// run reads until Stop sets the deadline, and then what the kernel still has.
func (c *Capture) run() {
	defer close(c.ended)
	r := reader{frame: make([]byte, snapLength), control: make([]byte, 128)}
	err := c.raw.Read(func(fd uintptr) (done bool) { return r.receive(int(fd), c.keep) != nil })
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = c.raw.Control(func(fd uintptr) { r.receive(int(fd), c.keep) })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = errors.Join(err, r.err)
}

// keep adds a packet, up to the bound.
func (c *Capture) keep(p Packet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.packets) == maxPackets {
		c.lost++
		return
	}
	c.packets = append(c.packets, p)
}

// Packets are those that were captured so far, annotated, in their order.
func (c *Capture) Packets() []Packet {
	c.mu.Lock()
	defer c.mu.Unlock()
	packets := append([]Packet(nil), c.packets...)
	Annotate(packets)
	return packets
}

// Stop ends the capture and returns all packets that passed before it, annotated,
// in their order. It may be called more than once.
func (c *Capture) Stop() []Packet {
	// An error says that the file is closed: this is not the first call.
	if err := c.file.SetReadDeadline(time.Unix(1, 0)); err == nil {
		<-c.ended
		c.countLost()
		c.file.Close()
	}
	return c.Packets()
}

// countLost asks the kernel how many packets it had no room for.
func (c *Capture) countLost() {
	err := c.raw.Control(func(fd uintptr) {
		stats, err := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil {
			c.err = errors.Join(c.err, os.NewSyscallError("getsockopt PACKET_STATISTICS", err))
			return
		}
		c.lost += int(stats.Drops)
	})
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.err = errors.Join(c.err, err)
	}
}

// Err says, after Stop, why a capture is not whole: it lost packets, or it could
// not read them. It is nil if the capture is whole.
func (c *Capture) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return fmt.Errorf("capture: %w", c.err)
	}
	if c.lost > 0 {
		return fmt.Errorf("capture: %d packets were lost beside the %d that were kept", c.lost, len(c.packets))
	}
	return nil
}

// reader receives packets with their times.
type reader struct {
	frame, control []byte
	err            error
}

// receive hands on all packets that the kernel has. It returns nil when there are
// no more for now, and an error, which it keeps, when there will be no more.
func (r *reader) receive(fd int, keep func(Packet)) error {
	for {
		n, controlled, _, from, err := unix.Recvmsg(fd, r.frame, r.control, 0)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return nil
		case err == unix.ENETDOWN:
			// The interface was taken down: the packets until then are still to come,
			// and it may be up again.
			continue
		case err != nil:
			r.err = os.NewSyscallError("recvmsg", err)
			return r.err
		}
		p, ok := Decode(r.frame[:n])
		if !ok {
			continue
		}
		if p.Time, err = timestamp(r.control[:controlled]); err != nil {
			r.err = err
			return r.err
		}
		if link, ok := from.(*unix.SockaddrLinklayer); ok {
			p.Outgoing = link.Pkttype == unix.PACKET_OUTGOING
		}
		keep(p)
	}
}

// timestamp reads the kernel's time out of a message's control data.
func timestamp(control []byte) (time.Time, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Time{}, os.NewSyscallError("recvmsg", err)
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			s := int64(binary.NativeEndian.Uint64(m.Data))
			ns := int64(binary.NativeEndian.Uint64(m.Data[8:]))
			return time.Unix(s, ns), nil
		}
	}
	return time.Time{}, errors.New("the kernel gave no time of a packet")
}
