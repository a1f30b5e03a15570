package goroutines

// Where a goroutine stands.
const (
	Idle         = "idle"          // a pool worker waiting for work
	UpstreamRead = "upstream_read" // waiting for the upstream's answer
	PermitWait   = "permit_wait"   // before the bulkhead
	Database     = "database"      // at PostgreSQL, or waiting for a connection to it
	Queued       = "queued"        // a connection waiting for a worker
	Running      = "running"       // a worker in none of these
	Other        = "other"         // everything else
)

// Wheres lists all of them, in the order of a report.
func Wheres() []string {
	return []string{Idle, UpstreamRead, PermitWait, Database, Queued, Running, Other}
}

// pattern is a set of alternatives for a function's name as a dump prints it; one
// that ends in '*' stands for every name that begins so.
type pattern []string

// rule assigns a place to the goroutines whose stack has all its frames.
type rule struct {
	where  string
	worker bool // the goroutine is a worker of the pool
	// frames must be in the stack in this order, the outermost (the caller) first;
	// others may stand between them.
	frames []pattern
	// states narrows the rule to these; nil means any.
	states []string
}

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
	handler = pattern{"net/http.(*conn).serve", "github.com/valyala/fasthttp.(*Server).serveConn"}
	// clientDo waits for the answer in such a service. A net/http caller waits in
	// roundTrip, while another goroutine reads.
	clientDo = pattern{"net/http.(*persistConn).roundTrip", "github.com/valyala/fasthttp.(*HostClient).doNonNilReqResp"}

	weighted = pattern{"golang.org/x/sync/semaphore.(*Weighted).Acquire"}
	postgres = pattern{"github.com/jackc/pgx/v5*", "github.com/jackc/puddle/*"}
	sql      = pattern{"database/sql.*"}

	// connect is on the way to a connection: dialling, the TLS handshake, or waiting
	// for one that the client's own limit allows.
	connect = pattern{
		"net.(*Dialer).*", "net.(*sysDialer).*", "net.Dial*", "net.(*netFD).connect", "net.(*Resolver).*",
		"crypto/tls.(*Conn).Handshake*", "crypto/tls.(*Conn).handshake*", "crypto/tls.(*Conn).clientHandshake",
		"net/http.(*Transport).getConn", "net/http.(*Transport).dialConn",
		"github.com/valyala/fasthttp.(*HostClient).AcquireConn", "github.com/valyala/fasthttp.(*HostClient).acquireConn",
		"github.com/valyala/fasthttp.(*HostClient).dialHostHard", "github.com/valyala/fasthttp.(*TCPDialer).*",
	}
	// write is the request on its way out: a peer that has stopped reading.
	write = pattern{"internal/poll.(*FD).Write*"}
	// read covers a read that is about to wait and one that was just woken, too.
	read = pattern{"internal/poll.(*FD).Read", "internal/poll.(*FD).RawRead", "internal/poll.runtime_pollWait"}
)

// rules are tried in this order, and the first that fits decides. Rows of one
// worker do not contend: each names the victim's frame that leads to the wait, not the
// primitive in which it ends (pgx's pool waits in x/sync/semaphore as the
// bulkhead does, and both a connect and a read end in runtime_pollWait).
var rules = []rule{
	{where: Idle, worker: true, frames: []pattern{worker, awaitTask}},
	{where: PermitWait, worker: true, frames: []pattern{worker, acquire, weighted}},
	// A worker in a connect or a write has sent nothing that the upstream could
	// answer: "other", and the group's frame says which.
	{where: Other, worker: true, frames: []pattern{worker, outboundDo, connect}},
	{where: Other, worker: true, frames: []pattern{worker, outboundDo, write}},
	{where: UpstreamRead, worker: true, frames: []pattern{worker, outboundDo, read}},
	// net/http reads in a goroutine of its own, and the caller waits for that one.
	{where: UpstreamRead, worker: true, frames: []pattern{worker, outboundDo}, states: []string{"select", "chan receive"}},
	{where: Database, worker: true, frames: []pattern{worker, postgres}},
	{where: Running, worker: true, frames: []pattern{worker}},

	{where: Queued, frames: []pattern{awaitWorker}},
	// The connection of a request that a worker runs: the worker is the one counted.
	{where: Other, frames: []pattern{awaitDone}},

	// Other services: the same words, and no worker.
	{where: Database, frames: []pattern{handler, postgres}},
	{where: Database, frames: []pattern{handler, sql}},
	{where: Other, frames: []pattern{handler, clientDo, connect}},
	{where: UpstreamRead, frames: []pattern{handler, clientDo, read}},
	{where: UpstreamRead, frames: []pattern{handler, clientDo}, states: []string{"select"}},
}

// plumbing are the frames in which a wait ends and which say nothing about what is waited
// for. The nearest frame above them is the telling one.
var plumbing = pattern{
	"runtime.*", "runtime/*", "internal/*", "syscall.*", "os.(*File).*",
	"sync.*", "sync/*", "time.*", "context.*", "io.*", "bufio.*", "bytes.*", "net.*", "crypto/tls.*",
	"golang.org/x/sync/*", "golang.org/x/sys/*",
	// pgx reads through these; their callers name the query or the connection.
	"github.com/jackc/pgx/v5/pgproto3.*", "github.com/jackc/pgx/v5/pgconn/internal/*", "github.com/jackc/pgx/v5/internal/*",
	nonGoPrefix,
}
