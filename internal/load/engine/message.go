package engine

import (
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strconv"

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

// template renders the requests of an endpoint. They differ in their id alone,
// which therefore comes last.
type template struct {
	bytes  []byte
	prefix int // length of what all have in common
}

// newTemplate renders what the requests of e have in common. The URL must be
// valid.
func newTemplate(e Endpoint, u *url.URL, c Config) template {
	var b []byte
	b = append(b, e.Method+" "+u.RequestURI()+" HTTP/1.1\r\n"...)
	header := func(name, value string) { b = append(b, name+": "+value+"\r\n"...) }
	header("Host", u.Host)
	header("User-Agent", userAgent)
	if u.User != nil {
		header("Authorization", authorization(u.User))
	}
	switch e.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		// A body is expected of these: RFC 9110, section 8.6.
		header("Content-Length", "0")
	}
	if c.Connections.DisableKeepAlive {
		header("Connection", "close")
	}
	header(adminapi.HeaderPhase, c.Phase)
	b = append(b, adminapi.HeaderID+": "+e.Name+"-"...)
	return template{bytes: b, prefix: len(b)}
}

// render is the request with that index, valid until the next call.
func (t *template) render(index int) []byte {
	t.bytes = strconv.AppendInt(t.bytes[:t.prefix], int64(index), 10)
	t.bytes = append(t.bytes, "\r\n\r\n"...)
	return t.bytes
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
