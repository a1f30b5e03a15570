package gateway

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"chokepoint/internal/adminapi"
)

// http2Client speaks HTTP/2 by prior knowledge and sees the frames.
type http2Client struct {
	t *testing.T
	net.Conn
	*http2.Framer
	head    bytes.Buffer
	encoder *hpack.Encoder
}

func (w *world) dialHTTP2() *http2Client {
	w.t.Helper()
	conn := w.dial().Conn
	c := &http2Client{t: w.t, Conn: conn, Framer: http2.NewFramer(conn, conn)}
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.encoder = hpack.NewEncoder(&c.head)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		w.t.Fatal(err)
	}
	if err := c.WriteSettings(); err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (c *http2Client) send(stream uint32, path, id string) {
	c.t.Helper()
	c.head.Reset()
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "gw"}, {":path", path}, {"x-chokepoint-id", id}} {
		c.encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.head.Bytes(), EndHeaders: true, EndStream: true}); err != nil {
		c.t.Fatal(err)
	}
}

// seen is what came until the end of a stream, or of the connection.
type seen struct {
	goAway bool
	status string
	conn   string
}

// until reads frames to the end of a stream; stream 0 is the end of the connection.
func (c *http2Client) until(stream uint32) (s seen) {
	c.t.Helper()
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			if stream != 0 {
				c.t.Fatalf("stream %d has not ended: %v", stream, err)
			}
			return s
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.WriteSettingsAck()
			}
		case *http2.GoAwayFrame:
			s.goAway = true
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				switch h.Name {
				case ":status":
					s.status = h.Value
				case "x-chokepoint-connection":
					s.conn = h.Value
				}
			}
			if f.StreamEnded() && f.StreamID == stream {
				return s
			}
		case *http2.DataFrame:
			if f.StreamEnded() && f.StreamID == stream {
				return s
			}
		}
	}
}

// TestADrainSendsGoAway, to who rests and to who waits, and the answer still comes.
func TestADrainSendsGoAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	idle, busy := w.dialHTTP2(), w.dialHTTP2()
	idle.send(1, "/", "idle")
	if s := idle.until(1); s.status != "200" || s.goAway || s.conn != "gw-1" {
		t.Errorf("before the drain: %+v", s)
	}
	busy.send(1, "/held", "busy")
	<-w.arrived
	w.end()
	w.state(adminapi.GatewayDraining)
	if s := idle.until(0); !s.goAway {
		t.Error("the idle connection ended without a GOAWAY")
	}
	w.let()
	if s := busy.until(1); s.status != "200" || !s.goAway {
		t.Errorf("in flight: %+v, want 200 and a GOAWAY", s)
	}
	busy.Close()
	if err := w.waited(); err != nil {
		t.Error(err)
	}
	for _, r := range w.requests() {
		if r.Protocol != "HTTP/2.0" || r.End != adminapi.EndAnswered {
			t.Errorf("the log has %+v", r)
		}
	}
}

// TestExitOnZeroAnnouncesByGoAway with the next answer, and not before it.
func TestExitOnZeroAnnouncesByGoAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.ExitOnZero = true })
	c := w.dialHTTP2()
	c.send(1, "/", "a")
	c.until(1)
	w.end()
	w.state(adminapi.GatewayDraining)
	c.send(3, "/held", "b")
	<-w.arrived
	// A ping is answered in order: a GOAWAY sent before would have come first.
	if err := c.WritePing(false, [8]byte{1}); err != nil {
		t.Fatal(err)
	}
	for answered := false; !answered; {
		frame, err := c.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch frame.(type) {
		case *http2.GoAwayFrame:
			t.Error("a GOAWAY before any answer")
		case *http2.PingFrame:
			answered = true
		}
	}
	w.let()
	s := c.until(3)
	// It comes with the answer or right after it; then the gateway closes.
	c.SetReadDeadline(time.Now().Add(patience))
	if s.status != "200" || !s.goAway && !c.until(0).goAway {
		t.Errorf("while draining: %+v, want 200 and a GOAWAY", s)
	}
	if err := w.waited(); err != nil {
		t.Error(err)
	}
	if r := w.requests()[1]; !r.Announced {
		t.Errorf("the log has %+v", r)
	}
}
