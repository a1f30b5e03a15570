package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// none stands where there is no figure.
const none = "–"

// number prints v with the given decimals and commas between thousands.
func number(v float64, decimals int) string {
	s := strconv.FormatFloat(math.Abs(v), 'f', decimals, 64)
	whole, fraction, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if v < 0 && strings.ContainsAny(s, "123456789") {
		whole = "-" + whole
	}
	return whole
}

func count[T int | int64](n T) string { return number(float64(n), 0) }

// decimal prints a figure that is mostly whole: whole if it is, else with one
// decimal.
func decimal(v float64) string {
	if math.Abs(v-math.Round(v)) < 1e-9 {
		return number(v, 0)
	}
	return number(v, 1)
}

// milliseconds prints three decimals under 1 ms, one under a second and none
// above: the resolution that the figures have.
func milliseconds(v float64) string {
	switch {
	case v == 0:
		return "0"
	case math.Abs(v) < 1:
		return number(v, 3)
	case math.Abs(v) < 1000:
		return number(v, 1)
	}
	return number(v, 0)
}

func percent(ratio float64) string { return number(ratio*100, 1) + " %" }

func size(bytes int64) string {
	if bytes >= 1<<30 {
		return number(float64(bytes)/(1<<30), 2) + " GiB"
	}
	return number(float64(bytes)/(1<<20), 1) + " MiB"
}

// inUnit prints a figure of summary.json by the unit that it is named with,
// leaving the unit out where a table names it.
func inUnit(v float64, unit string) string {
	switch unit {
	case "ratio":
		return percent(v)
	case "percent":
		return number(v, 1) + " %"
	case "ms":
		return milliseconds(v) + " ms"
	case "s":
		return number(v, 1) + " s"
	case "bytes":
		return size(int64(v))
	case "count":
		return decimal(v)
	}
	return strings.TrimSpace(decimal(v) + " " + unit)
}

// spread prints a range behind its median, without the unit if the median has
// the same. It is empty where both ends read alike.
func spread(low, median, high float64, unit string) string {
	from, to := inUnit(low, unit), inUnit(high, unit)
	if from == to {
		return ""
	}
	of := unitOf(inUnit(median, unit))
	if of == unitOf(from) && of == unitOf(to) {
		from, to = strings.TrimSuffix(from, of), strings.TrimSuffix(to, of)
	}
	return fmt.Sprintf(" (%s to %s)", from, to)
}

// unitOf is what follows the digits of a printed figure, with its space.
func unitOf(s string) string {
	if i := strings.IndexByte(s, ' '); i >= 0 {
		return s[i:]
	}
	return ""
}

// plural prints n with the noun that fits it.
func plural(n int, noun string) string {
	if n == 1 {
		return count(n) + " " + noun
	}
	return count(n) + " " + noun + "s"
}

func yesNo(ok bool) text {
	if ok {
		return plain("yes")
	}
	return strong("no")
}

// scenarioSeconds names seconds for what they are: at a scale of 1 they are
// real ones.
func scenarioSeconds(v, scale float64) string {
	if scale == 1 {
		return number(v, 1) + " s"
	}
	return fmt.Sprintf("%s scenario seconds", number(v, 1))
}

// shortest prints v in as few digits as tell it apart.
func shortest(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
