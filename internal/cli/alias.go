package cli

import "flag"

// alias is a second name of a flag. Setting it sets the flag, so that a flag
// given by either name is given.
type alias struct {
	fs     *flag.FlagSet
	target string
}

// Alias gives the flag target of fs a second, usually short, name. The alias has
// no variable in the environment of its own, and in -h it stands beside its flag.
// The target must be in fs already.
func Alias(fs *flag.FlagSet, name, target string) {
	if fs.Lookup(target) == nil {
		panic("cli: -" + name + " is an alias of -" + target + ", which is not a flag")
	}
	fs.Var(&alias{fs: fs, target: target}, name, "short for -"+target)
}

func (a *alias) Set(text string) error { return a.fs.Set(a.target, text) }

// String is empty for the zero value, as package flag demands.
func (a *alias) String() string { return "" }

// IsBoolFlag lets an alias of a boolean stand without a value.
func (a *alias) IsBoolFlag() bool {
	if a.fs == nil {
		return false
	}
	return isBool(a.fs.Lookup(a.target))
}

// isBool says whether a flag may stand without a value.
func isBool(f *flag.Flag) bool {
	boolean, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && boolean.IsBoolFlag()
}
