package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/cli"
)

func TestGatewayUsage(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", "-to is missing"},
		{"-to=127.0.0.1:80", `-to "127.0.0.1:80": want http://host:port`},
		{"-to=https://a", `-to "https://a": want http://host:port`},
		{"-to=http://a,", `-to "": want http://host:port`},
		{"-to=http://a:99999", `-to "http://a:99999": port 99999: want 1 to 65535`},
		{"-to=http://a:0", `-to "http://a:0": port 0: want 1 to 65535`},
		{"-to=http://a extra", `unexpected argument "extra"`},
		{"-to=http://a -name=g/1", `-name "g/1": want up to 64`},
		{"-to=http://a -drain=-1s", "-drain -1s"},
		{"-to=http://a -drain=1s -exit-on-zero", "two ways to end"},
		{"-to=http://a -max-wait=1s", "go with -exit-on-zero"},
		{"-to=http://a -announce=false", "go with -exit-on-zero"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"gateway"}, strings.Fields(tt.args)...), &stdout, &stderr)
		if code != cli.ExitUsage || stdout.Len() > 0 || !strings.Contains(stderr.String(), tt.want) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%q: exit %d, stdout %q, stderr %q, want 2 and one line with %q", tt.args, code, &stdout, &stderr, tt.want)
		}
	}
}

// TestGatewayEnds: code 0 after a drain, 1 and one more line when it had to cut, and the
// port in use is named.
func TestGatewayEnds(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	defer app.Close()
	for _, tt := range []struct {
		name, flag string
		let        bool // the request go on once the gateway drains
		code       int
		answer     string
		stderr     string
	}{
		{"drained", "-drain=20s", true, cli.ExitOK, "HTTP/1.1 200 OK\r\n", "drained: no connection is left"},
		{"cut", "-drain=20ms", false, cli.ExitFailure, "", "lab: connections: 1 open after 20ms, requests in flight on them: 1, the oldest is gw-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			said, stdout := io.Pipe()
			var stderr bytes.Buffer
			code := make(chan int, 1)
			log := filepath.Join(t.TempDir(), "access.jsonl")
			go func() {
				code <- run(ctx, []string{"gateway", "-listen=127.0.0.1:0", "-admin=127.0.0.1:0", "-name=gw", "-to=" + app.URL, "-access-log=" + log, tt.flag}, stdout, &stderr)
			}()
			var at adminapi.Listening
			if err := json.NewDecoder(said).Decode(&at); err != nil || at.Program != "gateway" {
				t.Fatalf("said %+v, %v", at, err)
			}
			c, err := net.Dial("tcp", at.Public)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(20 * time.Second))
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: gw\r\n\r\n")
			<-arrived
			end()
			if tt.let {
				release <- struct{}{}
			} else {
				defer func() { release <- struct{}{} }()
			}
			line, _ := bufio.NewReader(c).ReadString('\n')
			if line != tt.answer {
				t.Errorf("received %q, want %q", line, tt.answer)
			}
			if got := <-code; got != tt.code || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("exit %d, stderr %s, want %d and %q", got, &stderr, tt.code, tt.stderr)
			}
			if data, err := os.ReadFile(log); err != nil || bytes.Count(data, []byte("\n")) != 3 {
				t.Errorf("the log has %s (%v), want a line each for accepted, request and closed", data, err)
			}
		})
	}
}

func TestGatewayWhosePortIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"gateway", "-to=http://127.0.0.1:1", "-listen=" + taken.Addr().String()}, &stdout, &stderr)
	if code != cli.ExitFailure || stdout.Len() > 0 || stderr.String() != "lab: -listen "+taken.Addr().String()+" is in use; stop what listens there, or choose another port (0 takes a free one)\n" {
		t.Errorf("exit %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
}
