package proc

import (
	"io"
	"os"
	"strings"
)

const (
	// tailKept is how many log lines an ended child keeps.
	tailKept = 50
	// tailBytes bounds how much of a log's end is read.
	tailBytes = 64 << 10
)

// tailLines returns the last n lines of a file that are not empty, of what comes
// after its first skip bytes. A file that cannot be read has none: the log is a
// help, and must not hide the error that made somebody ask for it.
func tailLines(path string, skip int64, n int) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	from := max(skip, size-tailBytes)
	if from > size {
		return nil // it was truncated
	}
	data, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return nil
	}
	all := strings.Split(string(data), "\n")
	if from > skip {
		all = all[1:] // cut in the middle
	}
	var lines []string
	for _, line := range all {
		if line = strings.TrimRight(line, " \t\r"); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return lines
}
