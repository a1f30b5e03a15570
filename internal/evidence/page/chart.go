package page

import (
	"math"
	"strconv"
)

// Chart is what chart.js draws: panes one above another over a common x axis. It
// crosses to the page as JSON.
type Chart struct {
	X     XAxis  `json:"x"`
	Xs    Values `json:"xs"` // ascending
	Panes []Pane `json:"panes"`
	Bands []Band `json:"bands,omitempty"`
	Marks []Mark `json:"marks,omitempty"` // ascending
	// Sync names the charts that share a cursor; empty for the panes of this one alone.
	Sync string `json:"sync,omitempty"`
}

// XAxis says what the xs are.
type XAxis struct {
	Kind  XKind  `json:"kind"`
	Label string `json:"label"`
}

// XKind is how xs are printed.
type XKind string

const (
	// Seconds are printed as they are.
	Seconds XKind = "seconds"
	// Percentile xs are log10(1/(1-p)), so that each further nine takes the same room.
	Percentile XKind = "percentile"
	// Offset xs are milliseconds before (below 0) or after a moment.
	Offset XKind = "offset"
)

// Pane is one coordinate system.
type Pane struct {
	Title   string   `json:"title"`
	Unit    Unit     `json:"unit"`
	Series  []Series `json:"series"`
	Top     float64  `json:"top,omitempty"`     // the least that the y axis reaches to
	Log     bool     `json:"log,omitempty"`     // a logarithmic y axis; values at or under 0 are not drawn
	Stacked bool     `json:"stacked,omitempty"` // each series stands on the one before
	Height  int      `json:"height,omitempty"`  // CSS pixels; 0 for the usual height
}

// Unit is how values are printed.
type Unit string

const (
	Count        Unit = "count"
	Milliseconds Unit = "ms"
	Percent      Unit = "percent"
)

// Series is one line, or one layer of a stack.
type Series struct {
	Label  string `json:"label"`
	Colour Colour `json:"colour"`
	Style  Style  `json:"style,omitempty"`
	Dashed bool   `json:"dashed,omitempty"`
	Spans  bool   `json:"spans,omitempty"` // a line goes on over missing values
	Values Values `json:"values"`          // one for each x; NaN where there is none
}

// Colour is the name of a graphics colour of the style sheet: a place of
// evidence/goroutines, or one of the constants.
type Colour string

const (
	CPU Colour = "cpu"
	OK  Colour = "ok"
)

// colours is how many numbered ones there are.
const colours = 8

// Numbered is the colour of the n-th of several like things, from 0.
func Numbered(n int) Colour { return Colour(strconv.Itoa(n%colours + 1)) }

// Style is how a series is drawn.
type Style string

const (
	Line  Style = "line"
	Step  Style = "step"  // a value holds until the next x
	Since Style = "since" // a value is that of the time since the x before
)

// Band shades a phase.
type Band struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Label string  `json:"label"`
}

// Mark is a vertical line.
type Mark struct {
	At    float64 `json:"at"`
	Label string  `json:"label"`
}

// Values are JSON numbers of six significant digits, which is more than a screen
// shows, and null where one is NaN.
type Values []float64

// MarshalJSON implements json.Marshaler.
func (v Values) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, f := range v {
		if i > 0 {
			b = append(b, ',')
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendFloat(b, f, 'g', 6, 64)
		}
	}
	return append(b, ']'), nil
}
