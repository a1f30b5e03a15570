package pgserver

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// repository is a Maven repository with one archive: scripts that run the
// PostgreSQL of this machine. The checksum is what sum makes of the right one;
// empty means that there is none.
func repository(t *testing.T, sum func(string) string) (url string, requests *atomic.Int64) {
	t.Helper()
	programs, err := os.ReadFile(filepath.Join("testdata", "scripts.txz"))
	if err != nil {
		t.Fatal(err)
	}
	var jar bytes.Buffer
	z := zip.NewWriter(&jar)
	w, err := z.Create("postgres-linux-x86_64.txz")
	if err == nil {
		_, err = w.Write(programs)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(jar.Bytes())
	checksum := sum(hex.EncodeToString(digest[:]))

	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		switch {
		case strings.HasSuffix(r.URL.Path, downloadVersion+".jar"):
			_, _ = w.Write(jar.Bytes())
		case strings.HasSuffix(r.URL.Path, ".jar.sha256") && checksum != "":
			fmt.Fprint(w, checksum)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func TestDownloadIsUsedAndCached(t *testing.T) {
	url, requests := repository(t, func(right string) string { return right })
	parent, cache := tempParent(t), tempParent(t)
	for range 2 {
		s := open(t, Config{Launcher: launcher(t), TempParent: parent, BinDirs: []string{}, RepositoryURL: url, CacheDir: cache})
		selectOne(t, s.URL())
		if want := "embedded " + downloadVersion; s.Source() != want {
			t.Errorf("source %q, want %q", s.Source(), want)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := requests.Load(); got != 2 {
		t.Errorf("%d requests, want 2: the archive and its checksum, once", got)
	}
	nothingLeft(t, parent)
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 1 || !strings.HasPrefix(entries[0].Name(), "postgresql-"+downloadVersion) {
		t.Errorf("cache: %v, %v; want one version and nothing else", entries, err)
	}
}

// What is prepared serves where there is no network, as in a sandbox.
func TestPrepare(t *testing.T) {
	url, requests := repository(t, func(right string) string { return right })
	parent, cache := tempParent(t), tempParent(t)
	cfg := Config{Launcher: launcher(t), TempParent: parent, BinDirs: []string{}, RepositoryURL: url, CacheDir: cache}
	sandboxed := cfg
	sandboxed.NoDownload = true
	_, err := Open(t.Context(), sandboxed)
	wantOneLine(t, err, "the download is not allowed, and the cache has none")
	for range 2 {
		if err := Prepare(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, sandboxed)
	selectOne(t, s.URL())
	if got := requests.Load(); got != 2 {
		t.Errorf("%d requests, want 2: the archive and its checksum, once", got)
	}
}

func TestPrepareWhereNothingCanBeHad(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	cache := tempParent(t)
	cfg := Config{Launcher: launcher(t), BinDirs: []string{}, RepositoryURL: server.URL, CacheDir: cache}
	wantOneLine(t, Prepare(t.Context(), cfg), "no postgres and initdb found", "404", "apt-get install postgresql")
	nothingLeft(t, cache)
	// A machine that has programs needs no repository.
	cfg.BinDirs = []string{"/usr/lib/postgresql/15/bin"}
	if err := Prepare(t.Context(), cfg); err != nil {
		t.Error(err)
	}
}

func TestDownloadThatCannotBeTrusted(t *testing.T) {
	for _, c := range []struct {
		name string
		sum  func(string) string
		want string
	}{
		{"wrong checksum", func(right string) string { return strings.Repeat("0", len(right)) }, "checksums do not match"},
		{"no checksum", func(string) string { return "" }, ".sha256: 404"},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, _ := repository(t, c.sum)
			cache := tempParent(t)
			_, err := Open(t.Context(), Config{Launcher: launcher(t), BinDirs: []string{}, RepositoryURL: url, CacheDir: cache})
			wantOneLine(t, err, c.want, "set DATABASE_URL")
			nothingLeft(t, cache)
		})
	}
}

func TestCancelledDownloadLeavesNothing(t *testing.T) {
	cause := errors.New("the user pressed Ctrl-C")
	ctx, cancel := context.WithCancelCause(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel(cause)
		<-r.Context().Done()
	}))
	defer server.Close()
	cache := tempParent(t)
	_, err := Open(ctx, Config{Launcher: launcher(t), BinDirs: []string{}, RepositoryURL: server.URL, CacheDir: cache})
	if !errors.Is(err, cause) {
		t.Errorf("%v, want the cause of the cancellation", err)
	}
	nothingLeft(t, cache)
}
