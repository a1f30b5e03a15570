package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"chokepoint/internal/result"
)

// packetsPrefix begins the names of the files that hold a readable sequence of packets.
const packetsPrefix = "packets"

// What a page holds of the packets of its cells: it must stay easy to open and to send.
const (
	maxInlined    = 8 << 10
	maxAllInlined = 700 << 10
)

// inliner reads short files of evidence into a page, until there are enough.
type inliner struct {
	dir       string
	left      int
	malformed []error // of files that are there and cannot be read
}

func newInliner(dir string) *inliner { return &inliner{dir: dir, left: maxAllInlined} }

// blocks are the file called name, relative to the run's folder, or why it is not shown.
func (in *inliner) blocks(name string, f result.EvidenceFile) []block {
	content, err := in.read(name)
	var large *tooLargeError
	switch {
	case errors.As(err, &large):
		return []block{sentence(plain(f.Name + " is not shown here: " + large.Error() + "."))}
	case errors.Is(err, fs.ErrNotExist):
		return []block{sentence(plain(f.Name + " is missing."))}
	case err != nil:
		in.malformed = append(in.malformed, err)
		return []block{sentence(plain("Unreadable: " + relative(in.dir, err.Error()) + "."))}
	}
	return []block{sentence(plain(cmp.Or(f.What, f.Name) + ":")), listing{strings.Split(strings.TrimRight(content, "\r\n"), "\n")}}
}

type tooLargeError struct{ size int64 }

func (e *tooLargeError) Error() string {
	if e.size > maxInlined {
		return fmt.Sprintf("it has %s bytes, and at most %s of a file are", count(e.size), count(maxInlined))
	}
	return "the page holds as many packets of other cells as it may"
}

// read reads a short file into the page.
func (in *inliner) read(name string) (string, error) {
	text, err := in.readUpTo(name, min(maxInlined, int64(in.left)))
	in.left -= len(text)
	return text, err
}

// readUpTo reads a file that lies within the run's folder: summary.json may name any.
func (in *inliner) readUpTo(name string, most int64) (string, error) {
	root, err := os.OpenRoot(in.dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	whole := filepath.Join(in.dir, filepath.FromSlash(name))
	// Without O_NONBLOCK the call itself waits for the writer of a pipe.
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		return "", fmt.Errorf("%s: %w", whole, errors.Unwrap(err))
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", whole)
	case info.Size() > most:
		return "", &tooLargeError{info.Size()}
	}
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return "", err
	}
	return string(data), nil
}
