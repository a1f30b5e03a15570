package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// HealthcheckUsage describes the -healthcheck flag of the servers.
	HealthcheckUsage = "GET this `URL`, exit 0 if it answers 200 and 1 if not, and do nothing else: for images without a shell"
	// healthcheckWait bounds a check.
	healthcheckWait = 2 * time.Second
	// healthcheckBody is how much of a refusal is shown, in bytes.
	healthcheckBody = 512
)

// Healthcheck returns nil if url answers 200 within two seconds. A server's own
// program checks it where the image has no other: an image FROM scratch has
// neither a shell nor curl.
func Healthcheck(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthcheckWait)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("-healthcheck %q: %w", url, err)
	}
	// A transport of its own: no proxy of the environment, and nothing kept open.
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("-healthcheck %s: %w", url, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, healthcheckBody))
		return fmt.Errorf("-healthcheck %s: %s: %s", url, response.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
