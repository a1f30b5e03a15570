package wire

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// outcome is everything that a caller can learn of an answer.
type outcome struct {
	Used     int // bytes of the stream
	Done     bool
	Err      error
	Status   int
	Reusable bool
	Body     string // of an error
}

// read feeds the stream in pieces that end at the cuts, and then ends it if the
// answer is not complete by then.
func read(r *Reader, head bool, stream string, cuts ...int) outcome {
	r.Reset(head)
	var o outcome
	from := 0
	for _, to := range append(cuts, len(stream)) {
		for from < to && !o.Done && o.Err == nil {
			var n int
			n, o.Done, o.Err = r.Feed([]byte(stream[from:to]))
			from += n
		}
	}
	o.Used = from
	if !o.Done && o.Err == nil {
		o.Err = r.End()
		o.Done = o.Err == nil
	}
	if o.Done {
		o.Status, o.Reusable, o.Body = r.Status(), r.Reusable(), string(r.ErrorBody())
	}
	return o
}

// sameErrors compares errors by identity: a Reader makes none of its own.
var sameErrors = cmp.Comparer(func(a, b error) bool { return a == b })

const rest = "HTTP/1.1 500 Not asked for\r\n\r\n"

func TestWholeAnswers(t *testing.T) {
	ok := func(status int, reusable bool) outcome {
		return outcome{Done: true, Status: status, Reusable: reusable}
	}
	for _, tt := range []struct {
		name, stream string
		head         bool
		untilClose   bool // the answer takes all that follows
		want         outcome
	}{
		{name: "content length", stream: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", want: ok(200, true)},
		{name: "empty body", stream: "HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", want: ok(200, true)},
		{name: "no reason", stream: "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", want: ok(200, true)},
		{name: "empty reason", stream: "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", want: ok(200, true)},
		{name: "lone line feeds", stream: "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", want: ok(200, true)},
		{name: "whitespace around a value", stream: "HTTP/1.1 200 OK\r\nContent-Length: \t 2 \t\r\n\r\nok", want: ok(200, true)},
		{name: "leading zeros", stream: "HTTP/1.1 200 OK\r\nContent-Length: 0002\r\n\r\nok", want: ok(200, true)},
		{name: "other headers", stream: "HTTP/1.1 200 OK\r\nServer: x\r\nX-Empty:\r\nX-Content-Length: 9\r\nContent-Length: 2\r\nX-Bytes: \xff\t\"\r\n\r\nok", want: ok(200, true)},
		{name: "name of a long header", stream: "HTTP/1.1 200 OK\r\nContent-Length-And-More: 9\r\nContent-Length: 0\r\n\r\n", want: ok(200, true)},
		{name: "close", stream: "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nok", want: ok(200, false)},
		{name: "close in a list", stream: "HTTP/1.1 200 OK\r\nConnection: x-y, close , a-very-long-connection-option\r\nContent-Length: 0\r\n\r\n", want: ok(200, false)},
		{name: "not quite close", stream: "HTTP/1.1 200 OK\r\nConnection: closed\r\nContent-Length: 0\r\n\r\n", want: ok(200, true)},
		{name: "1.0", stream: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", want: ok(200, false)},
		{name: "1.0 keep-alive", stream: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", want: ok(200, true)},
		{name: "until close", stream: "HTTP/1.1 200 OK\r\n\r\nok", untilClose: true, want: ok(200, false)},
		{name: "chunked", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0a\r\n0123456789\r\n0\r\n\r\n", want: ok(200, true)},
		{name: "chunk extensions", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;a=\"b\"\r\nok\r\n0 ; c\r\n\r\n", want: ok(200, true)},
		{name: "trailers", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\nContent-Length: x\r\nConnection: close\r\n\r\n", want: ok(200, true)},
		{name: "compressed chunks", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", want: ok(200, true)},
		{name: "compressed until close", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nxx", untilClose: true, want: ok(200, false)},
		{name: "head", stream: "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", head: true, want: ok(200, true)},
		{name: "head of chunks", stream: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", head: true, want: ok(200, true)},
		{name: "no content", stream: "HTTP/1.1 204 No Content\r\n\r\n", want: ok(204, true)},
		{name: "not modified", stream: "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", want: ok(304, true)},
		{name: "continue", stream: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", want: ok(200, true)},
		{name: "early hints", stream: "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nConnection: close\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", want: ok(200, true)},
		{name: "switching protocols", stream: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", want: ok(101, false)},
		{name: "an unknown status", stream: "HTTP/1.1 999 ?\r\nContent-Length: 0\r\n\r\n", want: ok(999, true)},
		{name: "error body", stream: "HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nabcde", want: outcome{Done: true, Status: 503, Reusable: true, Body: "abcde"}},
		{name: "error body in chunks", stream: "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n", want: outcome{Done: true, Status: 404, Reusable: true, Body: "abcde"}},
		{name: "error body until close", stream: "HTTP/1.1 500 No\r\n\r\nabcde", untilClose: true, want: outcome{Done: true, Status: 500, Body: "abcde"}},
		{name: "largest error body", stream: "HTTP/1.1 500 No\r\nContent-Length: 65536\r\n\r\n" + strings.Repeat("x", MaxErrorBody), want: outcome{Done: true, Status: 500, Reusable: true, Body: strings.Repeat("x", MaxErrorBody)}},
		{name: "larger error body", stream: "HTTP/1.1 500 No\r\nContent-Length: 65537\r\n\r\n" + strings.Repeat("x", MaxErrorBody+1), want: outcome{Done: true, Status: 500, Reusable: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r Reader
			tt.want.Used = len(tt.stream)
			stream := tt.stream
			if !tt.untilClose {
				stream += rest // must be left alone
			}
			if diff := cmp.Diff(tt.want, read(&r, tt.head, stream), sameErrors); diff != "" {
				t.Errorf("in one piece:\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, read(&r, tt.head, stream, everywhere(min(len(stream), 1000))...), sameErrors); diff != "" {
				t.Errorf("byte by byte:\n%s", diff)
			}
			for cut := range min(len(tt.stream), 1000) {
				if diff := cmp.Diff(tt.want, read(&r, tt.head, stream, cut), sameErrors); diff != "" {
					t.Errorf("cut at %d:\n%s", cut, diff)
				}
				if tt.untilClose {
					continue
				}
				if got := read(&r, tt.head, tt.stream[:cut]); got.Err != io.ErrUnexpectedEOF {
					t.Errorf("truncated to %d bytes: %+v", cut, got)
				}
			}
		})
	}
}

// everywhere is a cut after every byte.
func everywhere(n int) []int {
	cuts := make([]int, n)
	for i := range cuts {
		cuts[i] = i
	}
	return cuts
}

func TestRefused(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	const chunked = head + "Transfer-Encoding: chunked\r\n\r\n"
	for _, tt := range []struct {
		name, stream string
		want         error
	}{
		{"another protocol", "SSH-2.0-OpenSSH_9.9\r\n\r\n", ErrMalformed},
		{"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", ErrMalformed},
		{"version without a digit", "HTTP/1.x 200 OK\r\n\r\n", ErrMalformed},
		{"version of two digits", "HTTP/1.12 200 OK\r\n\r\n", ErrMalformed},
		{"empty line first", "\r\nHTTP/1.1 200 OK\r\n\r\n", ErrMalformed},
		{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n", ErrMalformed},
		{"status of four digits", "HTTP/1.1 2000 OK\r\n\r\n", ErrMalformed},
		{"status under 100", "HTTP/1.1 099 OK\r\n\r\n", ErrMalformed},
		{"negative status", "HTTP/1.1 -20 OK\r\n\r\n", ErrMalformed},
		{"control byte in the reason", "HTTP/1.1 200 O\x00K\r\n\r\n", ErrMalformed},
		{"lone carriage return in the reason", "HTTP/1.1 200 OK\rX: y\r\n\r\n", ErrMalformed},
		{"line without a colon", head + "nothing\r\n\r\n", ErrMalformed},
		{"line without a name", head + ": x\r\n\r\n", ErrMalformed},
		{"space before the colon", head + "Content-Length : 0\r\n\r\n", ErrMalformed},
		{"space in a name", head + "Content Length: 0\r\n\r\n", ErrMalformed},
		{"continued line", head + "X: y\r\n Content-Length: 0\r\n\r\n", ErrMalformed},
		{"lone carriage return in a value", head + "X: y\rContent-Length: 0\r\n\r\n", ErrMalformed},
		{"control byte in a value", head + "X: \x07\r\n\r\n", ErrMalformed},
		{"control byte in a list", head + "Connection: \x07\r\n\r\n", ErrMalformed},
		{"carriage return at the head's end", head + "\rx", ErrMalformed},
		{"length is no number", head + "Content-Length: x\r\n\r\n", ErrMalformed},
		{"no length", head + "Content-Length:\r\n\r\n", ErrMalformed},
		{"negative length", head + "Content-Length: -1\r\n\r\n", ErrMalformed},
		{"signed length", head + "Content-Length: +1\r\n\r\n", ErrMalformed},
		{"two lengths in one", head + "Content-Length: 2, 2\r\n\r\nok", ErrMalformed},
		{"length with a space", head + "Content-Length: 2 2\r\n\r\nok", ErrMalformed},
		{"two lengths", head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok", ErrMalformed},
		{"length twice", head + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", ErrMalformed},
		{"length of many digits", head + "Content-Length: 000000000000000000002\r\n\r\nok", ErrMalformed},
		{"length and chunks", head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ErrMalformed},
		{"chunks and length", head + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n", ErrMalformed},
		{"chunked twice", head + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", ErrMalformed},
		{"chunked first", head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n", ErrMalformed},
		{"no coding", head + "Transfer-Encoding: \r\n\r\n", ErrMalformed},
		{"chunks in 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ErrMalformed},
		{"chunk size is no number", chunked + "zz\r\n", ErrMalformed},
		{"no chunk size", chunked + "\r\n", ErrMalformed},
		{"negative chunk size", chunked + "-1\r\n", ErrMalformed},
		{"chunk size after a space", chunked + " 2\r\nok\r\n", ErrMalformed},
		{"chunk size with a lone line feed", chunked + "2\nok\r\n", ErrMalformed},
		{"chunk size with a lone carriage return", chunked + "2\rok", ErrMalformed},
		{"control byte in an extension", chunked + "2;\x00\r\nok\r\n", ErrMalformed},
		{"chunk longer than its size", chunked + "2\r\nokay\r\n", ErrMalformed},
		{"chunk with a lone carriage return", chunked + "2\r\nok\rx", ErrMalformed},
		{"trailer without a colon", chunked + "0\r\nnothing\r\n\r\n", ErrMalformed},
		{"oversized length", head + fmt.Sprintf("Content-Length: %d\r\n\r\n", MaxBody+1), ErrOversized},
		{"enormous length", head + "Content-Length: 99999999999999999999\r\n\r\n", ErrOversized},
		{"oversized chunk", chunked + fmt.Sprintf("%x", MaxBody+1), ErrOversized},
		{"enormous chunk", chunked + "ffffffffffffffff", ErrOversized},
		{"oversized chunks", chunked + fmt.Sprintf("%x\r\n", MaxBody) + strings.Repeat("x", MaxBody) + "\r\n1\r\n", ErrOversized},
		{"oversized until close", head + "\r\n" + strings.Repeat("x", MaxBody+1), ErrOversized},
		{"oversized header", head + "X: " + strings.Repeat("x", MaxHeader), ErrOversized},
		{"oversized name", head + strings.Repeat("x", MaxHeader), ErrOversized},
		{"oversized reason", "HTTP/1.1 200 " + strings.Repeat("x", MaxHeader), ErrOversized},
		{"oversized extension", chunked + "2;" + strings.Repeat("x", MaxHeader), ErrOversized},
		{"interim answers without an end", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", MaxInterim+1), ErrOversized},
		{"oversized trailer", chunked + "0\r\nX: " + strings.Repeat("x", MaxHeader), ErrOversized},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r Reader
			got := read(&r, false, tt.stream)
			if !errors.Is(got.Err, tt.want) || got.Done {
				t.Errorf("in one piece: %+v, want %v", got, tt.want)
			}
			n, done, err := r.Feed([]byte(rest))
			if n != 0 || done || err != got.Err || r.End() != got.Err {
				t.Errorf("the error is not final: %d, %v, %v", n, done, err)
			}
			if again := read(&r, false, tt.stream, everywhere(min(len(tt.stream), 2*MaxHeader))...); again != got {
				t.Errorf("byte by byte: %+v, in one piece %+v", again, got)
			}
		})
	}
}

func TestTheHeaderLimitIsOfEveryHead(t *testing.T) {
	// Interim answers do not add up, and a head of exactly the limit passes.
	hint := "HTTP/1.1 103 Early Hints\r\nLink: " + strings.Repeat("x", MaxHeader/2) + "\r\n\r\n"
	head := "HTTP/1.1 204 No Content\r\nX: "
	head += strings.Repeat("x", MaxHeader-len(head)-4) + "\r\n\r\n"
	var r Reader
	if got := read(&r, false, hint+hint+hint+head); !got.Done || got.Status != 204 {
		t.Errorf("got %+v", got)
	}
	if got := read(&r, false, strings.Replace(head, "X:", "XX:", 1)); got.Err != errLongHeader {
		t.Errorf("one byte more: %+v", got)
	}
}

func TestAsManyInterimAnswersAsMayBe(t *testing.T) {
	var r Reader
	for range 2 { // the count is of each answer
		got := read(&r, false, strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", MaxInterim)+"HTTP/1.1 204 No Content\r\n\r\n")
		if !got.Done || got.Status != 204 {
			t.Errorf("got %+v", got)
		}
	}
}

func TestAReaderIsSmallAndAllocatesNothing(t *testing.T) {
	if size := unsafe.Sizeof(Reader{}); size > 168 {
		t.Errorf("a Reader has %d bytes, want at most 168", size)
	}
	var r Reader
	for _, stream := range []string{
		"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 503 Busy\r\nContent-Length: 25\r\n\r\n{\"error\":\"bulkhead_full\"}",
	} {
		input := []byte(stream)
		allocated := testing.AllocsPerRun(100, func() {
			r.Reset(false)
			for i := range input {
				if _, _, err := r.Feed(input[i : i+1]); err != nil {
					t.Fatal(err)
				}
			}
		})
		if allocated != 0 {
			t.Errorf("%.0f allocations for %q", allocated, stream)
		}
	}
	read(&r, false, "HTTP/1.1 500 No\r\nContent-Length: 4096\r\n\r\n"+strings.Repeat("x", 4096))
	if r.Reset(false); cap(r.kept) > keptCapacity {
		t.Errorf("a buffer of %d bytes is kept", cap(r.kept))
	}
}

// FuzzFeed: no stream makes the Reader panic, and how it is cut makes no
// difference.
func FuzzFeed(f *testing.F) {
	for _, stream := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + rest,
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nok",
		"HTTP/1.1 503 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX: y\r\n\r\n" + rest,
		"HTTP/1.1 200 OK\nConnection: close, x\nContent-Length: 0002\n\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\n",
	} {
		f.Add(stream, uint64(1), false)
	}
	f.Fuzz(func(t *testing.T, stream string, seed uint64, head bool) {
		var r Reader
		whole := read(&r, head, stream)
		if whole.Done == (whole.Err != nil) || whole.Used > len(stream) {
			t.Fatalf("%+v", whole)
		}
		random := rand.New(rand.NewPCG(seed, 0))
		var cuts []int
		for at := 0; ; {
			if at += 1 + random.IntN(1+random.IntN(20)); at >= len(stream) {
				break
			}
			cuts = append(cuts, at)
		}
		if diff := cmp.Diff(whole, read(&r, head, stream, cuts...), sameErrors); diff != "" {
			t.Errorf("cut at %v:\n%s", cuts, diff)
		}
	})
}

func BenchmarkFeed(b *testing.B) {
	input := []byte("HTTP/1.1 200 OK\r\nServer: fasthttp\r\nDate: Mon, 30 Nov 2026 03:00:00 GMT\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n\r\nok")
	var r Reader
	b.ReportAllocs()
	for b.Loop() {
		r.Reset(false)
		if _, done, err := r.Feed(input); !done || err != nil {
			b.Fatal(done, err)
		}
	}
}
