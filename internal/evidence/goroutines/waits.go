package goroutines

import "chokepoint/internal/evidence/stacks"

// Frames that only the rules of waits look for.
var (
	driver = pattern{
		"github.com/jackc/pgx/v5*", "database/sql.*", "github.com/lib/pq.*", "github.com/go-sql-driver/mysql.*",
		"github.com/redis/go-redis/*", "go.mongodb.org/mongo-driver/*",
	}
	lent = pattern{
		"github.com/jackc/puddle/*", "database/sql.(*DB).conn",
		"github.com/valyala/fasthttp.(*HostClient).AcquireConn", "github.com/valyala/fasthttp.(*HostClient).acquireConn",
		"github.com/redis/go-redis/v9/internal/pool.(*ConnPool).waitTurn",
	}
	dialling = pattern{
		"net.(*Dialer).*", "net.(*sysDialer).*", "net.Dial*", "net.(*netFD).connect", "net.(*Resolver).*",
		"crypto/tls.(*Conn).clientHandshake", "net/http.(*Transport).getConn",
	}
	accepting = pattern{"net.(*netFD).accept", "internal/poll.(*FD).Accept"}
	// locking is what a format without states shows of a wait for a mutex.
	locking = pattern{"sync.runtime_SemacquireMutex", "sync.runtime_SemacquireRWMutex*", "internal/sync.runtime_SemacquireMutex"}
	channel = []string{
		"chan receive", "chan send", "chan receive (nil chan)", "chan send (nil chan)", "select", "select (no cases)",
	}
	condition = []string{"sync.Cond.Wait", "sync.WaitGroup.Wait", "semacquire", "coroutine", "finalizer wait"}
)

// waits are tried in this order. What the state alone settles comes first: a
// goroutine that waits for a mutex within a driver waits for the mutex.
var waits = []wait{
	{Wait: stacks.WaitLock, States: []string{"sync.Mutex.Lock", "sync.RWMutex.Lock", "sync.RWMutex.RLock"}},
	{Wait: stacks.WaitLock, Frames: []pattern{locking}},
	{Wait: stacks.WaitTimer, States: []string{"sleep"}},
	{Wait: stacks.WaitTimer, Frames: []pattern{{"time.Sleep"}}},
	{Wait: stacks.WaitNothing, States: []string{"running", "runnable", "syscall"}},
	{Wait: stacks.WaitIdle, Frames: []pattern{awaitTask}},
	{Wait: stacks.WaitIdle, Telling: pattern{"github.com/valyala/fasthttp.(*workerPool).workerFunc"}},
	{Wait: stacks.WaitConnection, Frames: []pattern{lent}, States: []string{"select", "chan receive"}},
	{Wait: stacks.WaitConnect, Frames: []pattern{dialling}},
	{Wait: stacks.WaitDatabase, Frames: []pattern{driver, read}},
	{Wait: stacks.WaitHTTP, Frames: []pattern{clientDo, read}},
	{Wait: stacks.WaitHTTP, Frames: []pattern{clientDo}, States: []string{"select"}},
	{Wait: stacks.WaitAccept, Frames: []pattern{accepting}},
	{Wait: stacks.WaitWrite, Frames: []pattern{write}},
	{Wait: stacks.WaitRead, Frames: []pattern{read}},
	{Wait: stacks.WaitSemaphore, Frames: []pattern{weighted}},
	{Wait: stacks.WaitChannel, States: channel},
	{Wait: stacks.WaitCondition, States: condition},
}
