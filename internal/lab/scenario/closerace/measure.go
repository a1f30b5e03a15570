package closerace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/result"
)

const (
	startWait = 30 * time.Second // for a program to say that it listens
	stopGrace = 3 * time.Second  // between SIGTERM and SIGKILL
	// starts is how many programs start at a time: more only wait for a CPU.
	starts = 4
	// victimProcs is the victim's GOMAXPROCS, as in the other scenarios.
	victimProcs = "2"
)

// crew is a line with the programs that measure it: a server, and for each caller a
// victim.
type crew struct {
	line
	server  adminapi.Listening
	callers []*caller
	calls   []call
}

// measurement is the programs of a run.
type measurement struct {
	settings Settings
	launcher *proc.Launcher
	programs map[string]string // name -> path
	logs     string            // folder
	group    *proc.Group
	crews    []*crew
}

// start starts the programs of all lines.
func (m *measurement) start(ctx context.Context) error {
	if err := os.MkdirAll(m.logs, 0o755); err != nil {
		return err
	}
	for _, l := range lines(m.settings.IdleTimeout) {
		m.crews = append(m.crews, &crew{line: l})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, starts)
	var wg sync.WaitGroup
	for i, c := range m.crews {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			if err := m.startCrew(ctx, uint64(i), c); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (m *measurement) startCrew(ctx context.Context, number uint64, c *crew) (err error) {
	name := c.name()
	c.server, err = m.serve(ctx, "upstream", "server-"+name, "-listen=127.0.0.1:0", "-admin=127.0.0.1:0",
		"-delay=0s", "-idle-timeout="+m.settings.IdleTimeout.String(), "-idle-end=fin")
	if err != nil {
		return err
	}
	for i := range m.settings.Callers {
		args := append([]string{"-listen=127.0.0.1:0", "-admin=127.0.0.1:0", "-no-database", "-profile=anti",
			"-upstream=http://" + c.server.Public + "/", "-client=" + c.client, "-defence=" + c.defence}, c.arguments...)
		victim, err := m.serve(ctx, "victim", fmt.Sprintf("victim-%s-%d", name, i+1), args...)
		if err != nil {
			return err
		}
		c.callers = append(c.callers, &caller{
			name: fmt.Sprintf("%s-%d", name, i+1), method: c.method, key: c.key, victim: victim.Public,
			idle: m.settings.IdleTimeout, deck: newDeck(m.settings.Seed, number<<32|uint64(i)),
		})
	}
	return nil
}

// name is a line in a file's name.
func (l line) name() string {
	return strings.ReplaceAll(l.client, "/", "-") + "-" + l.method + "-" + l.defence
}

func (m *measurement) serve(ctx context.Context, program, name string, args ...string) (adminapi.Listening, error) {
	child, err := m.launcher.Start(ctx, proc.Spec{
		Name: name, Path: m.programs[program], Args: args, Env: append(os.Environ(), "GOMAXPROCS="+victimProcs),
		LogPath: filepath.Join(m.logs, name+".log"), Announces: true,
	})
	if err != nil {
		return adminapi.Listening{}, err
	}
	m.group.Add(child)
	wait, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	return child.Listening(wait)
}

// call has all callers call at once, until the duration is over or ctx ends. The
// callers do not begin together, so that they do not go on in step.
func (m *measurement) call(ctx context.Context) error {
	var wg sync.WaitGroup
	var mu sync.Mutex // of the crews' calls and of failed
	var failed []error
	end := time.Now().Add(m.settings.Duration)
	total := m.settings.Callers * len(m.crews)
	for i, c := range m.crews {
		for j, caller := range c.callers {
			wg.Go(func() {
				pause(m.settings.IdleTimeout * time.Duration(i*m.settings.Callers+j) / time.Duration(total))
				calls, err := caller.run(ctx, end)
				mu.Lock()
				defer mu.Unlock()
				c.calls = append(c.calls, calls...)
				if err != nil && ctx.Err() == nil {
					failed = append(failed, err)
				}
			})
		}
	}
	wg.Wait()
	return errors.Join(failed...)
}

// join asks each server how often its handler ran for each request. Every request that
// was answered must have run.
func (m *measurement) join(ctx context.Context) error {
	for _, c := range m.crews {
		runs, err := handlerRuns(ctx, c.server.Admin)
		if err != nil {
			return fmt.Errorf("the server of %s: %w", c.name(), err)
		}
		for i := range c.calls {
			one := &c.calls[i]
			one.Runs = runs[one.ID]
			if one.ok() && one.Runs == 0 {
				return fmt.Errorf("the ledger does not agree with the server of %s: request %s was answered, and no handler ran", c.name(), one.ID)
			}
		}
	}
	return nil
}

func handlerRuns(ctx context.Context, admin string) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+adminapi.PathRequests, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", adminapi.PathRequests, resp.Status)
	}
	var requests adminapi.StubRequests
	if err := json.NewDecoder(resp.Body).Decode(&requests); err != nil {
		return nil, fmt.Errorf("%s: %w", adminapi.PathRequests, err)
	}
	if requests.Total > len(requests.Requests) {
		return nil, fmt.Errorf("it kept %d of %d requests; a shorter -duration or fewer -callers are few enough", len(requests.Requests), requests.Total)
	}
	return requests.Runs, nil
}

// usage is what the programs used so far, summed by kind.
func (m *measurement) usage() []result.Child {
	children := []result.Child{{Name: "victims"}, {Name: "servers"}}
	for _, child := range m.group.Children() {
		u, err := child.Usage()
		if err != nil {
			continue // the sum is then of the others
		}
		of := &children[0]
		if strings.HasPrefix(child.Name(), "server-") {
			of = &children[1]
		}
		of.CPUSeconds += u.CPUSeconds
		of.RunQueueWaitMS += u.RunQueueWait.Seconds() * 1000
	}
	return children
}
