package deadpg

import (
	"context"
	"strings"
	"time"

	"chokepoint/internal/lab/matrix"
	"chokepoint/internal/lab/pghost"
	"chokepoint/internal/result"
)

const (
	group  = "P. PostgreSQL behind the device"
	method = "SELECT"
)

// Gate lets a case start its hosts and programs, when there is room for it.
type Gate func(ctx context.Context, start func() error) error

// Cases are the cases, in the order of a report. They share one PostgreSQL, which
// begins with the first of them that runs and ends with the last.
func Cases(s Settings, gate Gate) []matrix.Case {
	shared := &pghost.Server{}
	var cases []matrix.Case
	for _, r := range rows {
		r.want = r.want.in(s)
		cases = append(cases, matrix.Case{
			Case: result.Case{
				ID: r.fault.id, Group: group, Title: r.fault.title, Client: result.ClientPgx, Method: method,
				Defence: r.defence.name, Settings: strings.Join(r.defence.flags(s.DeviceIdle), " "), Fault: r.fault.words,
				Want: r.want.inWords(s), Why: r.why,
			},
			Length: r.restIn(s) + min(r.want.at, s.Timeout),
			Run:    cell{s, r, gate, shared}.run,
		})
	}
	return cases
}

// restIn is how long the pool's connection rests.
func (r row) restIn(s Settings) time.Duration {
	if r.fault.young {
		return youngRest
	}
	return s.Rest
}

// cell is one case with all that it takes to carry it out.
type cell struct {
	s      Settings
	row    row
	gate   Gate
	server *pghost.Server
}
