// Package stacks is what the goroutines of a Go dump and the threads of a Java
// dump have in common: a state, a stack of calls, the place where it stands, and
// the groups that many of them make. The readers of the two are evidence/goroutines
// and evidence/threads, each with its own rules, as data.
//
// It refuses to guess: what no rule fits is "other", and a group says only what
// all of its members have in common.
package stacks

// Where a goroutine or a thread stands.
const (
	Idle            = "idle"             // a pool worker waiting for work
	UpstreamConnect = "upstream_connect" // connecting to the upstream, TLS handshake included: nothing is sent yet
	UpstreamRead    = "upstream_read"    // waiting for the upstream's answer
	PermitWait      = "permit_wait"      // before the bulkhead
	Database        = "database"         // at the database, or waiting for a connection to it
	Queued          = "queued"           // a connection waiting for a worker
	Running         = "running"          // a worker in none of these
	Other           = "other"            // everything else
)

// Wheres lists all of them, in the order of a report.
func Wheres() []string {
	return []string{Idle, UpstreamConnect, UpstreamRead, PermitWait, Database, Queued, Running, Other}
}

// What a goroutine or a thread waits for, whoever it is. The place says what that
// means to a request; this says in which mechanism it waits.
const (
	WaitIdle       = "idle"            // for work, as the worker of any pool
	WaitHTTP       = "http_client"     // for the answer to an HTTP request
	WaitDatabase   = "database_driver" // for the answer of a database
	WaitConnection = "connection_pool" // for a connection that a pool lends
	WaitConnect    = "connect"         // for a connection that is being made
	WaitRead       = "socket_read"     // for bytes of another protocol, or from a client
	WaitWrite      = "socket_write"    // for a peer that does not read
	WaitAccept     = "accept"          // for a client to connect
	WaitSelector   = "selector"        // for any of many sockets to be ready, as an event loop does
	WaitSemaphore  = "semaphore"       // for a permit
	WaitLock       = "lock"            // for a mutex or a monitor
	WaitChannel    = "channel"         // for the other side of a channel of Go
	WaitCondition  = "condition"       // for a condition, a future, a group of others to end
	WaitTimer      = "timer"           // for a time
	WaitNothing    = "nothing"         // it runs, or could
	WaitUnknown    = "unknown"         // no rule fits
)

// Waits lists all of them, in the order of a report.
func Waits() []string {
	return []string{
		WaitIdle, WaitHTTP, WaitDatabase, WaitConnection, WaitConnect, WaitRead, WaitWrite,
		WaitAccept, WaitSelector, WaitSemaphore, WaitLock, WaitChannel, WaitCondition, WaitTimer, WaitNothing, WaitUnknown,
	}
}

// Frame is one call of a stack.
type Frame struct {
	// Func is the function as printed, without its arguments: "main.f",
	// "main.(*T).m-fm", "main.F[...].func1" in Go, where dots in the last element of
	// an import path stay escaped ("gopkg.in/tomb%2ev1.(*Tomb).run");
	// "java.lang.Thread.run" in Java.
	Func string
	File string // empty where the text has none
	Line int
}

// Stack is one goroutine or thread, or Count of them where a format has counted
// them already.
type Stack struct {
	Name string // of a thread; empty for a goroutine
	// State is the state as the format names it, without wait times; empty if the
	// format does not tell it.
	State     string
	Frames    []Frame // innermost first
	CreatedBy Frame   // the go statement that started it; zero where the text has none
	Count     int     // 1 at the least
	Truncated bool    // the text stopped within it
}

// End is what a reader knows of a dump once it has read all of it.
type End struct {
	// Truncated says that the text ends before the dump does: all counts may be too
	// low.
	Truncated bool
	Notes     []string // what a user of the counts must know, a sentence each
}

// Place is where a goroutine or a thread stands.
type Place struct {
	Where string // one of Wheres
	// Worker says that it runs requests for the pool that the dump is about.
	Worker bool
	// Frame is the nearest telling frame: the innermost outside the runtime, the
	// poller and the libraries in which any wait ends. Where all of the stack is of
	// those, it is the outermost but for the entry of the thread.
	Frame Frame
	Wait  string // one of Waits
}
