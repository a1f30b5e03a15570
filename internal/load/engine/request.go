package engine

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"chokepoint/internal/adminapi"
)

// maxRequestBody bounds the body of a request, in bytes.
const maxRequestBody = 1 << 30

// Field is a header field of a request, which is sent as it is written.
type Field struct{ Name, Value string }

// Row is what one request of an endpoint has of its own; an empty field is the
// endpoint's.
type Row struct {
	// URL is a reference that is resolved against the endpoint's URL, and stays
	// with its scheme, host and port.
	URL  string
	Body []byte
}

// refusedFields are the header fields that the generator answers for: a request
// that lied about its framing or its identity would be counted as what it is not.
var refusedFields = []struct{ name, remedy string }{
	{"Content-Length", "it is that of the body"},
	{"Transfer-Encoding", "a body is sent with its length"},
	{"Connection", "the keep-alive settings decide it"},
	{adminapi.HeaderPhase, "the phase of the plan is sent"},
	{adminapi.HeaderID, "every request has its own"},
}

func (f Field) validate() error {
	for _, refused := range refusedFields {
		if strings.EqualFold(f.Name, refused.name) {
			return fmt.Errorf("header %s cannot be given: %s; leave it out", refused.name, refused.remedy)
		}
	}
	switch {
	case !httpguts.ValidHeaderFieldName(f.Name):
		return fmt.Errorf("header name %q is not a token; write it as in Accept: text/html", f.Name)
	case !httpguts.ValidHeaderFieldValue(f.Value):
		// The value may be a secret.
		return fmt.Errorf("the value of header %s has a control character; leave it out", f.Name)
	case strings.EqualFold(f.Name, "Host") && f.Value == "":
		return fmt.Errorf("header Host is empty; give a host, or leave it out")
	}
	return nil
}

// headerNames are the names of the header fields that were asked for, each once, in
// their order. The values may be secrets.
func (e Endpoint) headerNames() []string {
	var names []string
	for _, f := range e.Header {
		if !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}

// validateRequests says what is wrong with what e sends to u.
func (e Endpoint) validateRequests(u *url.URL) error {
	hosts := 0
	for _, f := range e.Header {
		if err := f.validate(); err != nil {
			return err
		}
		if strings.EqualFold(f.Name, "Host") {
			hosts++
		}
	}
	if hosts > 1 {
		return fmt.Errorf("header Host is given %d times; give one", hosts)
	}
	if len(e.Body) > maxRequestBody {
		return fmt.Errorf("a body of %d bytes is larger than %d; give a smaller one", len(e.Body), maxRequestBody)
	}
	for i, row := range e.Rows {
		if _, err := row.target(u); err != nil {
			return fmt.Errorf("row %d: %w", i+1, err)
		}
		if len(row.Body) > maxRequestBody {
			return fmt.Errorf("row %d: a body of %d bytes is larger than %d; give a smaller one", i+1, len(row.Body), maxRequestBody)
		}
	}
	return nil
}

// target is where the request of the row goes; u is the endpoint's URL.
func (r Row) target(u *url.URL) (*url.URL, error) {
	if r.URL == "" {
		return u, nil
	}
	reference, err := url.Parse(r.URL)
	if err != nil {
		return nil, fmt.Errorf("URL %q: %w", Redacted(r.URL), urlSyntax(err))
	}
	resolved := u.ResolveReference(reference)
	switch {
	case strings.ContainsAny(r.URL, " \r\n"):
		return nil, fmt.Errorf("URL %q contains a space or a line break; write %%20", Redacted(r.URL))
	case reference.User != nil:
		return nil, fmt.Errorf("URL %q has credentials; put them into the endpoint's URL", reference.Redacted())
	case resolved.Scheme != u.Scheme || !strings.EqualFold(address(resolved), address(u)):
		return nil, fmt.Errorf("URL %q leaves %s://%s; give it an endpoint of its own", Redacted(r.URL), u.Scheme, u.Host)
	}
	return resolved, nil
}
