package threshold

import (
	"flag"
	"fmt"
	"slices"
	"strings"
)

// AddFlag adds the flag -threshold to fs, which may be repeated.
func AddFlag(fs *flag.FlagSet, all *[]Threshold) {
	fs.Func("threshold", "a `condition` to hold, as fast:p(95)<200ms, {ok}:max<1s, failed<1% or dropped==0; repeat it for more", func(s string) error {
		t, err := Parse(s)
		*all = append(*all, t)
		return err
	})
}

// CheckEndpoints refuses a threshold of an endpoint that is not among names.
func CheckEndpoints(all []Threshold, names []string) error {
	for _, t := range all {
		if t.Endpoint() != "" && !slices.Contains(names, t.Endpoint()) {
			return fmt.Errorf("threshold %q: there is no endpoint %s, only %s", t, t.Endpoint(), strings.Join(names, ", "))
		}
	}
	return nil
}
