package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/evidence/goroutines"
	"chokepoint/internal/result"
)

// observer asks the servers how they are, over their admin listeners and, for
// probes, over the public one.
type observer struct {
	client *http.Client
}

const (
	// askTimeout bounds a question to an admin listener, which never waits for
	// the pool; a full dump of 100,000 goroutines takes some seconds.
	askTimeout = 10 * time.Second
	// hurriedAskTimeout bounds what is still asked when the run has been stopped.
	hurriedAskTimeout = 3 * time.Second
	maxAnswer         = 512 << 20
)

func newObserver() *observer {
	return &observer{client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 4, DisableCompression: true},
	}}
}

func (o *observer) close() { o.client.CloseIdleConnections() }

// get fetches a URL whole.
func (o *observer) get(ctx context.Context, url string, header http.Header) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return o.fetch(ctx, url, header)
}

func (o *observer) fetch(ctx context.Context, url string, header http.Header) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return body, resp.Header, err
}

// post tells an admin listener to do something.
func (o *observer) post(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return nil
}

// putJSON gives an admin listener a new state.
func (o *observer) putJSON(ctx context.Context, url string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := o.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return nil
}

func (o *observer) getJSON(ctx context.Context, url string, v any) error {
	body, _, err := o.get(ctx, url, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}

// phaseHeader marks a probe, so that it is told from the load.
func phaseHeader(phase string) http.Header {
	h := http.Header{}
	h.Set(adminapi.HeaderPhase, phase)
	return h
}

// probe sends one request to a public address and returns how long it took. A
// probe uses a connection of its own: what it meets must not depend on an
// earlier one.
func (o *observer) probe(ctx context.Context, url, phase string) (time.Duration, error) {
	header := phaseHeader(phase)
	header.Set("Connection", "close")
	start := time.Now()
	_, _, err := o.fetch(ctx, url, header)
	return time.Since(start), err
}

// dump takes a full dump and, right after it, the goroutine profile that hardly
// pauses. Both files go to dir; the returned window is when the full dump was
// under way.
func (o *observer) dump(ctx context.Context, admin, dir string, number int, point string) (result.Dump, [2]time.Time, error) {
	name := fmt.Sprintf("%02d-%s", number, point)
	start := time.Now()
	text, header, err := o.get(ctx, admin+adminapi.PathGoroutines, nil)
	window := [2]time.Time{start, time.Now()}
	if err != nil {
		return result.Dump{}, window, fmt.Errorf("dump %s: %w", point, err)
	}
	pause, err := strconv.ParseInt(header.Get(adminapi.HeaderPauseNS), 10, 64)
	if err != nil {
		return result.Dump{}, window, fmt.Errorf("dump %s: the victim did not say how long it paused", point)
	}
	profileStart := time.Now()
	profile, _, err := o.get(ctx, admin+"/debug/pprof/goroutine?debug=0", nil)
	if err != nil {
		return result.Dump{}, window, fmt.Errorf("goroutine profile %s: %w", point, err)
	}
	profileTook := time.Since(profileStart)

	d, err := goroutines.Summarize(bytes.NewReader(text))
	if err != nil {
		return result.Dump{}, window, fmt.Errorf("dump %s: %w", point, err)
	}
	d.Point = point
	d.PauseMS = float64(pause) / 1e6
	d.File = filepath.ToSlash(filepath.Join(result.DumpsDir, name+".txt"))
	d.ProfileFile = filepath.ToSlash(filepath.Join(result.DumpsDir, name+".pb.gz"))
	d.ProfileMS = profileTook.Seconds() * 1000
	if err := result.WriteFile(filepath.Join(dir, filepath.FromSlash(d.File)), text); err != nil {
		return result.Dump{}, window, err
	}
	return d, window, result.WriteFile(filepath.Join(dir, filepath.FromSlash(d.ProfileFile)), profile)
}

// metrics saves a server's Prometheus metrics.
func (o *observer) metrics(ctx context.Context, admin, dir, name string) error {
	text, _, err := o.get(ctx, admin+"/metrics", nil)
	if err != nil {
		return fmt.Errorf("metrics %s: %w", name, err)
	}
	return result.WriteFile(filepath.Join(dir, result.MetricsDir, name+".prom"), text)
}
