package drain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/proc"
)

// gateway is one that runs, or ran: each start is one of its own.
type gateway struct {
	name     string
	host     *netlab.Host
	balancer *balancer.Balancer // nil of NetHTTP
	child    *proc.Child
	// told: it was told to end, so that its end is none by itself.
	told atomic.Bool
}

// startGateway starts the gateway of a host, and returns when it listens.
func (w *world) startGateway(ctx context.Context, i int) (*gateway, error) {
	g := &gateway{name: gatewayName(i), host: w.hosts.gateways[i]}
	if w.setup.Gateway == NetHTTP {
		args := []string{
			"gateway", "-listen=" + serviceAt(gatewayAddr(i)), "-admin=" + adminAt, "-to=http://" + serviceAt(appAddr),
			"-name=" + g.name, "-access-log=" + filepath.Join(w.folder, g.name+"-access.jsonl"),
		}
		if w.setup.End.OnZero {
			// As Envoy was seen to: it tells nobody to close. The grace ends the wait.
			args = append(args, "-exit-on-zero", "-announce=false", "-max-wait="+long)
		} else {
			args = append(args, "-drain="+w.setup.End.Drain.String())
		}
		var err error
		g.child, err = startProgram(ctx, g.host, g.name, w.programs.Lab, args, w.folder)
		return g, err
	}
	binary := w.programs.HAProxy
	if w.setup.Gateway == Nginx {
		binary = w.programs.Nginx
	}
	var err error
	g.balancer, err = binary.Start(ctx, g.host.Launcher(), balancer.Options{Name: g.name, Folder: w.folder, Config: w.setup.config(gatewayAddr(i))})
	if err != nil {
		return nil, err
	}
	g.child = g.balancer.Child
	return g, nil
}

// startProgram starts a program of the lab's in a host, and waits until it listens.
func startProgram(ctx context.Context, h *netlab.Host, name, path string, args []string, folder string) (*proc.Child, error) {
	child, err := h.Launcher().Start(ctx, proc.Spec{Name: name, Path: path, Args: args, LogPath: filepath.Join(folder, name+".log"), Announces: true})
	if err != nil {
		return nil, err
	}
	if _, err = child.Listening(ctx); err != nil {
		return nil, errors.Join(err, child.Stop(ctx, stopGrace))
	}
	return child, nil
}

// quit tells the gateway to end when its requests have, and says what it was sent.
func (g *gateway) quit() (signal string, err error) {
	g.told.Store(true)
	if g.balancer == nil {
		return "SIGTERM", g.child.Signal(syscall.SIGTERM)
	}
	if g.balancer.Binary.Kind == balancer.HAProxy {
		return "SIGUSR1", g.balancer.Quit()
	}
	return "SIGQUIT", g.balancer.Quit()
}

// kill ends the gateway with SIGKILL, and returns when it has ended.
func (g *gateway) kill(ctx context.Context) error {
	g.told.Store(true)
	if err := g.child.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	select {
	case <-g.child.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stop ends the gateway at once and removes what is temporary of it.
func (g *gateway) stop(ctx context.Context) error {
	g.told.Store(true)
	if g.balancer != nil {
		return g.balancer.Stop(ctx)
	}
	return g.child.Stop(ctx, stopGrace)
}

// died is what to say of a gateway that has ended by itself.
func (g *gateway) died() error {
	if g.balancer != nil {
		return g.balancer.Died()
	}
	words := ""
	if last := strings.Join(g.child.LastLog(1), ""); last != "" && !strings.HasPrefix(last, "{") { // no announcement
		words = "; it said: " + last
	}
	return fmt.Errorf("%s (lab gateway) ended by itself: %s%s", g.name, g.child.Status(), words)
}

// open are the connections that lab gateway has open now, the oldest first.
func (g *gateway) open(ctx context.Context) ([]adminapi.GatewayConnection, error) {
	var said adminapi.GatewayConnections
	err := askAdmin(ctx, g.host, adminapi.PathConnections, &said)
	return said.Connections, err
}

// askAdmin reads JSON of the admin listener of a program in a host.
func askAdmin(ctx context.Context, h *netlab.Host, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, addr string) (net.Conn, error) { return h.Dial(ctx, addr) },
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+adminAt+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s: %s: %.200s", h.Name(), path, resp.Status, text)
	}
	return json.Unmarshal(text, into)
}

// passage is a request as a gateway's log has it, written when it had ended there.
type passage struct {
	id, gateway string
	connection  string // the gateway's name for it
	from        string // the other end of the connection: the balancer's
}

// passages are the requests that have ended at a gateway so far, and at those that ran
// before it in the same host.
func (w *world) passages(g *gateway) ([]passage, error) {
	var all []passage
	switch w.setup.Gateway {
	case NetHTTP:
		return w.goPassages(g.name)
	case Nginx:
		lines, err := g.balancer.AccessLog()
		for _, l := range lines {
			all = append(all, passage{l.ID, g.name, g.name + "-" + l.Connection, l.Client})
		}
		return all, err
	}
	err := jsonLines(filepath.Join(w.folder, g.name+".log"), func(line struct{ ID, Client string }) {
		if line.ID != "" && line.ID != "-" {
			all = append(all, passage{line.ID, g.name, g.name + "-" + portOf(line.Client), line.Client})
		}
	})
	return all, err
}

// goPassages are those of lab gateway, whose log names the connection in one line and
// its other end in another.
func (w *world) goPassages(name string) ([]passage, error) {
	from := map[string]string{}
	var all []passage
	err := jsonLines(filepath.Join(w.folder, name+"-access.jsonl"), func(line struct{ Event, Connection, Remote, ID string }) {
		if line.Event == "accepted" {
			from[line.Connection] = line.Remote
		}
		if line.Event == "request" {
			all = append(all, passage{line.ID, name, line.Connection, from[line.Connection]})
		}
	})
	return all, err
}

// leg is a connection as the balancer's log has it.
type leg struct {
	client string // address and port of the client's, or the edge's, end
	server string // the gateway's name
}

// legs are the balancer's connections by their end towards the gateway.
func (w *world) legs() (map[string]leg, error) {
	all := map[string]leg{}
	err := jsonLines(filepath.Join(w.folder, "balancer.log"), func(line struct{ Client, Server, From string }) {
		if line.From != "" {
			all[line.From] = leg{line.Client, line.Server}
		}
	})
	return all, err
}

// jsonLines calls each for every line of a log that is a JSON object, so far; what a
// program says in words is passed over, and so is a line that is being written.
func jsonLines[T any](path string, each func(T)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("{")) || !bytes.HasSuffix(line, []byte("\n")) {
			continue
		}
		var one T
		if err := json.Unmarshal(line, &one); err != nil {
			return fmt.Errorf("%s: %.80q: %w", filepath.Base(path), line, err)
		}
		each(one)
	}
	return nil
}

func portOf(addr string) string {
	_, port, _ := strings.Cut(addr, ":")
	return port
}

// adminWait bounds a question to an admin listener.
const adminWait = 5 * time.Second
