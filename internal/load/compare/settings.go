package compare

import (
	"fmt"
	"slices"
	"strings"

	"chokepoint/internal/result"
)

// setting is something that a plan sets, as text; a difference of it shows in the
// figures as a change of the server would.
type setting struct {
	name string
	of   func(result.Load, result.Endpoint) string
}

func settings() []setting {
	return []setting{
		{"target rates", func(_ result.Load, e result.Endpoint) string { return fmt.Sprintf("%v/s", e.TargetRate) }},
		{"client timeouts", func(_ result.Load, e result.Endpoint) string { return fmt.Sprintf("%v ms", e.ClientTimeoutMS) }},
		{"workers", func(_ result.Load, e result.Endpoint) string { return fmt.Sprint(e.Workers) }},
		{"windows", func(l result.Load, _ result.Endpoint) string { return fmt.Sprintf("%v s", l.WindowS) }},
		{"engines", func(l result.Load, _ result.Endpoint) string { return l.Engine }},
	}
}

// warnOfSettings names the settings of an endpoint that differ from run to run.
func warnOfSettings(base, other []Run, name string, warn func(string, ...any)) {
	for _, s := range settings() {
		if a, b := distinct(base, name, s), distinct(other, name, s); len(a) > 1 || len(b) > 1 || !slices.Equal(a, b) {
			warn("%s: the %s differ, %s and %s: what follows from that cannot be told from what follows from the change",
				name, s.name, strings.Join(a, " or "), strings.Join(b, " or "))
		}
	}
}

// distinct are the different values of a setting, sorted.
func distinct(runs []Run, name string, s setting) []string {
	var all []string
	for _, r := range runs {
		all = append(all, s.of(r.Load, r.Load.Endpoints[name]))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
