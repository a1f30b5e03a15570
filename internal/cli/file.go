package cli

import (
	"errors"
	"flag"
)

// fileName is a flag that names a file or a folder.
type fileName struct{ to *string }

// FileVar adds a flag that names a file or a folder, with *to as its default. An
// empty name is refused: it comes of a variable that was never set, and whoever
// gives the flag means some file.
func FileVar(fs *flag.FlagSet, to *string, name, usage string) {
	fs.Var(fileName{to}, name, usage)
}

func (f fileName) Set(text string) error {
	if text == "" {
		return errors.New("it is empty; give a name, or leave the flag out")
	}
	*f.to = text
	return nil
}

// String is empty for the zero value, as package flag demands.
func (f fileName) String() string {
	if f.to == nil {
		return ""
	}
	return *f.to
}
