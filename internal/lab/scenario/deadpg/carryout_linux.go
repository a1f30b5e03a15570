package deadpg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/capture"
	"chokepoint/internal/lab/pghost"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/result"
)

const (
	startWait = 60 * time.Second // for PostgreSQL to be there, and the victim to listen
	stopGrace = 2 * time.Second  // between SIGTERM and SIGKILL
	fillWait  = 10 * time.Second // for each query before the rest
	// settleQueries bounds how many queries there are before the rest.
	settleQueries  = 300
	idleRetransmit = 220 * time.Millisecond // 200 ms is the least
	victimAddr     = "127.0.0.1:8081"
	adminAddr      = "127.0.0.1:9080"
)

// run carries the case out: the pool's connection is made and rests, and then one
// request of the victim takes it for a query.
func (c cell) run(ctx context.Context, folder string, into *result.Case) (err error) {
	var n *network
	var victim *proc.Child
	var at pghost.Seat
	entered := false
	defer func() {
		// The program ends before its host does, and the hosts before the server.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*stopGrace)
		defer cancel()
		if victim != nil {
			err = errors.Join(err, victim.Stop(ctx, stopGrace))
		}
		if n != nil {
			err = errors.Join(err, n.close())
		}
		if entered {
			if ended := at.Ended(); ended != nil {
				err = ended // whatever it was, this is why
			}
			err = errors.Join(err, c.server.Leave(ctx))
		}
	}()
	err = c.gate(ctx, func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, startWait)
		defer cancel()
		if at, err = c.server.Enter(ctx); err != nil {
			return fmt.Errorf("%w; -no-database runs the matrix without these cases", err)
		}
		entered = true
		if n, err = newNetwork(netlab.Device{Mode: c.row.fault.mode, Idle: c.s.DeviceIdle}, at); err != nil {
			return err
		}
		if victim, err = c.startVictim(ctx, n, at, folder); err != nil {
			return err
		}
		return settle(ctx, n)
	})
	if err != nil {
		return err
	}
	used := time.Now()
	if err := rest(ctx, c.row.restIn(c.s)); err != nil {
		return err
	}
	if c.row.fault.young {
		if _, err := n.device.Forget(nil); err != nil {
			return err
		}
	}
	before, err := n.observe()
	if err != nil {
		return err
	}
	asked := time.Now()
	if rested := asked.Sub(used); c.row.fault.young && rested > youngest {
		return fmt.Errorf("the connection had rested for %v when the query came, and is young up to %v only: end what else runs here", rested, youngest)
	}
	got, err := ask(ctx, n.caller, c.s.Timeout)
	if err != nil {
		return err
	}
	after, err := n.observe()
	if err != nil {
		return err
	}
	return c.judge(n, folder, into, asked, got, before, after)
}

// settle makes queries until the kernel has seen what a round trip takes: it draws its
// retransmission timer from that, and saw the first ones while programs started.
func settle(ctx context.Context, n *network) error {
	for range settleQueries {
		got, err := ask(ctx, n.caller, fillWait)
		if err != nil {
			return err
		}
		if got.outcome != got200 {
			return fmt.Errorf("a query before the rest: %s", got.text)
		}
		o, err := n.observe()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(o.client, func(s netlab.Socket) bool { return s.RetransmitTimeout > idleRetransmit }) {
			return nil
		}
	}
	return fmt.Errorf("the kernel would send a segment again later than after %v: end what else runs here", idleRetransmit)
}

// judge fills the case with what was seen, and writes its evidence.
func (c cell) judge(n *network, folder string, into *result.Case, asked time.Time, got answer, before, after observation) (err error) {
	v := seen{outcome: got.outcome, took: got.took, before: before.ends(), after: after.ends()}
	if v.outcome == got200 {
		v.connection = onNew
		if ports := before.ports(); len(ports) == 1 && slices.Contains(after.ports(), ports[0]) {
			v.connection = onReused
		}
		into.Counts.OK, into.HandlerRuns = 1, 1 // PostgreSQL has read the row
	} else {
		into.Counts.NeverReached = 1 // the device let nothing of it pass
	}
	into.Got, into.OK = c.row.want.got(v), c.row.want.met(c.s, v)
	into.Seconds, into.Connection, into.Error = v.took.Seconds(), v.connection, got.err
	into.Before, into.After = before.observed(), after.observed()
	atCaller, atServer := n.atCaller.Stop(), n.atServer.Stop()
	into.Retransmits = capture.Retransmissions(slices.DeleteFunc(slices.Clone(atCaller), func(p capture.Packet) bool { return p.Time.Before(asked) }))
	into.Files, err = writeEvidence(n, folder, asked, got, before, after, atCaller, atServer)
	return errors.Join(err, n.atCaller.Err(), n.atServer.Err())
}

// startVictim starts the victim with a pool of one connection, which is there when it
// listens.
func (c cell) startVictim(ctx context.Context, n *network, at pghost.Seat, folder string) (*proc.Child, error) {
	child, err := n.caller.Launcher().Start(ctx, proc.Spec{
		Name: "victim", Path: c.s.Victim, LogPath: filepath.Join(folder, "victim.log"), Announces: true,
		Args: append([]string{
			"-listen=" + victimAddr, "-admin=" + adminAddr, "-profile=anti",
			"-database-url=" + at.PG.URLAt(n.serverAddr), "-database-conns=1",
		}, c.row.defence.flags(c.s.DeviceIdle)...),
	})
	if err != nil {
		return nil, err
	}
	_, err = child.Listening(ctx)
	return child, err
}

// answer is what the asker got of a query.
type answer struct {
	outcome outcome
	took    time.Duration
	text    string // as it came
	err     string // PostgreSQL's client's, as the victim tells it
}

// ask has the victim read a row, and waits so long for it.
func ask(ctx context.Context, caller *netlab.Host, wait time.Duration) (answer, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, addr string) (net.Conn, error) { return caller.Dial(ctx, addr) },
	}}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	req, err := http.NewRequestWithContext(waiting, http.MethodGet, "http://"+victimAddr+"/fast", nil)
	if err != nil {
		return answer{}, err
	}
	start := time.Now()
	resp, err := client.Do(req)
	switch {
	case ctx.Err() != nil:
		return answer{}, context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return answer{outcome: noAnswer, took: time.Since(start), text: err.Error()}, nil
	case err != nil:
		return answer{}, fmt.Errorf("ask the victim: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return answer{}, fmt.Errorf("ask the victim: %w", err)
	}
	a := answer{took: time.Since(start), text: strings.TrimSpace(string(text))}
	if resp.StatusCode == http.StatusOK {
		a.outcome = got200
		return a, nil
	}
	var said adminapi.Error
	if err := json.Unmarshal(text, &said); err != nil {
		return a, fmt.Errorf("the victim answered %q, which is no JSON: %w", text, err)
	}
	a.err = said.Detail
	a.outcome = outcome(fmt.Sprintf("%d %s", resp.StatusCode, said.Detail))
	for part, is := range map[string]outcome{"connection reset by peer": connReset, "connection timed out": timedOut} {
		if strings.Contains(said.Detail, part) {
			a.outcome = is
		}
	}
	return a, nil
}

// rest waits while the connection does nothing.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// writeEvidence writes the files of a case, and lists them with the victim's log.
func writeEvidence(n *network, folder string, asked time.Time, got answer, before, after observation, atCaller, atServer []capture.Packet) ([]result.EvidenceFile, error) {
	var packets [2]strings.Builder
	for i, seen := range [][]capture.Packet{atCaller, atServer} {
		if err := capture.WriteSequence(&packets[i], seen, asked, n.names); err != nil {
			return nil, err
		}
	}
	files := []struct{ name, what, text string }{
		{"packets.txt", "packets at the caller's interface; times are from the judged query", packets[0].String()},
		{"packets-upstream.txt", "packets at PostgreSQL's interface, behind the device", packets[1].String()},
		{"sockets.txt", "sockets of both ends, and what the device remembers, before and after", before.text("before the judged query") + after.text("after it")},
		{"answer.txt", "what the victim answered", got.text + "\n"},
	}
	list := []result.EvidenceFile{{Name: "victim.log", What: "log of the caller"}}
	for _, f := range files {
		if err := result.WriteFile(filepath.Join(folder, f.name), []byte(f.text)); err != nil {
			return nil, err
		}
		list = append(list, result.EvidenceFile{Name: f.name, What: f.what})
	}
	return list, nil
}

// text is the observation for a reader.
func (o observation) text(when string) string {
	var b strings.Builder
	b.WriteString(when + "\n")
	for _, part := range []struct {
		name string
		rows []string
	}{{"caller", texts(o.client)}, {"postgres", texts(o.server)}, {"conntrack", texts(o.entries)}} {
		if len(part.rows) == 0 {
			part.rows = []string{nothing}
		}
		for _, row := range part.rows {
			fmt.Fprintf(&b, "  %-9s  %s\n", part.name, row)
		}
	}
	return b.String() + "\n"
}
