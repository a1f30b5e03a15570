package cli

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// Group is the flags of one purpose, as -h shows them.
type Group struct {
	Title string
	Flags []string // names, without aliases
}

// flagColumn is the width that the names of a flag take, before its text.
const flagColumn = 27

// printFlags lists the flags of fs, a line each: by purpose, or by name if there are
// no groups.
func printFlags(w io.Writer, fs *flag.FlagSet, groups []Group) {
	short := map[string][]string{}
	rest := Group{Title: "Other"}
	if len(groups) == 0 {
		rest.Title = "Flags"
	}
	listed := map[string]bool{}
	for _, g := range groups {
		for _, name := range g.Flags {
			listed[name] = true
		}
	}
	fs.VisitAll(func(f *flag.Flag) {
		switch a, isAlias := f.Value.(*alias); {
		case isAlias:
			short[a.target] = append(short[a.target], f.Name)
		case !listed[f.Name]:
			rest.Flags = append(rest.Flags, f.Name)
		}
	})
	for i, g := range append(groups[:len(groups):len(groups)], rest) {
		if len(g.Flags) == 0 {
			continue
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s:\n", g.Title)
		for _, name := range g.Flags {
			if f := fs.Lookup(name); f != nil {
				fmt.Fprintln(w, flagLine(f, short[name]))
			}
		}
	}
}

// flagLine is the one line of a flag: its names, what it takes, what it does and
// its default.
func flagLine(f *flag.Flag, short []string) string {
	var names strings.Builder
	names.WriteString("  ")
	for _, s := range short {
		names.WriteString("-" + s + ", ")
	}
	value, usage := flag.UnquoteUsage(f)
	names.WriteString("-" + f.Name)
	if value != "" && !isBool(f) {
		names.WriteString(" " + value)
	}
	switch f.DefValue {
	case "", "0", "0s", "false":
	default:
		usage += " (default " + f.DefValue + ")"
	}
	return fmt.Sprintf("%-*s %s", flagColumn, names.String(), usage)
}
