package cli

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"
)

// maxSettings is the size in bytes of the largest file of settings.
const maxSettings = 1 << 20

// readSettings sets the flags of fs that are not set yet from the file at path: a
// flag name and its value a line, or the name of a boolean flag alone. Empty lines
// and those that begin with # are skipped, and so is the end of a line from " #".
// A flag that may be repeated may have several lines. An error names the file, and
// the line that it is about.
func readSettings(fs *flag.FlagSet, path string) error {
	text, err := readText(path)
	if err != nil {
		return fmt.Errorf("-config: %w", err)
	}
	given := Given(fs)
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := setLine(fs, line, given); err != nil {
			return fmt.Errorf("-config %s:%d: %w", path, n, err)
		}
	}
	return nil
}

// readText reads a regular file of text: of a device or a pipe there may be no end.
func readText(path string) (string, error) {
	// Without O_NONBLOCK the call itself waits for the writer of a pipe.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxSettings:
		return "", fmt.Errorf("%s has %d bytes, and at most %d are read", path, info.Size(), maxSettings)
	}
	data, err := io.ReadAll(f)
	if err == nil && (!utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0) {
		err = fmt.Errorf("%s is not a file of text", path)
	}
	return string(data), err
}

// setLine sets the flag of a line, unless it is given.
func setLine(fs *flag.FlagSet, line string, given map[string]bool) error {
	name, value := line, ""
	if end := strings.IndexAny(line, " \t"); end >= 0 {
		name, value = line[:end], line[end:]
	}
	value, _, _ = strings.Cut(value, " #")
	value = strings.TrimSpace(value)
	f := fs.Lookup(name)
	if f == nil {
		// What follows may be a secret.
		return fmt.Errorf("there is no flag -%s", shortened(name))
	}
	if short, ok := f.Value.(*alias); ok {
		name = short.target
	}
	if value == "" {
		if !isBool(f) {
			return fmt.Errorf("-%s needs a value, after a space", name)
		}
		value = "true"
	}
	if given[name] {
		return nil
	}
	if err := fs.Set(name, value); err != nil {
		return fmt.Errorf("%q: %w", shortened(line), err)
	}
	return nil
}

// shortened is as much of a line as an error shows.
func shortened(line string) string {
	const most = 80
	if utf8.RuneCountInString(line) <= most {
		return line
	}
	return string([]rune(line)[:most]) + "..."
}
