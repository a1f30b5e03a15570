package engine

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/load/ledger"
)

// userAgent is sent with every request.
const userAgent = "chokepoint-loadgen"

// address is the host:port that u is served at.
func address(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// authorization is the header that carries the credentials of a URL.
func authorization(user *url.Userinfo) string {
	password, _ := user.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password))
}

// maxJoined is how much of a request is put into one buffer, so that it leaves
// with one write. What is left of a longer body is written from where it is.
const maxJoined = 16 << 10

// template is what the requests of an endpoint have in common. Rows aside they
// differ in their id alone.
type template struct {
	fields   string // header lines
	identity string // header lines of the phase, and of the id up to its number
	rows     []message
}

// message is what a row has of its own.
type message struct {
	line   string // the request line
	length string // the header line of the body's length, or empty
	body   []byte
}

// newTemplate prepares the requests of endpoint i of c to u.
func newTemplate(c Config, i int, u *url.URL) (*template, error) {
	e := c.Endpoints[i]
	t := &template{fields: e.fields(c, u), identity: identity(c.Phase, e.Name+"-")}
	rows := e.Rows
	if len(rows) == 0 {
		rows = []Row{{}}
	}
	t.rows = make([]message, len(rows))
	for i, row := range rows {
		to, err := row.target(u)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: row %d: %w", e.Name, i+1, err)
		}
		m := message{line: e.Method + " " + to.RequestURI() + " HTTP/1.1\r\n", body: row.Body}
		if len(m.body) == 0 {
			m.body = e.Body
		}
		if len(m.body) > 0 || expectsBody(e.Method) {
			m.length = fmt.Sprintf("Content-Length: %d\r\n", len(m.body))
		}
		t.rows[i] = m
	}
	return t, nil
}

// warmUp has the same requests for the warm-up of the endpoint. The "w" before its
// numbers keeps their ids apart from those of every endpoint's load, which end in
// a "-" and a number.
func (t *template) warmUp(endpoint string) *template {
	return &template{fields: t.fields, identity: identity(adminapi.PhaseWarmup, endpoint+"-w"), rows: t.rows}
}

func identity(phase, prefix string) string {
	return adminapi.HeaderPhase + ": " + phase + "\r\n" + adminapi.HeaderID + ": " + prefix
}

// expectsBody says that a request of the method without a body says so: RFC 9110,
// section 8.6.
func expectsBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// fields are the header lines that all requests of e to u have.
func (e Endpoint) fields(c Config, u *url.URL) string {
	var b strings.Builder
	line := func(name, value string) { b.WriteString(name + ": " + value + "\r\n") }
	byDefault := func(name, value string) {
		if !slices.ContainsFunc(e.Header, func(f Field) bool { return strings.EqualFold(f.Name, name) }) {
			line(name, value)
		}
	}
	byDefault("Host", u.Host)
	byDefault("User-Agent", userAgent)
	if u.User != nil {
		byDefault("Authorization", authorization(u.User))
	}
	for _, f := range e.Header {
		line(f.Name, f.Value)
	}
	if c.Connections.DisableKeepAlive {
		line("Connection", "close")
	}
	return b.String()
}

// render appends the request with that index to b, which is empty: its header and
// as much of its body as fits into maxJoined. The rest follows it. Rendering a
// request again gives the same bytes.
func (t *template) render(b []byte, index int) (text, rest []byte) {
	m := &t.rows[index%len(t.rows)]
	b = append(b, m.line...)
	b = append(b, t.fields...)
	b = append(b, m.length...)
	b = append(b, t.identity...)
	b = strconv.AppendInt(b, int64(index), 10)
	b = append(b, "\r\n\r\n"...)
	joined := min(len(m.body), max(0, maxJoined-len(b)))
	return append(b, m.body[:joined]...), m.body[joined:]
}

// answered is the outcome of a complete answer.
func answered(status int, body []byte) ledger.Answer {
	if status >= http.StatusBadRequest {
		return ledger.Answer{Outcome: ledger.HTTPError, Status: status, ErrorBody: errorField(body)}
	}
	return ledger.Answer{Outcome: ledger.OK, Status: status}
}

// errorField is the "error" field of a JSON error body, cut to a bounded length,
// or empty.
func errorField(body []byte) string {
	var e adminapi.Error
	if len(body) == 0 || len(body) > maxErrorBody || body[0] != '{' || json.Unmarshal(body, &e) != nil {
		return ""
	}
	return e.Error[:min(len(e.Error), maxErrorText)]
}
