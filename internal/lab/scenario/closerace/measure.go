package closerace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

const (
	startWait = 30 * time.Second // for a program to say that it listens
	stopGrace = 3 * time.Second  // between SIGTERM and SIGKILL
	askWait   = 10 * time.Second // for the server's word on its requests
	// starts is how many lines start their programs at a time: more only wait for a CPU.
	starts = 2
	// victimProcs is the victim's GOMAXPROCS, as in the other scenarios.
	victimProcs = "2"
)

// crowd has the lines begin to call together, when the programs of all of them run: what
// starts takes the CPU from what is measured.
type crowd struct {
	slots chan struct{}
	begin func()
	all   chan struct{} // closed when every line has started or given up

	mu      sync.Mutex
	missing int
}

// newCrowd is one of so many lines. begin is called once, before they call.
func newCrowd(lines int, begin func()) *crowd {
	return &crowd{slots: make(chan struct{}, starts), begin: begin, all: make(chan struct{}), missing: lines}
}

// start runs f when it is the line's turn, and returns when every line has started or
// given up, or ctx ends.
func (c *crowd) start(ctx context.Context, f func() error) error {
	c.slots <- struct{}{}
	err := context.Cause(ctx)
	if err == nil {
		err = f()
	}
	<-c.slots
	c.mu.Lock()
	if c.missing--; c.missing == 0 {
		if ctx.Err() == nil {
			c.begin()
		}
		close(c.all)
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-c.all:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// measurement is that of one line: a server, and for each caller a victim.
type measurement struct {
	line
	number   int // of the line
	settings Settings
	programs map[string]string // name -> path
	place    place
	folder   string
	group    *proc.Group
	server   adminapi.Listening
	victims  []adminapi.Listening
	callers  []*caller
}

// run measures the line and writes its calls into the folder. It fills c with what
// there is to say of the line as a whole.
func (m *measurement) run(ctx context.Context, all *crowd, c *result.Case) (err error) {
	m.group = proc.NewGroup()
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*stopGrace)
		defer cancel()
		err = errors.Join(err, m.group.Stop(stopping, stopGrace))
	}()
	if err := all.start(ctx, func() error { return m.start(ctx) }); err != nil {
		return err
	}
	calls, err := m.call(ctx)
	// What was measured before a run was cut short is evidence, too.
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWait)
	defer cancel()
	if joinErr := m.join(asking, calls); err == nil {
		err = joinErr
	}
	if writeErr := writeCalls(filepath.Join(m.folder, callsFile), calls); err == nil {
		err = writeErr
	}
	failed := 0
	for _, one := range calls {
		if !one.ok() {
			failed++
		}
	}
	c.Got, c.OK = fmt.Sprintf("%d calls, %d of them failed", len(calls), failed), err == nil
	return err
}

// start starts the server and the victims.
func (m *measurement) start(ctx context.Context) (err error) {
	m.server, err = m.serve(ctx, m.place.server, "upstream", "server", "-listen="+m.place.server.address+":0",
		"-delay=0s", "-idle-timeout="+m.settings.IdleTimeout.String(), "-idle-end=fin")
	if err != nil {
		return err
	}
	for i := range m.settings.Callers {
		args := append([]string{"-listen=127.0.0.1:0", "-no-database", "-profile=anti",
			"-upstream=http://" + m.server.Public + "/", "-client=" + m.client, "-defence=" + m.defence}, m.arguments...)
		victim, err := m.serve(ctx, m.place.caller, "victim", fmt.Sprintf("victim-%d", i+1), args...)
		if err != nil {
			return err
		}
		m.victims = append(m.victims, victim)
		m.callers = append(m.callers, &caller{
			name: fmt.Sprintf("%s-%d", m.name(), i+1), method: m.method, key: m.key, victim: victim.Public, dial: m.place.caller.dial,
			idle: m.settings.IdleTimeout, deck: newDeck(m.settings.Seed, uint64(m.number)<<32|uint64(i)),
		})
	}
	return nil
}

// name is a line in the name of a request.
func (l line) name() string {
	return strings.ReplaceAll(l.client, "/", "-") + "-" + l.method + "-" + l.defence
}

func (m *measurement) serve(ctx context.Context, at end, program, name string, args ...string) (adminapi.Listening, error) {
	child, err := at.launcher.Start(ctx, proc.Spec{
		Name: name, Path: m.programs[program], Args: append(args, "-admin=127.0.0.1:0"), Env: append(os.Environ(), "GOMAXPROCS="+victimProcs),
		LogPath: filepath.Join(m.folder, name+".log"), Announces: true,
	})
	if err != nil {
		return adminapi.Listening{}, err
	}
	m.group.Add(child)
	wait, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	return child.Listening(wait)
}

// call has all callers call until the duration is over, or a program dies, or ctx ends.
// It returns the calls that there were, also with an error.
func (m *measurement) call(ctx context.Context) ([]call, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case child := <-m.group.Died():
			cancel(errors.New(world.Death{Name: child.Name(), Status: child.Status(), Log: child.LastLog(5)}.String()))
		case <-done:
		}
	}()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var calls []call
	end := time.Now().Add(m.settings.Duration)
	for _, c := range m.callers {
		wg.Go(func() {
			of, err := c.run(ctx, end)
			if err != nil {
				cancel(err)
			}
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, of...)
		})
	}
	wg.Wait()
	return calls, context.Cause(ctx)
}

// join asks the server how often its handler ran for each call, and the victims when
// each began and ended, by the victim's clock. Every call that was answered must have
// run. calls are in the order of their callers.
func (m *measurement) join(ctx context.Context, calls []call) error {
	var requests adminapi.StubRequests
	if err := ask(ctx, m.place.server, m.server, adminapi.PathRequests, &requests); err != nil {
		return err
	}
	if requests.Total > len(requests.Requests) {
		return fmt.Errorf("the server kept %d of %d requests; a shorter -duration or fewer -callers makes few enough", len(requests.Requests), requests.Total)
	}
	visits := map[string]adminapi.Visit{}
	for _, victim := range m.victims {
		var of adminapi.Visits
		if err := ask(ctx, m.place.caller, victim, adminapi.PathVisits+"?phase="+adminapi.PhaseLoad, &of); err != nil {
			return err
		}
		maps.Copy(visits, of["upstream"])
	}
	var ended int64 // when the call before ended
	for i := range calls {
		one := &calls[i]
		one.Runs = requests.Runs[one.ID]
		if one.ok() && one.Runs == 0 {
			return fmt.Errorf("the ledger does not agree with the server: call %s was answered, and no handler ran", one.ID)
		}
		visit, ok := visits[one.ID]
		if !ok || !visit.Finished {
			return fmt.Errorf("the ledger does not agree with the victim: it does not know when call %s was", one.ID)
		}
		began := visit.StartedNS + visit.PermitNS
		if !one.First {
			one.Rest = time.Duration(began - ended)
		}
		one.Took = time.Duration(visit.UpstreamNS)
		ended = began + visit.UpstreamNS
	}
	return nil
}

// ask gets JSON from the admin listener of a program.
func ask(ctx context.Context, at end, program adminapi.Listening, path string, into any) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return at.dial(ctx, address)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+program.Admin+path, nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("ask %s for %s: %w", program.Program, path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s to %s", program.Program, resp.Status, path)
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("%s of %s: %w", path, program.Program, err)
	}
	return nil
}
