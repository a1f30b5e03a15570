package rolling

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/lab/netlab"
)

// The outcomes of a request, in the client's eyes, beside the statuses.
const (
	answered200 = "200"
	bad502      = "502"
	gaveUp      = "timeout"
)

const body = "a body that can be sent again"

// caller sends requests from the client's host, each on a connection of its own.
type caller struct {
	method string
	client *http.Client
}

func newCaller(from *netlab.Host, method string) caller {
	return caller{method, &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, addr string) (net.Conn, error) { return from.Dial(ctx, addr) },
	}}}
}

// call is a request.
type call struct {
	id      string
	timeout time.Duration // of the client, for all of it
	work    time.Duration // of the server
}

// answer is what the client saw of a request.
type answer struct {
	id         string
	began      time.Time
	took       time.Duration
	outcome    string // a status, gaveUp, or how it failed
	server     string // which answered; empty if none did
	connection string // that the answer came on, by the server's number
}

// send sends a request and waits for its end.
func (c caller) send(ctx context.Context, what call) answer {
	a := answer{id: what.id, began: time.Now()}
	bounded, cancel := context.WithTimeout(ctx, what.timeout)
	defer cancel()
	status, header, err := c.exchange(bounded, what)
	a.took = time.Since(a.began)
	var timeout net.Error
	switch {
	case err == nil:
		a.outcome = strconv.Itoa(status)
		a.connection = header.Get(adminapi.HeaderConnection)
		a.server, _, _ = strings.Cut(a.connection, "-")
	case ctx.Err() != nil:
		a.outcome = "not sent to its end"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		a.outcome = gaveUp
	case errors.Is(err, syscall.ECONNREFUSED):
		a.outcome = "ECONNREFUSED"
	case errors.Is(err, syscall.ECONNRESET):
		a.outcome = "ECONNRESET"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		a.outcome = "EOF"
	default:
		a.outcome = err.Error()
	}
	return a
}

func (c caller) exchange(ctx context.Context, what call) (int, http.Header, error) {
	var content io.Reader
	if c.method == methodPOST {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, c.method, "http://"+addrOf(frontAddr, lbPort)+"/work", content)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set(adminapi.HeaderID, what.id)
	req.Header.Set(adminapi.HeaderPhase, string(adminapi.PhaseLoad))
	if what.work > 0 {
		req.Header.Set(adminapi.HeaderDelay, what.work.String())
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, resp.Header, nil
}
