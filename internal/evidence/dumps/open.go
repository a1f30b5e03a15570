package dumps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Options says how a source is opened.
type Options struct {
	Stdin io.Reader
	// Timeout bounds a URL from the request to the last byte.
	Timeout time.Duration
	// MaxBytes bounds the answer of a URL, before it is decompressed here.
	MaxBytes int64
	// Header is sent to a URL beside what HTTP needs, such as an Authorization.
	Header http.Header
}

// Source is an open dump.
type Source struct {
	Name string // what it is called in a report: a URL is without its secrets
	io.ReadCloser
}

// URLError is of a source that is written as a URL and is none that can be asked for:
// nothing was tried.
type URLError struct{ text string }

func (e *URLError) Error() string { return e.text }

// Open opens a dump: "-" is Options.Stdin, what begins with http:// or https:// a
// URL, and anything else a file or a pipe. A read that waits ends with ctx. An error
// is a *URLError, or that of what was tried.
func Open(ctx context.Context, source string, o Options) (Source, error) {
	switch {
	case source == "-":
		return Source{"stdin", interruptible(ctx, func() (io.ReadCloser, error) { return io.NopCloser(o.Stdin), nil })}, nil
	}
	// A scheme has no letter case: https://www.rfc-editor.org/rfc/rfc3986#section-3.1
	switch scheme, _, isURL := strings.Cut(source, "://"); {
	case !isURL:
	case strings.EqualFold(scheme, "http"), strings.EqualFold(scheme, "https"):
		return fetch(ctx, source, o)
	case !strings.Contains(scheme, "/"): // nor is what follows shown, which may be secret
		return Source{}, &URLError{fmt.Sprintf("a URL of scheme %.40q; want http:// or https://", scheme)}
	}
	info, err := os.Stat(source)
	if err != nil {
		return Source{}, err
	}
	open := func() (io.ReadCloser, error) { return os.Open(source) }
	switch mode := info.Mode(); {
	case mode.IsRegular():
		f, err := open()
		return Source{source, f}, err
	case mode.IsDir():
		return Source{}, fmt.Errorf("%s is a folder; name the dumps in it, such as %s", source, strings.TrimSuffix(source, "/")+"/*.txt")
	case mode&os.ModeNamedPipe != 0:
		return Source{source, interruptible(ctx, open)}, nil // which waits for the writer
	}
	return Source{}, fmt.Errorf("%s is neither a file nor a pipe", source)
}

// interruptible ends with ctx where open, or a read of what it opens, may wait for
// ever. The goroutine that waits is left to it.
func interruptible(ctx context.Context, open func() (io.ReadCloser, error)) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		r, err := open()
		if err == nil {
			_, err = io.Copy(writer, r)
			r.Close()
		}
		writer.CloseWithError(err) // nil is io.EOF
	}()
	stop := context.AfterFunc(ctx, func() { writer.CloseWithError(context.Cause(ctx)) })
	return &closing{reader, func() { stop(); reader.Close() }}
}

// closing is a reader with what ends it.
type closing struct {
	io.Reader
	end func()
}

func (c *closing) Close() error { c.end(); return nil }

// fetch gets a URL with a plain GET.
func fetch(ctx context.Context, source string, o Options) (Source, error) {
	u, err := url.Parse(source)
	if err != nil || u.Host == "" {
		return Source{}, &URLError{"a URL that cannot be read; want one such as http://127.0.0.1:6060/debug/pprof/goroutine?debug=2"}
	}
	name := Shown(u)
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("no whole answer within %v", o.Timeout))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
	if err != nil {
		cancel()
		return Source{}, &URLError{name + ": not a URL that can be asked for"}
	}
	maps.Copy(request.Header, o.Header)
	// One request needs no connection afterwards.
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		cause := context.Cause(ctx)
		cancel()
		// The message of a url.Error has the whole URL.
		if inner := (*url.Error)(nil); errors.As(err, &inner) {
			err = inner.Err
		}
		if cause != nil {
			err = cause
		}
		return Source{}, fmt.Errorf("%s: %w", name, err)
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		cancel()
		return Source{}, fmt.Errorf("%s: %s; a dump is at /debug/pprof/goroutine?debug=2 in Go and at /actuator/threaddump in Spring Boot", name, response.Status)
	}
	body := &answer{ctx: ctx, r: response.Body, left: o.MaxBytes, most: o.MaxBytes}
	return Source{name, &closing{body, func() { response.Body.Close(); cancel() }}}, nil
}

// answer is a body of at most some bytes; its error says why it ended.
type answer struct {
	ctx        context.Context
	r          io.Reader
	left, most int64
}

func (a *answer) Read(p []byte) (int, error) {
	if int64(len(p))-1 > a.left { // a.left+1 may be more than there is
		p = p[:a.left+1]
	}
	n, err := a.r.Read(p)
	a.left -= int64(n)
	switch {
	case a.left < 0:
		return n - 1, fmt.Errorf("the answer has more than %d bytes; -max-bytes allows more", a.most)
	case err != nil && err != io.EOF && context.Cause(a.ctx) != nil:
		return n, context.Cause(a.ctx)
	}
	return n, err
}

// Shown is a URL without what may be secret: no user, and of the query only the
// parameters of pprof.
func Shown(u *url.URL) string {
	visible := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	query := url.Values{}
	for _, name := range []string{"debug", "gc", "seconds"} {
		if v := u.Query().Get(name); v != "" {
			query.Set(name, v)
		}
	}
	visible.RawQuery = query.Encode()
	return visible.String()
}
