package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"chokepoint/internal/result"
)

// Server serves a view on the loopback, and the folders of results that it has
// been told of, so that the page can end as the report.
type Server struct {
	view     *View
	listener net.Listener
	http     *http.Server
	page     []byte

	mu      sync.Mutex
	folders map[string]*os.Root // by name
	read    map[string]int      // how often a report was fetched, by its path
}

// CheckAddress refuses an address that others than this machine could reach.
func CheckAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback()) {
		_, err = net.ResolveTCPAddr("tcp", address)
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("%q: want a loopback address and a port, such as 127.0.0.1:8090; port 0 takes a free one", address)
}

// Listen serves view at address, which CheckAddress must have let pass.
func Listen(ctx context.Context, address string, view *View) (*Server, error) {
	if err := CheckAddress(address); err != nil {
		return nil, err
	}
	page, err := renderPage()
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		if opErr, ok := errors.AsType[*net.OpError](err); ok {
			err = opErr.Err
		}
		return nil, fmt.Errorf("cannot listen on %s: %w; free the port, or take port 0 for a free one", address, err)
	}
	s := &Server{view: view, listener: listener, page: page, folders: map[string]*os.Root{}, read: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.servePage)
	mux.HandleFunc("GET /events", view.serveEvents)
	// A browser asks for it beside a text, which cannot say that it has none.
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET "+resultsPath+"{folder}/{file...}", s.serveFile)
	s.http = &http.Server{
		Handler: onlyLocal(mux), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0), // what a browser does wrong is nothing to the run
	}
	go s.http.Serve(listener)
	return s, nil
}

const resultsPath = "/results/"

// URL is where the page is.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + "/" }

// onlyLocal refuses a request under another name than the loopback's: a page of
// the web whose name resolves to 127.0.0.1 must not read this one.
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if host != "localhost" && !net.ParseIP(strings.Trim(host, "[]")).IsLoopback() {
			http.Error(w, "this page is for the machine that it runs on", http.StatusForbidden)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r)
	})
}

func (s *Server) servePage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Write(s.page)
}

// serveFile serves a file of a folder that has been published.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	folder := s.folders[r.PathValue("folder")]
	s.mu.Unlock()
	if folder == nil {
		http.NotFound(w, r)
		return
	}
	name := r.PathValue("file")
	if strings.HasSuffix(name, ".md") || strings.HasSuffix(name, ".hlog") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.Header().Set("Cache-Control", "no-store")
	http.ServeFileFS(w, r, folder.FS(), name)
	// Counted once the system has all of it: Close may be waiting for this.
	http.NewResponseController(w).Flush()
	s.mu.Lock()
	s.read[r.URL.Path]++
	s.mu.Unlock()
}

// Publish makes the folder of a run or a comparison readable, and returns the path
// of its report on this server: the page, or else the text, or nothing.
func (s *Server) Publish(dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	name := filepath.Base(dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.folders[name]; old != nil {
		old.Close()
	}
	s.folders[name] = root
	for _, file := range []string{result.PageFile, result.ReportFile} {
		if info, err := fs.Stat(root.FS(), file); err == nil && info.Mode().IsRegular() {
			return resultsPath + name + "/" + file, nil
		}
	}
	return "", nil
}

// Close stops serving. Pages that watched the end first get the time to fetch the
// report, up to linger.
func (s *Server) Close(linger time.Duration) {
	s.awaitReaders(linger)
	s.http.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, root := range s.folders {
		root.Close()
	}
}

// awaitReaders waits until no page still watches and the report has been fetched
// as often as there were pages.
func (s *Server) awaitReaders(linger time.Duration) {
	s.view.mu.Lock()
	pages, end := len(s.view.viewers), s.view.state.End
	s.view.mu.Unlock()
	if pages == 0 || end == nil || end.Path == "" {
		return
	}
	patience := time.NewTimer(linger)
	defer patience.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		s.mu.Lock()
		read := s.read[end.Path]
		s.mu.Unlock()
		if read >= pages {
			return
		}
		select {
		case <-look.C:
		case <-patience.C:
			return
		}
	}
}

const lookEvery = 50 * time.Millisecond
