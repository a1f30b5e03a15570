package goroutines

import "chokepoint/internal/evidence/stacks"

// Rules are the rules for the stacks of Go programs.
func Rules() *stacks.Rules { return &rules }

type (
	pattern = stacks.Pattern
	place   = stacks.PlaceRule
	wait    = stacks.WaitRule
)

// Frames that the rules look for. Those of the victim are the names of its
// functions; where a function is renamed, the name here changes with it.
var (
	worker = pattern{
		"chokepoint/internal/service/pool.(*Pool).work",         // the loop of a bounded pool's worker
		"chokepoint/internal/service/pool.(*Pool).runUnbounded", // profile unbounded: the connection's own goroutine
	}
	awaitTask   = pattern{"chokepoint/internal/service/pool.(*worker).awaitTask"}
	awaitWorker = pattern{"chokepoint/internal/service/pool.(*task).awaitWorker"}
	awaitDone   = pattern{"chokepoint/internal/service/pool.(*task).awaitDone"}
	acquire     = pattern{"chokepoint/internal/service/guard.(*Bulkhead).acquire"}
	outboundDo  = pattern{"chokepoint/internal/service/outbound.(*Client).Do"}

	// handler runs a request in a service that is not the victim.
	handler = pattern{
		"net/http.(*conn).serve", "net/http.(*http2serverConn).runHandler", "golang.org/x/net/http2.(*serverConn).runHandler",
		"github.com/valyala/fasthttp.(*Server).serveConn",
	}
	// clientDo waits for the answer in such a service. A net/http caller waits in
	// roundTrip, while another goroutine reads.
	clientDo = pattern{
		"net/http.(*persistConn).roundTrip", "net/http.(*http2ClientConn).roundTrip", "golang.org/x/net/http2.(*ClientConn).roundTrip",
		"github.com/valyala/fasthttp.(*HostClient).doNonNilReqResp",
	}

	weighted = pattern{"golang.org/x/sync/semaphore.(*Weighted).Acquire"}
	postgres = pattern{"github.com/jackc/pgx/v5*", "github.com/jackc/puddle/*"}
	sql      = pattern{"database/sql.*"}

	// connect is on the way to a connection: dialling, or the TLS handshake.
	connect = pattern{
		"net.(*Dialer).*", "net.(*sysDialer).*", "net.Dial*", "net.(*netFD).connect", "net.(*Resolver).*",
		"crypto/tls.(*Conn).Handshake*", "crypto/tls.(*Conn).handshake*", "crypto/tls.(*Conn).clientHandshake",
		"net/http.(*Transport).getConn", "net/http.(*Transport).dialConn",
		"github.com/valyala/fasthttp.(*HostClient).dialHostHard", "github.com/valyala/fasthttp.(*TCPDialer).*",
	}
	// clientLimit waits for a connection that the client's own limit allows. net/http
	// waits for that in getConn too, and no frame tells the two apart.
	clientLimit = pattern{"github.com/valyala/fasthttp.(*HostClient).AcquireConn", "github.com/valyala/fasthttp.(*HostClient).acquireConn"}
	// write is the request on its way out: a peer that has stopped reading.
	write = pattern{"internal/poll.(*FD).Write*"}
	// read covers a read that is about to wait and one that was just woken, too.
	read = pattern{"internal/poll.(*FD).Read", "internal/poll.(*FD).RawRead", "internal/poll.runtime_pollWait"}
)

// rules are tried in this order, and the first that fits decides. Rows of one
// worker do not contend: each names the victim's frame that leads to the wait, not the
// primitive in which it ends (pgx's pool waits in x/sync/semaphore as the
// bulkhead does, and both a connect and a read end in runtime_pollWait).
var rules = stacks.Rules{
	Places: []place{
		{Where: stacks.Idle, Worker: true, Frames: []pattern{worker, awaitTask}},
		{Where: stacks.PermitWait, Worker: true, Frames: []pattern{worker, acquire, weighted}},
		// A worker in a connect or a write has sent nothing that the upstream could
		// answer. What holds the one is the path or the handshake, and the group's frame
		// says which; the other is seldom enough to be "other".
		{Where: stacks.UpstreamConnect, Worker: true, Frames: []pattern{worker, outboundDo, connect}},
		{Where: stacks.Other, Worker: true, Frames: []pattern{worker, outboundDo, clientLimit}},
		{Where: stacks.Other, Worker: true, Frames: []pattern{worker, outboundDo, write}},
		{Where: stacks.UpstreamRead, Worker: true, Frames: []pattern{worker, outboundDo, read}},
		// net/http reads in a goroutine of its own, and the caller waits for that one.
		{Where: stacks.UpstreamRead, Worker: true, Frames: []pattern{worker, outboundDo}, States: []string{"select", "chan receive"}},
		{Where: stacks.Database, Worker: true, Frames: []pattern{worker, postgres}},
		{Where: stacks.Running, Worker: true, Frames: []pattern{worker}},

		{Where: stacks.Queued, Frames: []pattern{awaitWorker}},
		// The connection of a request that a worker runs: the worker is the one counted.
		{Where: stacks.Other, Frames: []pattern{awaitDone}},

		// Other services: the same words, and no worker.
		{Where: stacks.Database, Frames: []pattern{handler, postgres}},
		{Where: stacks.Database, Frames: []pattern{handler, sql}},
		{Where: stacks.UpstreamConnect, Frames: []pattern{handler, clientDo, connect}},
		{Where: stacks.Other, Frames: []pattern{handler, clientDo, clientLimit}},
		{Where: stacks.UpstreamRead, Frames: []pattern{handler, clientDo, read}},
		{Where: stacks.UpstreamRead, Frames: []pattern{handler, clientDo}, States: []string{"select"}},
		{Where: stacks.PermitWait, Frames: []pattern{handler, weighted}},
	},
	Waits:    waits,
	Plumbing: plumbing,
	Entry:    pattern{"runtime.goexit"},
	Own:      pattern{"chokepoint/internal/service/victim.*", "chokepoint/internal/service/pool.*"},
}

// plumbing are the frames in which a wait ends and which say nothing about what is waited
// for. The nearest frame above them is the telling one.
var plumbing = pattern{
	"runtime.*", "runtime/*", "internal/*", "syscall.*", "os.(*File).*",
	"sync.*", "sync/*", "time.*", "context.*", "io.*", "bufio.*", "bytes.*", "net.*", "crypto/tls.*",
	"golang.org/x/sync/*", "golang.org/x/sys/*",
	// The victim's own connection, between its client and the socket.
	"chokepoint/internal/service/outbound.(*conn).*",
	// pgx reads through these; their callers name the query or the connection.
	"github.com/jackc/pgx/v5/pgproto3.*", "github.com/jackc/pgx/v5/pgconn/internal/*", "github.com/jackc/pgx/v5/internal/*",
	nonGoPrefix,
}
