package dumps

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"chokepoint/internal/evidence/goroutines"
	"chokepoint/internal/evidence/threads"
)

// kind is which reader a text needs.
type kind int

const (
	goText kind = iota + 1
	goCounts
	javaText
	javaJSON
)

const (
	bufferSize = 256 << 10
	// jsonHead is how much of a JSON text is searched for the member that tells what
	// it is. Both formats have it within the first hundred bytes.
	jsonHead      = 64 << 10
	byteOrderMark = "\xef\xbb\xbf" // of UTF-8
)

// unzip returns the text of r, whether it is compressed or not; z is nil if it is not.
func unzip(r io.Reader) (text *bufio.Reader, z *gunzip, err error) {
	text = bufio.NewReaderSize(r, bufferSize)
	magic, err := text.Peek(2)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return text, nil, nil
	}
	unzipped, err := gzip.NewReader(text)
	if err != nil {
		return nil, nil, brokenGzip(err)
	}
	z = &gunzip{z: unzipped}
	return bufio.NewReaderSize(z, bufferSize), z, nil
}

// gunzip reads a compressed text as far as it goes, and names its errors.
type gunzip struct {
	z        *gzip.Reader
	cutShort bool // the text ended before the compression did
}

func (g *gunzip) Read(p []byte) (int, error) {
	n, err := g.z.Read(p)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		g.cutShort, err = true, io.EOF
	case err != nil && err != io.EOF:
		err = brokenGzip(err)
	}
	return n, err
}

func brokenGzip(err error) error { return fmt.Errorf("broken gzip: %w", err) }

// detect finds the first line that only one format has, and returns the text from
// there on. What comes before, such as the log in which a crash is found, is left
// out.
func detect(text *bufio.Reader) (kind, io.Reader, error) {
	if mark, _ := text.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		text.Discard(len(byteOrderMark))
	}
	head, err := text.Peek(jsonHead)
	if err != nil && err != io.EOF {
		return 0, nil, err
	}
	if err := refuse(head); err != nil {
		return 0, nil, err
	}
	if isJSON(head) {
		return javaJSON, text, nil
	}
	first := quoted(head)
	size, prefixed := 0, false
	for whole := true; ; {
		line, err := text.ReadSlice('\n')
		size += len(line)
		if trimmed := bytes.TrimRight(line, "\r\n"); whole {
			if k := kindOf(trimmed); k != 0 {
				return k, io.MultiReader(bytes.NewReader(bytes.Clone(line)), text), nil
			}
			prefixed = prefixed || hasPrefix(trimmed)
		}
		whole = !errors.Is(err, bufio.ErrBufferFull)
		switch {
		case !whole || err == nil:
		case err == io.EOF && size == 0:
			return 0, nil, errors.New("it is empty; want a goroutine dump of Go or a thread dump of Java")
		case err == io.EOF && prefixed:
			return 0, nil, fmt.Errorf("its lines have a prefix, as in %s; take it off, in journalctl with -o cat", first)
		case err == io.EOF:
			return 0, nil, fmt.Errorf("no dump in %d bytes that begin with %s; want a goroutine dump of Go (debug=1, debug=2, a crash) or a thread dump of Java (jstack, jcmd, Actuator)", size, first)
		default:
			return 0, nil, err
		}
	}
}

// refuse names the texts that are no text.
func refuse(head []byte) error {
	switch {
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}), bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		return errors.New("it is in UTF-16; write it in UTF-8, in PowerShell with | Out-File -Encoding utf8")
	case bytes.IndexByte(head, 0) >= 0:
		return errors.New("it is binary; a pprof profile is read by go tool pprof, and as text it comes with ?debug=1 or ?debug=2")
	}
	return nil
}

// isJSON says whether a text is a thread dump in JSON. A log in JSON is not.
func isJSON(head []byte) bool {
	head = bytes.TrimLeft(head, " \t\r\n")
	switch {
	case bytes.HasPrefix(head, []byte("{")):
		return bytes.Contains(head, []byte(`"threads"`)) || bytes.Contains(head, []byte(`"threadDump"`))
	case bytes.HasPrefix(head, []byte("[")):
		return bytes.Contains(head, []byte(`"threadName"`))
	}
	return false
}

// kindOf says which text a line is of; 0 if it may be of any.
func kindOf(line []byte) kind {
	if _, ok := goroutines.CountsHeader(line); ok {
		return goCounts
	}
	switch {
	case goroutines.IsHeader(line):
		return goText
	case threads.IsTextHeader(line):
		return javaText
	}
	return 0
}

// hasPrefix says whether a line of a dump stands behind what a logger put there.
func hasPrefix(line []byte) bool {
	at := bytes.Index(line, []byte("goroutine "))
	return at > 0 && goroutines.IsHeader(line[at:]) ||
		bytes.Contains(line, []byte(" java.lang.Thread.State: ")) && !bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("java.lang."))
}

// quoted is the beginning of a text for an error message.
func quoted(head []byte) string {
	const most = 40
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte("\n"))
	if len(line) > most {
		line = line[:most]
		for len(line) > 0 && !utf8.Valid(line) {
			line = line[:len(line)-1]
		}
	}
	return strconv.Quote(string(line))
}
