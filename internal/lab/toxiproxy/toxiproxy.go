// Package toxiproxy puts a Toxiproxy that already runs in front of the stub,
// with a latency toxic on the answers, and takes it away again.
//
// What the toxic does, read from Toxiproxy 2.5.0 (toxics/latency.go and
// stream/io_chan.go) and held by this package's tests: it holds each chunk of
// data, as one read of the socket gave it (up to 32 KiB), until the latency has
// passed since that read. So an answer that its server writes at once, as the
// stub writes a small one, comes one latency later, on top of what the stub
// itself waited, and once however often the connection is used again. Chunks
// that arrive together leave together: a large answer is not slowed in
// proportion to its size. What a server writes in turn with its caller is held
// at every turn. Neither connecting nor the request is delayed: the proxy
// accepts by itself, so a stub that refuses looks through it like one that
// accepts and closes.
//
// The package starts no Toxiproxy, adds no other toxic and touches no proxy but
// its own. It adds the toxic before anyone knows the address, and reads it back,
// since connections from before a toxic can escape it (Shopify/toxiproxy#148).
// It ends by deleting the proxy, and reads that back too: a toxic that is only
// turned down still acts (#603), and taking one off under open connections can
// hang (#558).
package toxiproxy

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/client"
)

// removalTime bounds the removal of a proxy that Open could not finish.
const removalTime = 5 * time.Second

// latencyToxic is the toxic that a Proxy carries, as Toxiproxy reports it.
func latencyToxic(latency time.Duration) toxiproxy.Toxic {
	return toxiproxy.Toxic{
		Name: "latency", Type: "latency", Stream: "downstream", Toxicity: 1,
		// JSON has no integers.
		Attributes: toxiproxy.Attributes{"latency": float64(latency.Milliseconds()), "jitter": 0.0},
	}
}

// Proxy is one proxy with its latency toxic.
type Proxy struct {
	api      string
	client   *toxiproxy.Client
	name     string
	upstream string
	latency  time.Duration

	// calls serialises the calls to Toxiproxy, whose client cannot be cancelled:
	// a removal comes after the creation that it should undo.
	calls sync.Mutex
	addr  string
}

// Open makes a proxy to upstream (host:port, as Toxiproxy sees it) on the
// Toxiproxy whose API is at apiURL. The proxy has a name of its own and a free
// port on loopback, so Toxiproxy must run on this machine. Toxiproxy counts in
// milliseconds: a fraction of one is rounded up; see Latency.
//
// guard is called before the proxy is made, with the arguments with which the
// lab's own binary removes it (see RunRemove), so that a lab that is killed at
// any moment leaves none; its error is that of Open.
//
// If Open fails, or ctx ends first, it leaves no proxy behind, or says which.
// Every error is one line.
func Open(ctx context.Context, apiURL, upstream string, latency time.Duration, guard func(removal []string) error) (*Proxy, error) {
	api, err := parseAPI(apiURL)
	if err != nil {
		return nil, err
	}
	if _, _, err := net.SplitHostPort(upstream); err != nil {
		return nil, fmt.Errorf("toxiproxy: upstream %q is not host:port", upstream)
	}
	if latency < 0 {
		return nil, fmt.Errorf("toxiproxy: latency %v is negative", latency)
	}
	if err := checkAPI(ctx, api); err != nil {
		return nil, err
	}
	p := &Proxy{
		api:      api,
		client:   toxiproxy.NewClient(api),
		name:     fmt.Sprintf("chokepoint-%d-%s", os.Getpid(), rand.Text()),
		upstream: upstream,
		latency:  roundUp(latency),
	}
	if err := guard([]string{RemoveArg, p.api, p.name}); err != nil {
		return nil, err
	}
	err = within(ctx, p.create)
	if err == nil {
		err = p.checkReachable(ctx)
	}
	if err != nil {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTime)
		defer cancel()
		if closeErr := p.Close(cleaning); closeErr != nil {
			return nil, fmt.Errorf("toxiproxy: proxy at %s: %w; then %w", api, err, closeErr)
		}
		return nil, fmt.Errorf("toxiproxy: proxy at %s: %w", api, err)
	}
	return p, nil
}

// Addr is where the proxy listens, host:port.
func (p *Proxy) Addr() string { return p.addr }

// Latency is what the toxic adds: the latency asked for in whole milliseconds.
func (p *Proxy) Latency() time.Duration { return p.latency }

// RemoveArg is the hidden first argument with which the lab's own binary removes
// a proxy; see RunRemove.
const RemoveArg = "__remove-proxy"

// RunRemove removes the proxy of a lab that was killed, if it was ever made: args
// are what Open gives its guard, without RemoveArg. It returns the exit code, 0
// or, with one line on stderr, 1 or 2.
func RunRemove(args []string, stderr io.Writer) int {
	if len(args) != 2 {
		fmt.Fprintf(stderr, "%s: %d arguments, want 2: API URL and name\n", RemoveArg, len(args))
		return 2
	}
	p := &Proxy{api: args[0], client: toxiproxy.NewClient(args[0]), name: args[1]}
	ctx, cancel := context.WithTimeout(context.Background(), removalTime)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// Close removes the proxy, which closes the connections through it, and makes
// sure that it is gone. Closing it again, or after Toxiproxy was restarted, is
// no error.
func (p *Proxy) Close(ctx context.Context) error {
	if err := within(ctx, p.remove); err != nil {
		return fmt.Errorf("toxiproxy: proxy %s may be left at %s: %w; remove it with: curl -X DELETE %s/proxies/%s", p.name, p.api, err, p.api, p.name)
	}
	return nil
}

// create makes the proxy and its toxic and reads both back.
func (p *Proxy) create() error {
	p.calls.Lock()
	defer p.calls.Unlock()
	made, err := p.client.CreateProxy(p.name, "127.0.0.1:0", p.upstream)
	if err != nil {
		return err
	}
	want := latencyToxic(p.latency)
	if _, err := made.AddToxic(want.Name, want.Type, want.Stream, want.Toxicity, want.Attributes); err != nil {
		return err
	}
	got, err := p.client.Proxy(p.name)
	if err != nil {
		return err
	}
	if !got.Enabled || got.Upstream != p.upstream {
		return fmt.Errorf("asked for an enabled proxy to %s, found enabled=%v to %s", p.upstream, got.Enabled, got.Upstream)
	}
	if len(got.ActiveToxics) != 1 || fmt.Sprint(got.ActiveToxics[0]) != fmt.Sprint(want) {
		return fmt.Errorf("asked for the toxic %+v, found %+v", want, got.ActiveToxics)
	}
	p.addr = got.Listen
	return nil
}

// remove deletes the proxy, whether or not it was ever made, and reads back
// that it is gone.
func (p *Proxy) remove() error {
	p.calls.Lock()
	defer p.calls.Unlock()
	mine := p.client.NewProxy()
	mine.Name = p.name
	deleteErr := mine.Delete()
	left, err := p.client.Proxies()
	if err != nil {
		return err
	}
	if _, still := left[p.name]; still {
		return fmt.Errorf("it is still listed after its removal: %w", deleteErr)
	}
	return nil
}

// checkReachable connects once, since a Toxiproxy in a container has a loopback
// of its own.
func (p *Proxy) checkReachable(ctx context.Context) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return fmt.Errorf("%w; run Toxiproxy on this machine, or in a container with the host's network", err)
	}
	return c.Close()
}

// checkAPI asks for Toxiproxy's version, which is the one call that ends with
// ctx wherever the URL leads.
func checkAPI(ctx context.Context, api string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, api+"/version", nil)
	if err != nil {
		return fmt.Errorf("toxiproxy: API URL %q: %w", api, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("toxiproxy: no API at %s: %w; start toxiproxy-server, or give the URL of the one that runs", api, unwrapURL(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("toxiproxy: %s/version answers %s; give the URL of a Toxiproxy API, such as http://127.0.0.1:8474", api, resp.Status)
	}
	return nil
}

// unwrapURL drops the method and URL that net/http puts before an error.
func unwrapURL(err error) error {
	if e, ok := err.(*url.Error); ok {
		return e.Err
	}
	return err
}

// parseAPI reads "http://host:port", or "host:port" as Toxiproxy's own client
// does, and returns it without a slash at the end.
func parseAPI(s string) (string, error) {
	full := s
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("toxiproxy: API URL %q: write it as http://127.0.0.1:8474", s)
	}
	return strings.TrimRight(full, "/"), nil
}

// roundUp rounds d up to whole milliseconds.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// within runs f, which takes no context, and waits for it until ctx ends; f
// then goes on alone, for as long as Toxiproxy takes (it gives up after 25 s).
func within(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
