package deadconn

import (
	"encoding/json"
	"fmt"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/scenario/deadpg"
	"chokepoint/internal/profile"
	"chokepoint/internal/result"
)

// row is a case for up to four cells: both clients, GET and POST.
type row struct {
	id, group, title string
	// why is the rule that the expectation follows from.
	why     string
	defence defence

	mode    netlab.Mode // what the device does with what it does not know
	newPort bool        // its NAT takes another port for every mapping

	idle    span // the server's idle timeout; zero: for ever
	idleEnd adminapi.IdleEnd
	conns   int  // connections in the pool; fresh: none
	rest    span // zero: the run's

	fault   adminapi.RequestFault // that the judged request brings with it
	work    span                  // how long the server is at it
	key     bool                  // it has an Idempotency-Key
	forget  bool                  // the device forgets when the request is acknowledged
	kill    bool                  // the server is killed when the handler has begun
	timeout float64               // in the run's timeouts; zero: one

	wants wants
}

// fresh is a pool without a connection.
const fresh = -1

// column is a client and a method.
type column struct {
	client profile.Client
	method string
}

var (
	nGET  = column{profile.ClientNetHTTP, "GET"}
	nPOST = column{profile.ClientNetHTTP, "POST"}
	fGET  = column{profile.ClientFastHTTP, "GET"}
	fPOST = column{profile.ClientFastHTTP, "POST"}

	columns = []column{nGET, nPOST, fGET, fPOST}
)

// clientName is the column's client in the words of result.
func (c column) clientName() string {
	if c.client == profile.ClientNetHTTP {
		return result.ClientNetHTTP
	}
	return result.ClientFastHTTP
}

// span is a length of time: a share of the device's memory, so many timeouts, and a
// fixed part.
type span struct {
	deviceIdle, timeouts float64
	plus                 time.Duration
}

func (sp span) in(s Settings) time.Duration {
	return time.Duration(sp.deviceIdle*float64(s.DeviceIdle)+sp.timeouts*float64(s.Timeout)) + sp.plus
}

// What carried the last attempt.
const (
	onReused = "reused"
	onNew    = "new"
)

// kept is an answer on the connection that the pool had, anew one on a connection that
// was made for it, and status an answer that is an error, on the pool's connection.
func kept() expect { return expect{outcome: got200, connection: onReused, attempts: 1, runs: 1} }
func anew() expect { return expect{outcome: got200, connection: onNew, runs: 1} }
func status(code outcome) expect {
	return expect{outcome: code, connection: onReused, attempts: 1, runs: 1}
}

func fails(what outcome, runs int) expect { return expect{outcome: what, runs: runs} }

// timesOut is no answer within so many timeouts.
func timesOut(timeouts float64, runs int) expect {
	return expect{outcome: responseTimeout, runs: runs, at: span{timeouts: timeouts}}
}

func (e expect) endsAfter(timeouts float64, plus time.Duration) expect {
	e.at = span{timeouts: timeouts, plus: plus}
	return e
}

func (e expect) orElse(or outcome) expect { e.or = or; return e }

func (e expect) tries(attempts int) expect { e.attempts = attempts; return e }

func (e expect) ran(runs int) expect { e.runs = runs; return e }

func (e expect) was(before ends) expect { e.before = before; return e }

func (e expect) leaves(after ends) expect { e.after = after; return e }

// wants are what a case wants of each cell that it has.
type wants map[column]expect

func every(e expect) wants { return wants{nGET: e, nPOST: e, fGET: e, fPOST: e} }

// both are what is wanted of each client, whatever the method; gets and posts of one.
func both(net, fast expect) wants {
	return wants{nGET: net, nPOST: net, fGET: fast, fPOST: fast}
}
func gets(net, fast expect) wants  { return wants{nGET: net, fGET: fast} }
func posts(net, fast expect) wants { return wants{nPOST: net, fPOST: fast} }

// against is the case with a defence, and what is then wanted.
func (r row) against(d defence, why string, wants wants) row {
	r.defence, r.why, r.wants = d, why, wants
	return r
}

// as is the case by another name.
func (r row) as(id, group, title string) row {
	r.id, r.group, r.title = id, group, title
	return r
}

// withKey gives the judged request an Idempotency-Key.
func (r row) withKey() row { r.key = true; return r }

// Build is the matrix with so many settings, as matrix.Builder wants it.
func Build(settings json.RawMessage) ([]matrix.Case, error) {
	var s Settings
	if err := json.Unmarshal(settings, &s); err != nil {
		return nil, fmt.Errorf("read the settings of %s: %w", Name, err)
	}
	return Cases(s), nil
}

// Cases are the cells of the matrix, in the order of a report.
func Cases(s Settings) []matrix.Case {
	gate := matrix.NewGate()
	var cases []matrix.Case
	for _, r := range rows {
		for _, col := range columns {
			want, ok := r.wants[col]
			if !ok {
				continue
			}
			cases = append(cases, matrix.Case{
				Case: result.Case{
					ID: r.id, Group: r.group, Title: r.title, Client: col.clientName(), Method: col.method,
					Defence: r.defence.name, Settings: r.defence.flags(s), Fault: r.befalls(s),
					Want: want.want(s), Why: r.why,
				},
				Length: r.length(s, want),
				Run:    cell{s, r, col, want, gate}.run,
			})
		}
	}
	if s.NoDatabase {
		return cases
	}
	return append(cases, deadpg.Cases(deadpg.Settings{
		DeviceIdle: s.DeviceIdle, Rest: s.Rest, Timeout: s.Timeout, Victim: s.Victim,
	}, gate.Through)...)
}

// befalls is what happens to the connection or to the server, whatever the caller does
// about it.
func (r row) befalls(s Settings) string {
	device := map[netlab.Mode]string{netlab.Loose: "takes it up again", netlab.Drop: "drops it", netlab.Reset: "resets it"}[r.mode]
	if r.newPort {
		device += " from another port"
	}
	var words string
	switch {
	case r.forget:
		words = "the device forgets while the server works, and " + device
	case r.kill:
		words = "the server is killed while it works"
	case r.fault.Fault == adminapi.FaultStatus:
		words = fmt.Sprintf("the server answers %d", r.fault.Status)
		if r.fault.Close {
			words += " and closes"
		}
	case r.fault != (adminapi.RequestFault{}):
		words = "the server dies while it works (" + r.fault.String() + ")"
	case r.work != span{}:
		words = "the server is slower than the timeout"
	case r.idleEnd == adminapi.IdleEndRST:
		words = fmt.Sprintf("the server resets the connection after %v of rest", r.idle.in(s))
	case r.idle != span{}:
		words = fmt.Sprintf("the server closes the connection after %v of rest", r.idle.in(s))
	default:
		words = "the device forgets the connection while it rests, and " + device
	}
	switch n := r.connections(); n {
	case 1:
		return words
	case 0:
		return words + "; no connection in the pool"
	default:
		return fmt.Sprintf("%s; %d connections in the pool", words, n)
	}
}

// length is about how long the case takes.
func (r row) length(s Settings, want expect) time.Duration {
	return r.restIn(s) + want.at.in(s)
}

// restIn is how long the pool's connections rest.
func (r row) restIn(s Settings) time.Duration {
	switch {
	case r.conns == fresh:
		return 0
	case r.rest == span{}:
		return s.Rest
	}
	return r.rest.in(s)
}

// connections is how many are put into the pool.
func (r row) connections() int {
	switch r.conns {
	case fresh:
		return 0
	case 0:
		return 1
	}
	return r.conns
}

// timeoutIn is how long the caller waits for an answer, each time.
func (r row) timeoutIn(s Settings) time.Duration {
	if r.timeout == 0 {
		return s.Timeout
	}
	return time.Duration(r.timeout * float64(s.Timeout))
}

// cell is one case of the matrix with all that it takes to carry it out.
type cell struct {
	s    Settings
	row  row
	col  column
	want expect
	gate matrix.Gate
}

// connectionArgs are the flags of the victim's client and defence. It has no other
// protection.
func (c cell) connectionArgs() []string {
	connections := c.row.defence.forADeviceOf(c.s.DeviceIdle)
	connections.Client, connections.ResponseTimeout = c.col.client, c.row.timeoutIn(c.s)
	args := []string{"-profile=anti"}
	for name, value := range connections.Settings() {
		args = append(args, "-"+name+"="+value)
	}
	return args
}
