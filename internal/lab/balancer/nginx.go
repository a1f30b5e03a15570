package balancer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// temporarySuffix is that of the folder that a balancer needs while it runs.
const temporarySuffix = "-temp"

// nginxFrame is the configuration around the caller's text. Its paths are relative to
// the folder (-p), so that no name needs quotes. nginx makes the temporary folders of
// all its modules when it starts, those that are not used too. Its workers give up
// root for an account that may not enter the folder, so they keep it; in a user
// namespace there is no root to give up. A request takes two connections, so that
// 8,000 may be in flight, which no scenario has.
func nginxFrame(name, global string, root bool) string {
	user := ""
	if root {
		user = "user root;\n"
	}
	temporary := ""
	for _, of := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += fmt.Sprintf("    %s_temp_path %s%s/%s;\n", of, name, temporarySuffix, of)
	}
	return fmt.Sprintf(`daemon off;
%spid %s.pid;
error_log stderr info;
worker_processes 1;
%s
events { worker_connections 16384; }
http {
%s    log_format lab escape=json '%s';
    access_log %s-access.log lab;
    include %s%s;
}
`, user, name, global, temporary, nginxLogFormat, name, name, bodySuffix)
}

// nginxLogFormat is a line of NAME-access.log: JSON, of which all values are strings,
// as nginx has them.
const nginxLogFormat = `{"msec":"$msec","id":"$http_x_chokepoint_id","connection":"$connection","requests":"$connection_requests",` +
	`"client":"$remote_addr:$remote_port","request":"$request","status":"$status","seconds":"$request_time",` +
	`"upstream_addr":"$upstream_addr","upstream_status":"$upstream_status","upstream_connect":"$upstream_connect_time","upstream_seconds":"$upstream_response_time"}`

// Access is a line of nginx's access log: one request, written when it has ended.
type Access struct {
	End        time.Time     // when it had ended, in milliseconds
	ID         string        // that of adminapi.HeaderID
	Connection string        // nginx's number of the client's connection
	Nth        int           // which request of that connection it is, from 1
	Client     string        // the client's address and port
	Request    string        // its first line
	Status     int           // what the client got; 499 where the client had gone
	Took       time.Duration // from its first byte
	// Tries are the servers that it was sent to, in their order.
	Tries []Try
	// Line is as nginx wrote it.
	Line string
}

// Try is one server that nginx sent a request to.
type Try struct {
	Addr string // address and port
	// Status is the server's, or 502 and 504 where nginx had none of it; 0 where it had
	// none when the client had gone.
	Status int
	// Connect is how long connecting took: 0 on a kept connection. -1 where it did not
	// come about.
	Connect time.Duration
	// Took is until the last byte of the answer, or until nginx gave up. -1 where nginx does not say.
	Took time.Duration
}

// AccessLog are nginx's requests that have ended so far, in the order of their ends. A
// line that is being written is left out.
func (r *Balancer) AccessLog() ([]Access, error) { return readAccess(r.options.path("-access.log")) }

func readAccess(path string) ([]Access, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Access
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		a, err := parseAccess(strings.TrimSpace(string(line)))
		if err != nil {
			return nil, fmt.Errorf("nginx's access log: %w", err)
		}
		all = append(all, a)
	}
	return all, nil
}

func parseAccess(line string) (Access, error) {
	var raw struct {
		Msec, ID, Connection, Requests, Client, Request, Status, Seconds string
		Addr                                                             string `json:"upstream_addr"`
		UpstreamStatus                                                   string `json:"upstream_status"`
		Connect                                                          string `json:"upstream_connect"`
		Took                                                             string `json:"upstream_seconds"`
	}
	if err := json.Unmarshal([]byte(line), &raw); err != nil {
		return Access{}, fmt.Errorf("%q: %w", line, err)
	}
	ms, err := strconv.ParseInt(strings.Replace(raw.Msec, ".", "", 1), 10, 64)
	if err != nil {
		return Access{}, fmt.Errorf("%q: msec: %w", line, err)
	}
	a := Access{
		End: time.UnixMilli(ms), ID: raw.ID, Connection: raw.Connection, Client: raw.Client, Request: raw.Request,
		Took: seconds(raw.Seconds), Line: line,
	}
	if a.Status, err = strconv.Atoi(raw.Status); err != nil {
		return Access{}, fmt.Errorf("%q: status: %w", line, err)
	}
	if a.Nth, err = strconv.Atoi(raw.Requests); err != nil {
		return Access{}, fmt.Errorf("%q: requests: %w", line, err)
	}
	statuses, connects, tooks := tries(raw.UpstreamStatus), tries(raw.Connect), tries(raw.Took)
	for i, addr := range tries(raw.Addr) {
		status, _ := strconv.Atoi(at(statuses, i)) // "-" where there is none
		a.Tries = append(a.Tries, Try{addr, status, seconds(at(connects, i)), seconds(at(tooks, i))})
	}
	return a, nil
}

// tries splits what nginx logs of several servers: a comma for the next server, a
// colon where an internal redirect begins a new list.
func tries(logged string) []string {
	if logged == "" {
		return nil
	}
	return strings.Split(strings.ReplaceAll(logged, " : ", ", "), ", ")
}

func at(values []string, i int) string {
	if i < len(values) {
		return values[i]
	}
	return ""
}

// seconds is a time as nginx logs it, such as 0.004; -1 where it has none.
func seconds(text string) time.Duration {
	s, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return -1
	}
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

// shuttingDown is what an nginx worker says when a reload has replaced it, at the
// level of notice.
const shuttingDown = "gracefully shutting down"

// Reload gives nginx another configuration (SIGHUP), and returns when the new worker
// serves and the old one takes no more connections; its requests go on. The error is a
// *Rejected where nginx does not take it: the old one stays. HAProxy, which runs
// without a master here, has Command for what changes of its servers.
func (r *Balancer) Reload(ctx context.Context, config Config) error {
	if r.Binary.Kind != Nginx {
		return fmt.Errorf("%s: only nginx is reloaded", r.options.Name)
	}
	before, err := r.complaints()
	if err != nil {
		return err
	}
	r.options.Config = config
	if err := r.Binary.write(r.options); err != nil {
		return fmt.Errorf("%s: %w", r.options.Name, err)
	}
	if err := r.Child.Signal(syscall.SIGHUP); err != nil {
		return fmt.Errorf("%s: reload: %w", r.options.Name, err)
	}
	return r.await(ctx, "has reloaded", func() (bool, error) {
		now, err := r.complaints()
		if err != nil {
			return false, err
		}
		if len(now.refused) > len(before.refused) {
			return false, &Rejected{Nginx, firstComplaint(now.refused[len(before.refused):], r.options.Folder)}
		}
		return now.replaced > before.replaced, nil
	})
}

// said is what nginx's log has about reloads.
type said struct {
	replaced int // workers
	refused  []string
}

func (r *Balancer) complaints() (said, error) {
	var s said
	lines, err := r.Log()
	for _, line := range lines {
		if strings.Contains(line, shuttingDown) {
			s.replaced++
		}
		if strings.Contains(line, "[emerg]") {
			s.refused = append(s.refused, line)
		}
	}
	return s, err
}
