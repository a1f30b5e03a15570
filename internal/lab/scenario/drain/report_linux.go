package drain

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/netlab/capture"
	"chokepoint/internal/result"
)

// report joins what was sent with the rows, and writes the evidence.
func (w *world) report(ctx context.Context, sent []sending) (Outcome, error) {
	rows, err := w.rows(ctx)
	if err != nil {
		return Outcome{}, err
	}
	all, err := w.join(sent, rows)
	if err != nil {
		return Outcome{}, err
	}
	if err := unread(w.signals, all); err != nil {
		return Outcome{}, err
	}
	packets := w.hosts.atClient.Stop()
	if err := w.hosts.atClient.Err(); err != nil {
		return Outcome{}, err
	}
	out := Outcome{Counts: count(all), Ended: w.ended, Events: w.moments(packets)}
	for _, r := range all {
		out.Requests = append(out.Requests, r.CaseRequest)
		if r.Sent > 1 {
			out.Repeated++
		}
	}
	out.Files, err = w.write(all, rows, packets)
	return out, err
}

// rows are all that the application did.
func (w *world) rows(ctx context.Context) ([]adminapi.WorkResult, error) {
	conn, err := pgx.Connect(ctx, w.seat.PG.URL())
	if err != nil {
		return nil, fmt.Errorf("read the rows: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	found, err := conn.Query(ctx, `select request_id, idempotency_key, attempt, victim, connection, started_at, finished_at from `+
		pgx.Identifier{w.table}.Sanitize()+` order by finished_at, request_id`)
	if err != nil {
		return nil, fmt.Errorf("read the rows: %w", err)
	}
	rows, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (r adminapi.WorkResult, err error) {
		err = row.Scan(&r.RequestID, &r.IdempotencyKey, &r.Attempt, &r.Victim, &r.Connection, &r.StartedAt, &r.FinishedAt)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the rows: %w", err)
	}
	return rows, nil
}

// join puts the requests in the order of their starts, each with its rows and with the
// connections that the gateways and the application say carried it.
func (w *world) join(sent []sending, rows []adminapi.WorkResult) ([]joined, error) {
	passed := map[string][]passage{}
	for _, g := range w.gateways {
		passages, err := w.passages(g)
		if err != nil {
			return nil, err
		}
		for _, p := range passages {
			passed[p.id] = append(passed[p.id], p)
		}
	}
	legs, err := w.legs()
	if err != nil {
		return nil, err
	}
	ledTo := map[string]string{} // by the client's end
	for _, l := range legs {
		ledTo[l.client] = l.server
	}
	done := byRequest(rows)
	slices.SortFunc(sent, func(a, b sending) int { return cmp.Or(a.began.Compare(b.began), strings.Compare(a.id, b.id)) })
	all := make([]joined, len(sent))
	for i, s := range sent {
		r := joined{
			CaseRequest: result.CaseRequest{ID: s.id, AtS: s.began.Sub(w.told).Seconds(), Got: s.got, Seconds: s.took.Seconds(), Runs: len(done[s.id])},
			Class:       classOf(s.ok, len(done[s.id])), OK: s.ok, Sent: s.sent, Error: s.err, Client: s.local, Reused: s.reused,
			LedTo: ledTo[s.local], LateS: s.late.Seconds(),
		}
		for _, p := range passed[s.id] {
			r.Server, r.Conn = p.gateway, p.connection // the last is what answered
			r.Passed = append(r.Passed, p.connection+" of "+p.from)
		}
		for _, row := range done[s.id] {
			r.AppConns = append(r.AppConns, row.Connection)
		}
		all[i] = r
	}
	return all, nil
}

// maxPackets bounds a case whose packets are told one by one; of others only the
// beginnings and ends of connections are.
const maxPackets = 400

// maxEvents bounds the packets among the events of a case.
const maxEvents = 60

// moments are what was done, and the ends of connections that the client saw, in the
// order of their times.
func (w *world) moments(packets []capture.Packet) []result.CaseEvent {
	var all []result.CaseEvent
	add := func(at time.Time, where, what, detail string) {
		all = append(all, result.CaseEvent{AtS: at.Sub(w.told).Seconds(), Where: where, What: what, Detail: detail})
	}
	for _, m := range w.events {
		add(m.at, m.where, m.what, m.detail)
	}
	kept := 0
	for _, p := range packets {
		if p.Time.Before(w.told) || kept == maxEvents || !p.Flags.Has(capture.RST) && !p.Flags.Has(capture.FIN) {
			continue
		}
		what := "FIN"
		if p.Flags.Has(capture.RST) {
			what = "RST"
		}
		add(p.Time, "client", what, fmt.Sprintf("%v -> %v", p.Source, p.Destination))
		kept++
	}
	slices.SortStableFunc(all, func(a, b result.CaseEvent) int { return cmp.Compare(a.AtS, b.AtS) })
	return all
}

// write writes what the lab knows into the folder, and lists it with what the programs
// wrote.
func (w *world) write(all []joined, rows []adminapi.WorkResult, packets []capture.Packet) ([]result.EvidenceFile, error) {
	var seen strings.Builder
	if len(packets) > maxPackets {
		packets = slices.DeleteFunc(packets, func(p capture.Packet) bool {
			return !p.Flags.Has(capture.SYN) && !p.Flags.Has(capture.FIN) && !p.Flags.Has(capture.RST)
		})
	}
	if err := capture.WriteSequence(&seen, packets, w.told, w.hosts.names); err != nil {
		return nil, err
	}
	requests, err := asLines(all)
	if err != nil {
		return nil, err
	}
	done, err := asLines(rows)
	if err != nil {
		return nil, err
	}
	var list []result.EvidenceFile
	for _, f := range []struct{ name, what, text string }{
		{"requests.jsonl", "every request: what its client got, its class, and the connections that carried it", requests},
		{"rows.jsonl", "the rows that the application left in PostgreSQL", done},
		{"packets.txt", "packets at the client's interface, of many only the beginnings and ends of connections; times are from the moment at which the first gateway was told to end", seen.String()},
	} {
		if err := result.WriteFile(filepath.Join(w.folder, f.name), []byte(f.text)); err != nil {
			return nil, err
		}
		list = append(list, evidenceFile(f.name, f.what))
	}
	if text := lastAlive(w.ended, all); text != "" {
		if err := result.WriteFile(filepath.Join(w.folder, "last-alive.txt"), []byte(text)); err != nil {
			return nil, err
		}
		list = append(list, evidenceFile("last-alive.txt", "the connections that were open to the last, traced to their clients and requests"))
	}
	list = append(list, evidenceFile("balancer.log", "the balancer's connections: the client's end, the gateway, the balancer's end towards it"))
	for _, g := range w.gateways {
		switch w.setup.Gateway {
		case NetHTTP:
			list = append(list, evidenceFile(g.name+"-access.jsonl", "connections and requests of "+g.name))
		case Nginx:
			list = append(list, evidenceFile(g.name+"-access.log", "requests of "+g.name), evidenceFile(g.name+".conf", "its configuration"))
		case HAProxy:
			list = append(list, evidenceFile(g.name+".log", "requests of "+g.name), evidenceFile(g.name+".conf", "its configuration"))
		}
	}
	if w.setup.Edge > 0 {
		list = append(list, evidenceFile("edge-access.log", "requests of the edge"), evidenceFile("edge.conf", "its configuration"))
	}
	return append(list, evidenceFile("app.log", "log of the application")), nil
}

func asLines[T any](all []T) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, one := range all {
		if err := encoder.Encode(one); err != nil {
			return "", err
		}
	}
	return text.String(), nil
}
