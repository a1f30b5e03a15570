package result

import (
	"io/fs"
	"os"
)

// Inputs tells which files have been given, by whatever name: a link such as
// latest.json is the run that it leads to. The zero value has none.
type Inputs struct {
	paths []string
	infos []fs.FileInfo
}

// Add gives the file at path. If it has been given before, it says by which name.
// What is wrong with a file that cannot be looked at, its use will say.
func (in *Inputs) Add(path string) (other string, given bool) {
	info, err := os.Stat(path)
	if err != nil {
		return "", false
	}
	for i, known := range in.infos {
		if os.SameFile(info, known) {
			return in.paths[i], true
		}
	}
	in.paths, in.infos = append(in.paths, path), append(in.infos, info)
	return "", false
}
