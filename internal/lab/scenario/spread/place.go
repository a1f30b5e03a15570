package spread

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
	"strconv"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/goroutines"
	"chokepoint/internal/lab/balancer"
	"chokepoint/internal/lab/proc"
	"chokepoint/internal/lab/world"
	"chokepoint/internal/profile"
	"chokepoint/internal/result"
)

const (
	startWait = 30 * time.Second // for a program to say that it listens
	stopGrace = 3 * time.Second  // between SIGTERM and SIGKILL
	askWait   = 10 * time.Second // for the answer of an admin listener
	maxAnswer = 512 << 20        // bytes, of an admin listener
	// victimProcs is the victim's GOMAXPROCS, as in the other scenarios.
	victimProcs = "2"
	// victimBacklog keeps the victim's accept queue out of what is measured.
	victimBacklog = 4096
	balancerName  = "nginx"
)

// names of the victims, in the order of nginx's configuration. The stub of victim one
// is slow in every cell.
var names = [...]string{"one", "two"}

// victim is one that runs, with its stub.
type victim struct {
	name    string
	slow    bool
	address adminapi.Listening
}

// place is what a cell runs in.
type place struct {
	programs
	folder  string
	group   *proc.Group
	nginx   *balancer.Balancer
	listen  string // nginx's address
	victims [len(names)]victim
	client  *http.Client
}

// start starts the stubs, the victims and nginx. What it has started, close stops, also
// after an error.
func (c cell) start(ctx context.Context, p programs, s Settings, folder string) (*place, error) {
	w := &place{programs: p, folder: folder, group: proc.NewGroup(), client: &http.Client{Transport: &http.Transport{}}}
	scale := "-scale=" + strconv.FormatFloat(s.Scale, 'g', -1, 64)
	chosen := profile.Flags{Name: c.profile}
	for i, name := range names {
		v := victim{name: name, slow: i == 0 || c.bothSlow}
		delay := "0s"
		if v.slow {
			delay = slowDelay.String()
		}
		stub, err := w.serve(ctx, "upstream", "upstream-"+name, "-name="+name, "-delay="+delay, scale)
		if err != nil {
			return w, err
		}
		args := append(chosen.Args(), scale, "-name="+name, "-upstream=http://"+stub.Public+"/",
			"-min-workers="+strconv.Itoa(minWorkers), "-max-workers="+strconv.Itoa(maxWorkers), "-accept-backlog="+strconv.Itoa(victimBacklog))
		if v.address, err = w.serve(ctx, "victim", "victim-"+name, args...); err != nil {
			return w, err
		}
		w.victims[i] = v
	}
	var err error
	if w.listen, err = freeAddress(); err != nil {
		return w, err
	}
	config := c.nginxConfig(s, w.listen, w.victims[0].address.Public, w.victims[1].address.Public)
	w.nginx, err = p.nginx.Start(ctx, p.launcher, balancer.Options{Name: balancerName, Folder: folder, Config: config})
	return w, err
}

// serve starts a program with an admin listener, on free ports of the loopback.
func (w *place) serve(ctx context.Context, program, name string, args ...string) (adminapi.Listening, error) {
	// By environment: the URL may hold a password.
	env := append(os.Environ(), "DATABASE_URL="+w.database.URL(), "GOMAXPROCS="+victimProcs, "GODEBUG=tracebacklabels=1")
	child, err := w.launcher.Start(ctx, proc.Spec{
		Name: name, Path: w.paths[program], Args: append(args, "-listen=127.0.0.1:0", "-admin=127.0.0.1:0"), Env: env,
		LogPath: filepath.Join(w.folder, name+".log"), Announces: true,
	})
	if err != nil {
		return adminapi.Listening{}, err
	}
	w.group.Add(child)
	wait, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	return child.Listening(wait)
}

// freeAddress is an address of the loopback that nobody has: nginx takes no port 0.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// close stops what runs.
func (w *place) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*stopGrace)
	defer cancel()
	w.client.CloseIdleConnections()
	var err error
	if w.nginx != nil {
		err = w.nginx.Stop(ctx)
	}
	return errors.Join(err, w.group.Stop(ctx, stopGrace))
}

// died waits for the first program that ends by itself, until ctx is done: then it is nil.
func (w *place) died(ctx context.Context) error {
	select {
	case child := <-w.group.Died():
		return errors.New(world.Death{Name: child.Name(), Status: child.Status(), Log: child.LastLog(5)}.String())
	case <-w.database.Died():
		return errors.New(world.Death{Name: "postgres", Status: w.database.Status(), Log: w.database.LastLog(5)}.String())
	case <-w.nginx.Child.Done():
		return w.nginx.Died()
	case <-ctx.Done():
		return nil
	}
}

// get asks the admin listener of a victim.
func (w *place) get(ctx context.Context, v victim, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+v.address.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask victim %s: %w", v.name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("victim %s answers %s to %s", v.name, resp.Status, path)
	}
	return body, err
}

func (w *place) getJSON(ctx context.Context, v victim, path string, into any) error {
	body, err := w.get(ctx, v, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s of victim %s: %w", path, v.name, err)
	}
	return nil
}

// dump writes a goroutine dump of a victim into the folder and counts where its workers
// stood.
func (w *place) dump(ctx context.Context, v victim) (result.Dump, error) {
	text, err := w.get(ctx, v, adminapi.PathGoroutines)
	if err != nil {
		return result.Dump{}, err
	}
	if err := result.WriteFile(filepath.Join(w.folder, dumpFile(v.name)), text); err != nil {
		return result.Dump{}, err
	}
	d, err := goroutines.Summarize(bytes.NewReader(text))
	if err != nil {
		return result.Dump{}, fmt.Errorf("dump of victim %s: %w", v.name, err)
	}
	return d, nil
}

func dumpFile(name string) string { return "dump-" + name + ".txt" }
