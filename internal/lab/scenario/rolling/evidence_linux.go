package rolling

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/netlab/capture"
	"chokepoint/internal/result"
)

// maxPackets bounds the packets of a case that its summary has; all are in its folder.
const maxPackets = 60

// events are the moments of a case: how connections to the server that goes began and
// ended, and what happened to it and to the balancer.
func events(r record, packets []capture.Packet) []result.CaseEvent {
	kept := r.before.kept()
	var all []result.CaseEvent
	for _, p := range packets {
		port, fromServer, ok := betweenServer(p)
		if !ok || len(all) == maxPackets {
			continue
		}
		what := ""
		switch {
		case p.Flags.Has(capture.RST):
			what = "RST"
		case p.Flags.Has(capture.FIN):
			what = "FIN"
		case p.Flags.Has(capture.SYN) && !p.Flags.Has(capture.ACK) && !kept[port]:
			what = "SYN"
		default:
			continue
		}
		if p.Note != "" {
			what += " (" + string(p.Note) + ")"
		}
		from, connection := "lb", "new connection"
		if fromServer {
			from = was1
		}
		if kept[port] {
			connection = "kept connection"
		}
		all = append(all, result.CaseEvent{
			AtS: p.Time.Sub(r.ended).Seconds(), Where: "lb to was1", What: what,
			Detail: fmt.Sprintf("from %s, %s, port %d", from, connection, port),
		})
	}
	for _, m := range r.moments {
		all = append(all, result.CaseEvent{AtS: m.at.Sub(r.ended).Seconds(), Where: m.where, What: m.what, Detail: m.detail})
	}
	slices.SortStableFunc(all, func(a, b result.CaseEvent) int { return cmp.Compare(a.AtS, b.AtS) })
	return all
}

func (o observation) observed() *result.Observed {
	return &result.Observed{Client: texts(o.lb), Server: texts(o.was1)}
}

func texts(sockets []netlab.Socket) []string {
	out := []string{}
	for _, s := range sockets {
		out = append(out, s.String())
	}
	return out
}

func (o observation) write(w io.Writer, when string) {
	fmt.Fprintf(w, "%s\n", when)
	for _, part := range []struct {
		name string
		rows []string
	}{{"lb", texts(o.lb)}, {was1, texts(o.was1)}, {"neighbour", []string{"was1 " + o.neighbour}}} {
		if len(part.rows) == 0 {
			part.rows = []string{"none"}
		}
		for _, row := range part.rows {
			fmt.Fprintf(w, "  %-9s  %s\n", part.name, row)
		}
	}
	fmt.Fprintln(w)
}

// writeEvidence writes the files of a case, and lists them with those that the programs
// have written.
func writeEvidence(w *world, r record, packets []capture.Packet) ([]result.EvidenceFile, error) {
	var sockets, sequence, timeline strings.Builder
	r.before.write(&sockets, "before the server was told to end")
	r.after.write(&sockets, "after the last request")
	if err := capture.WriteSequence(&sequence, packets, r.ended, hostNames); err != nil {
		return nil, err
	}
	for _, m := range r.moments {
		fmt.Fprintf(&timeline, "%+.3f %-5s %s: %s\n", m.at.Sub(r.ended).Seconds(), m.where, m.what, m.detail)
	}
	files := []struct{ name, what, text string }{
		{"packets.txt", "packets between the balancer and its servers; times are from when the server was told to end", sequence.String()},
		{"moments.txt", "what happened to the server, to the balancer's neighbour entry, and in nginx's log", timeline.String()},
		{"sockets.txt", "sockets of the balancer and of the server, and the neighbour entry, before and after", sockets.String()},
	}
	var list []result.EvidenceFile
	for _, f := range files {
		if err := result.WriteFile(filepath.Join(w.folder, f.name), []byte(f.text)); err != nil {
			return nil, err
		}
		list = append(list, result.EvidenceFile{Name: f.name, What: f.what})
	}
	for _, f := range []result.EvidenceFile{
		{Name: "lb.conf", What: "nginx's configuration, as far as it decides about a request"},
		{Name: "lb-frame.conf", What: "the frame around it: logs, pid file, temporary folders"},
		{Name: "lb-access.log", What: "nginx's access log: servers tried, their statuses and times"},
		{Name: "lb.log", What: "nginx's error log"},
		{Name: filepath.Base(requestLog(w.folder, was1)), What: "runs of the handler of was1"},
		{Name: filepath.Base(requestLog(w.folder, was2)), What: "runs of the handler of was2"},
		{Name: "was1.log", What: "log of was1"}, {Name: "was2.log", What: "log of was2"},
	} {
		if info, err := os.Stat(filepath.Join(w.folder, f.Name)); err == nil && info.Size() > 0 {
			list = append(list, f)
		}
	}
	return list, nil
}
