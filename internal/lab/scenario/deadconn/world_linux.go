package deadconn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/netlab"
	"chokepoint/internal/lab/proc"
)

const (
	startWait = 30 * time.Second // for a program to say that it listens
	stopGrace = 2 * time.Second  // between SIGTERM and SIGKILL
	// answerWait is how much longer than the longest case a request may take.
	answerWait = 30 * time.Second
	// fillWork is how long the server is at each of the requests that fill the pool
	// at the same time, so that none takes another's connection; fillTries is how often
	// it is tried.
	fillWork  = 300 * time.Millisecond
	fillTries = 5
	// settleRequests bounds how many more are sent, where a case is about a timer of the
	// kernel's, until that is about what it is on an idle machine.
	settleRequests = 300
	idleRetransmit = 220 * time.Millisecond // 200 ms is the least
	// pollEvery is the time between two looks at what is waited for.
	pollEvery = 5 * time.Millisecond

	judgedID = "judged"
	body     = "a body that can be sent again"
)

// world is the programs of a case: the victim, which is the caller, and the stub.
type world struct {
	victim, stub *proc.Child
	client       *http.Client
	caller       *netlab.Host
	log          string // of the stub's runs
}

// start starts the stub and the victim in their hosts.
func (c cell) start(ctx context.Context, n *network, folder string) (*world, error) {
	w := &world{caller: n.caller, log: requestLog(folder)}
	// A connection of its own for each request: the lab's are of no interest.
	w.client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return n.caller.Dial(ctx, addr)
		},
	}}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	stub := []string{
		"-listen=" + netAddr(upstreamAddr.String(), stubPort), "-admin=" + netAddr("127.0.0.1", adminPort),
		"-delay=0s", "-request-log=" + w.log,
	}
	if idle := c.row.idle.in(c.s); idle > 0 {
		stub = append(stub, "-idle-timeout="+idle.String(), "-idle-end="+string(c.row.idleEnd))
	}
	var err error
	if w.stub, err = startProgram(ctx, n.upstream, "stub", c.s.Stub, stub, folder); err != nil {
		return w, err
	}
	w.victim, err = startProgram(ctx, n.caller, "victim", c.s.Victim, c.victimArgs(), folder)
	return w, err
}

// victimArgs are the caller's flags.
func (c cell) victimArgs() []string {
	return append(c.connectionArgs(),
		"-listen="+netAddr("127.0.0.1", victimPort), "-admin="+netAddr("127.0.0.1", adminPort),
		"-upstream=http://"+netAddr(upstreamAddr.String(), stubPort)+"/", "-no-database")
}

func netAddr(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// startProgram starts a program in a host and waits until it listens.
func startProgram(ctx context.Context, h *netlab.Host, name, path string, args []string, folder string) (*proc.Child, error) {
	child, err := h.Launcher().Start(ctx, proc.Spec{
		Name: name, Path: path, Args: args, LogPath: filepath.Join(folder, name+".log"), Announces: true,
	})
	if err != nil {
		return nil, err
	}
	_, err = child.Listening(ctx)
	return child, err
}

// ended says which program has ended by itself, and how; nil if none has. What the case
// got is then of no worth. The stub may have been killed by the case.
func (w *world) ended(stubKilled bool) error {
	for _, child := range []*proc.Child{w.victim, w.stub} {
		if child == nil || child == w.stub && stubKilled {
			continue
		}
		select {
		case <-child.Done():
			return fmt.Errorf("%s ended in the middle: %s", child.Name(), strings.Join(append(child.LastLog(1), child.Status()), "; "))
		default:
		}
	}
	return nil
}

// stop ends the programs, and waits for them.
func (w *world) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*stopGrace)
	defer cancel()
	var errs [2]error
	var wg sync.WaitGroup
	for i, child := range []*proc.Child{w.victim, w.stub} {
		if child != nil {
			wg.Go(func() { errs[i] = child.Stop(ctx, stopGrace) })
		}
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// killStub ends the server with SIGKILL.
func (w *world) killStub() error { return w.stub.Signal(syscall.SIGKILL) }

// call is a request to the victim, which makes one to the stub of it.
type call struct {
	id, method string
	headers    map[string]string
	bound      time.Duration
}

// answer is what the victim says of its call.
type answer struct {
	adminapi.UpstreamAnswer
	text string // as it came
}

// call sends a request through the victim.
func (w *world) call(ctx context.Context, c call) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.bound)
	defer cancel()
	var content io.Reader
	if c.method == http.MethodPost {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, c.method, "http://"+netAddr("127.0.0.1", victimPort)+"/upstream", content)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set(adminapi.HeaderID, c.id)
	for name, value := range c.headers {
		req.Header.Set(name, value)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return answer{}, err
	}
	a := answer{text: string(text)}
	if err := json.Unmarshal(text, &a.UpstreamAnswer); err != nil {
		return a, fmt.Errorf("the victim answered %q, which is no JSON: %w", text, err)
	}
	return a, nil
}

// judged is the request that the case is about.
func (c cell) judged() call {
	headers := map[string]string{adminapi.HeaderPhase: string(adminapi.PhaseLoad)}
	if c.row.fault != (adminapi.RequestFault{}) {
		headers[adminapi.HeaderFault] = c.row.fault.String()
	}
	if work := c.row.work.in(c.s); work > 0 {
		headers[adminapi.HeaderDelay] = work.String()
	}
	if c.row.key {
		headers[adminapi.HeaderIdempotencyKey] = judgedID
	}
	return call{judgedID, c.col.method, headers, c.want.at.in(c.s) + c.row.work.in(c.s) + answerWait}
}

// fill puts so many connections into the victim's pool: as many requests at a time.
func (w *world) fill(ctx context.Context, connections int) error {
	if connections == 0 {
		return nil
	}
	for try := range fillTries {
		used := map[string]bool{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		var failed error
		for i := range connections {
			wg.Go(func() {
				c := call{id: fmt.Sprintf("fill-%d-%d", try, i), method: http.MethodGet, bound: answerWait, headers: map[string]string{}}
				if connections > 1 {
					c.headers[adminapi.HeaderDelay] = fillWork.String()
				}
				a, err := w.call(ctx, c)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					failed = err
				case a.Call == nil || a.Call.Status != http.StatusOK:
					failed = errors.New(a.text)
				default:
					used[a.Call.Connection] = true
				}
			})
		}
		wg.Wait()
		if failed != nil {
			return fmt.Errorf("fill the pool: %w", failed)
		}
		if len(used) == connections {
			return nil
		}
	}
	return fmt.Errorf("fill the pool: %d requests at a time did not use as many connections in %d tries", connections, fillTries)
}

// settle uses the pool's connection until the kernel has seen what a round trip takes: it
// draws its retransmission timer from that, and saw the first ones while programs started.
func (w *world) settle(ctx context.Context) error {
	var timer time.Duration
	for i := range settleRequests {
		sockets, err := w.caller.Sockets(func(s netlab.Socket) bool { return s.HasPort(stubPort) })
		if err != nil {
			return err
		}
		timer = 0
		for _, s := range sockets {
			timer = max(timer, s.RetransmitTimeout)
		}
		if timer <= idleRetransmit {
			return nil
		}
		a, err := w.call(ctx, call{id: fmt.Sprintf("settle-%d", i), method: http.MethodGet, bound: answerWait})
		switch {
		case err != nil:
			return fmt.Errorf("use the pool's connection: %w", err)
		case a.Call == nil || a.Call.Status != http.StatusOK:
			return fmt.Errorf("use the pool's connection: %s", a.text)
		}
	}
	return fmt.Errorf("the kernel would send a segment again after %v, on an idle machine after %v or less: end what else runs here", timer, idleRetransmit)
}

// runs are those of the stub's handler for the judged request, from its log, which
// outlives it.
func (w *world) runs() ([]adminapi.StubRequest, error) {
	text, err := os.ReadFile(w.log)
	if err != nil {
		return nil, err
	}
	runs, err := adminapi.ParseRequestLog(text)
	return slices.DeleteFunc(runs, func(r adminapi.StubRequest) bool { return r.ID != judgedID }), err
}

// awaitRun waits until the handler has begun with the judged request.
func (w *world) awaitRun(ctx context.Context) error {
	return poll(ctx, "the stub's handler has not begun", func() (bool, error) {
		runs, err := w.runs()
		return len(runs) > 0, err
	})
}

// poll asks done again and again until it is true. What says what has not come if it
// never is.
func poll(ctx context.Context, what string, done func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for deadline := time.Now().Add(answerWait); time.Now().Before(deadline); {
		if is, err := done(); err != nil || is {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("%s within %v", what, answerWait)
}
