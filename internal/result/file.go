package result

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// File is a file on its way to its name: a temporary one beside it, which Commit
// renames, so that a reader sees the whole file or none. A device or a pipe is
// never replaced; it has no whole, and is written as it goes.
type File struct {
	file   *os.File
	path   string // what errors name; the temporary file is of no concern
	target string // what the temporary file becomes; empty when written straight
	borrow bool   // the file is stdout or stderr, which is not closed here
}

// Create begins the file at path, in a folder that must exist. A symbolic link
// stays one: the file that it leads to is what is replaced, or made. A folder and
// a socket are refused. A pipe that nobody reads is waited for. The error is an
// *fs.PathError.
func Create(path string) (*File, error) {
	if path == "-" {
		// Elsewhere it stands for stdout, and a file of that name is never meant.
		return nil, &fs.PathError{Op: "write", Path: path, Err: errors.New("/dev/stdout is standard output, and ./- is a file of that name")}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &fs.PathError{Op: "write", Path: path, Err: errors.New("it is a folder")}
	case info.Mode()&fs.ModeSocket != 0 && own(info) == nil:
		return nil, &fs.PathError{Op: "write", Path: path, Err: errors.New("it is a socket")}
	case own(info) != nil:
		// Replacing the file that stdout goes to would lose what else is printed.
		return &File{file: own(info), path: path, borrow: true}, nil
	case !info.Mode().IsRegular():
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &File{file: f, path: path}, nil
	}
	target, err := followLinks(path)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+".*")
	if err != nil {
		return nil, naming(path, err)
	}
	return &File{file: f, path: path, target: target}, nil
}

// Probe says whether Create would succeed, and leaves nothing behind. It does not
// open a pipe: whoever reads it would take the close for the end.
func Probe(path string) error {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return nil
	}
	f, err := Create(path)
	if err == nil {
		f.Discard()
	}
	return err
}

// own is stdout or stderr if that is the file.
func own(info fs.FileInfo) *os.File {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if of, err := f.Stat(); err == nil && os.SameFile(info, of) {
			return f
		}
	}
	return nil
}

// maxLinks is how many symbolic links lead to a file at most, as on Linux.
const maxLinks = 40

// followLinks is where path leads, whether or not there is anything.
func followLinks(path string) (string, error) {
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil {
			// Not a link, or nothing there: what is wrong with it, its use will say.
			return path, nil
		}
		if filepath.IsAbs(to) {
			path = to
			continue
		}
		// A link that climbs ("../") climbs from the real folder that it is in.
		folder, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", err
		}
		path = filepath.Join(folder, to)
	}
	return "", &fs.PathError{Op: "write", Path: path, Err: errors.New("too many symbolic links")}
}

// naming is err with the path that was asked for as its own.
func naming(path string, err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: "write", Path: path, Err: of.Err}
	}
	if of, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: "write", Path: path, Err: of.Err}
	}
	return err
}

// SameFile says whether two paths lead to one file, which need not exist.
func SameFile(a, b string) bool {
	if place(a) == place(b) {
		return true
	}
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// place is where path leads, absolute and through no link as far as that can be
// told.
func place(path string) string {
	if to, err := followLinks(path); err == nil {
		path = to
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(folder, filepath.Base(path))
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return path
}

// Write writes to the file. The error is an *fs.PathError.
func (f *File) Write(data []byte) (int, error) {
	n, err := f.file.Write(data)
	return n, naming(f.path, err)
}

// Commit gives the file its name. If that fails, nothing is left behind, and the
// error is an *fs.PathError. A file that is committed or discarded is not used
// again.
func (f *File) Commit() (err error) {
	if f.target == "" {
		if f.borrow {
			return nil
		}
		return naming(f.path, f.file.Close())
	}
	defer func() {
		if err != nil {
			f.Discard()
			err = naming(f.path, err)
		}
	}()
	if err = f.file.Chmod(0o644); err != nil {
		return err
	}
	if err = f.file.Close(); err != nil {
		return err
	}
	// The name may have been taken meanwhile.
	if info, err := os.Lstat(f.target); err == nil && !info.Mode().IsRegular() {
		return &fs.PathError{Op: "write", Path: f.target, Err: errors.New("it is no longer a regular file")}
	}
	return os.Rename(f.file.Name(), f.target)
}

// Discard removes what was written, as far as it can be taken back.
func (f *File) Discard() {
	if f.borrow {
		return
	}
	f.file.Close()
	if f.target != "" {
		os.Remove(f.file.Name())
	}
}

// WriteFile writes data to path, whole or not at all (see Create), and makes its
// folder.
func WriteFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := Create(path)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Discard()
		return err
	}
	return f.Commit()
}

// WriteJSON writes v as indented JSON, whole or not at all.
func WriteJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return WriteFile(path, append(data, '\n'))
}

// ReadSummary reads the summary.json of a run's folder.
func ReadSummary(dir string) (Summary, error) {
	var s Summary
	path := filepath.Join(dir, SummaryFile)
	err := readJSON(path, SummarySchema, &s)
	// A time is divided by it. A run has 0.05 to 1, and a file may leave it out.
	if scale := s.Run.Scale; err == nil && scale != 0 && !(scale >= 0.001 && scale <= 1000) {
		err = fmt.Errorf("%s is not what a run writes: run.scale is %v", path, scale)
	}
	return s, err
}

// ReadManifest reads the manifest.json of a run's folder.
func ReadManifest(dir string) (Manifest, error) {
	var m Manifest
	err := readJSON(filepath.Join(dir, ManifestFile), ManifestSchema, &m)
	return m, err
}

// ReadLoad reads a file that loadgen -json wrote. One without a model is open.
func ReadLoad(path string) (Load, error) {
	l := Load{Model: ModelOpen}
	err := readJSON(path, LoadSchema, &l)
	if err == nil {
		if wrong := l.check(); wrong != nil {
			err = fmt.Errorf("%s is not what a run writes: %w", path, wrong)
		}
	}
	return l, err
}

// ReadComparison reads the comparison.json of a comparison's folder.
func ReadComparison(dir string) (Comparison, error) {
	var c Comparison
	err := readJSON(filepath.Join(dir, ComparisonFile), ComparisonSchema, &c)
	return c, err
}

// MaxInput is the size in bytes of the largest file that is read into memory: far
// above what a run writes.
const MaxInput = 256 << 20

// Open opens a regular file of at most that many bytes. Of a device or a pipe,
// which may have no end or make its reader wait for ever, and of a folder the
// error says so.
func Open(path string, most int64) (*os.File, error) {
	// Without O_NONBLOCK the call itself waits for the writer of a pipe.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%s is a folder; give a file", path)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file; copy what it gives into one", path)
	case info.Size() > most:
		err = fmt.Errorf("%s has %d bytes, and at most %d are read", path, info.Size(), most)
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

// readFile reads the file at path: see Open.
func readFile(path string) ([]byte, error) {
	f, err := Open(path, MaxInput)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// readJSON reads v from a file that leads with that schema. The schema is looked
// at first: a later version may not fit v, and that is what the error should say.
func readJSON(path, schema string, v any) error {
	data, err := readFile(path)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return fmt.Errorf("%s is not what a run writes: it is empty", path)
	}
	var leads struct {
		Schema string `json:"schema"`
	}
	err = json.Unmarshal(data, &leads)
	if err == nil && leads.Schema != schema {
		return fmt.Errorf("%s has schema %.40q, this program reads %q", path, leads.Schema, schema)
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		// Its own text speaks of Go's types.
		return fmt.Errorf("%s is not what a run writes: %s holds a JSON %s", path, cmp.Or(wrong.Field, "it"), wrong.Value)
	}
	if err != nil {
		return fmt.Errorf("%s is not what a run writes: %w", path, err)
	}
	return nil
}
