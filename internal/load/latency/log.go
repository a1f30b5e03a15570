package latency

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"chokepoint/internal/result"
)

// LogWriter writes an HdrHistogram v2 interval log: lines of
//
//	Tag=fast/response,<start s>,<length s>,<max ms>,<compressed histogram>
//
// whose start counts from the log's base time. HistogramLogAnalyzer and every
// other reader of the format take it.
type LogWriter struct {
	w     io.Writer
	lines *hdr.HistogramLogWriter
	start time.Time
}

// Kinds of an endpoint's series: the tag of a series is endpoint/kind. The two
// parts of the response times are logged once for the whole run, the others by
// the second.
const (
	Response       = "response"
	OKResponse     = "ok_response"
	FailedResponse = "failed_response"
	Service        = "service"
	Lag            = "lag"
)

// NewLogWriter writes the header of a log that starts at start.
func NewLogWriter(w io.Writer, start time.Time) (*LogWriter, error) {
	l := &LogWriter{w: w, lines: hdr.NewHistogramLogWriter(w), start: start}
	// The library's own header lines drop the milliseconds of the start, which
	// would shift every interval; the format allows three decimals.
	seconds := float64(start.UnixMilli()) / 1000
	for _, line := range []string{
		"[Histogram log format version " + hdr.HISTOGRAM_LOG_FORMAT_VERSION + "]",
		fmt.Sprintf("[StartTime: %.3f (seconds since epoch), %s]", seconds, start.UTC().Format(time.RFC3339Nano)),
		fmt.Sprintf("[BaseTime: %.3f (seconds since epoch)]", seconds),
	} {
		if err := l.lines.OutputComment(line); err != nil {
			return nil, err
		}
	}
	return l, l.lines.OutputLegend()
}

// Write appends what h recorded between from and to, both offsets from the
// log's start. An interval without a sample is left out.
func (l *LogWriter) Write(tag string, from, to time.Duration, h *Histogram) error {
	if h.Count() == 0 {
		return nil
	}
	h.counts.SetTag(tag)
	h.counts.SetStartTimeMs(from.Milliseconds())
	h.counts.SetEndTimeMs(to.Milliseconds())
	return l.lines.OutputIntervalHistogram(h.counts)
}

// Log is an interval log as it was read.
type Log struct {
	Start time.Time // zero if the log does not say
	// Series holds the intervals by tag, e.g. "fast/response".
	Series map[string]*Series
}

// Series is everything that was logged under one tag.
type Series struct {
	// Total holds all intervals. Its extremes are at 3 significant digits, since
	// the format does not carry exact ones.
	Total     *Histogram
	Intervals []Interval // in the order of the log
}

// Interval is one line of a log. It carries percentiles and not the histogram:
// an hour of histograms would take gigabytes.
type Interval struct {
	Start       time.Duration // from Log.Start
	Length      time.Duration
	Percentiles result.Percentiles
}

const (
	// maxLogLine bounds one line; a histogram of this package takes a few kB.
	maxLogLine = 4 << 20
	// maxSeries bounds the tags of a log: each takes some 270 kB.
	maxSeries = 1000
)

// ReadLog reads an HdrHistogram v2 interval log. Unlike the library's reader it
// skips nothing: a line that it does not understand is an error that names the
// line's number.
func ReadLog(r io.Reader) (Log, error) {
	log := Log{Series: make(map[string]*Series)}
	start, err := eachInterval(r, func(i logLine) error { return log.add(i) })
	if err != nil {
		return Log{}, err
	}
	log.Start = start
	return log, nil
}

// ReadTotals reads what ReadLog does and keeps the sum over all intervals alone, by
// tag: in less than half the time, which tells in the log of an hour.
func ReadTotals(r io.Reader) (map[string]*Histogram, error) {
	totals := map[string]*Histogram{}
	_, err := eachInterval(r, func(i logLine) error {
		total := totals[i.tag]
		if total == nil {
			if len(totals) == maxSeries {
				return fmt.Errorf("more than %d tags", maxSeries)
			}
			total = New()
			totals[i.tag] = total
		}
		if total.Count() > math.MaxInt64-i.counts.TotalCount() {
			return errors.New("the counts add up to more than 2^63")
		}
		if outside := total.counts.Merge(i.counts); outside > 0 {
			return fmt.Errorf("%d values are beyond %v", outside, Highest)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, total := range totals {
		total.extremesOfCounts()
	}
	return totals, nil
}

// logLine is one interval of a log.
type logLine struct {
	tag          string
	from, length float64 // seconds; from counts from the start, where that is known
	counts       *hdr.Histogram
}

// eachInterval calls f with every interval of a log in turn. The start is zero if the
// log does not say.
func eachInterval(r io.Reader, f func(logLine) error) (start time.Time, err error) {
	var base float64
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLogLine)
	number := 0
	for scanner.Scan() {
		number++
		line := strings.TrimSpace(scanner.Text())
		var err error
		switch {
		case line == "" || strings.HasPrefix(line, `"StartTimestamp"`):
		case strings.HasPrefix(line, "#[StartTime: "):
			var seconds float64
			seconds, err = headerSeconds(line)
			start = time.UnixMilli(int64(math.Round(seconds * 1000))).UTC()
		case strings.HasPrefix(line, "#[BaseTime: "):
			base, err = headerSeconds(line)
		case strings.HasPrefix(line, "#"):
		default:
			var i logLine
			if i, err = parseInterval(line); err == nil {
				// With a base time a start is an offset; without one it is a time since the
				// epoch, as the format has it.
				if base == 0 && !start.IsZero() {
					i.from = max(0, i.from-float64(start.UnixMilli())/1000)
				}
				err = f(i)
			}
		}
		if err != nil {
			return time.Time{}, fmt.Errorf("histogram log, line %d: %w", number, err)
		}
	}
	if err := scanner.Err(); err != nil {
		return time.Time{}, fmt.Errorf("histogram log, line %d: %w", number+1, err)
	}
	return start, nil
}

func headerSeconds(line string) (float64, error) {
	_, rest, _ := strings.Cut(line, ": ")
	number, _, _ := strings.Cut(rest, " ")
	return parseSeconds(strings.TrimSuffix(number, "]"))
}

// parseSeconds refuses what no clock can have said, so that the sums made of it
// stay within a time.Duration.
func parseSeconds(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v < 1e10) {
		return 0, fmt.Errorf("%.40q is not a time in seconds", s)
	}
	return v, nil
}

func parseInterval(line string) (i logLine, err error) {
	if rest, tagged := strings.CutPrefix(line, "Tag="); tagged {
		var ok bool
		if i.tag, line, ok = strings.Cut(rest, ","); !ok {
			return logLine{}, errors.New("nothing follows the tag")
		}
	}
	fields := strings.Split(line, ",")
	if len(fields) != 4 {
		return logLine{}, fmt.Errorf("%d fields, want start, length, maximum and histogram", len(fields))
	}
	if i.from, err = parseSeconds(fields[0]); err != nil {
		return logLine{}, err
	}
	if i.length, err = parseSeconds(fields[1]); err != nil {
		return logLine{}, err
	}
	if i.counts, err = hdr.Decode([]byte(fields[3])); err != nil {
		return logLine{}, fmt.Errorf("the histogram does not decode: %w", err)
	}
	return i, nil
}

func (log *Log) add(i logLine) error {
	series := log.Series[i.tag]
	if series == nil {
		if len(log.Series) == maxSeries {
			return fmt.Errorf("more than %d tags", maxSeries)
		}
		series = &Series{Total: New()}
		log.Series[i.tag] = series
	}
	h, outside := rebuilt(i.counts)
	if outside > 0 {
		return fmt.Errorf("%d values are beyond %v", outside, Highest)
	}
	if series.Total.Count() > math.MaxInt64-h.Count() {
		return errors.New("the counts add up to more than 2^63")
	}
	series.Total.Merge(h)
	series.Intervals = append(series.Intervals, Interval{
		Start:       seconds(i.from),
		Length:      seconds(i.length),
		Percentiles: h.Percentiles(),
	})
	return nil
}

// rebuilt puts counts of any range and precision into a histogram of this
// package, each value at the lower edge of its bucket as the Java library's add
// does, and says how many of them are out of range. The extremes are at 3
// significant digits.
func rebuilt(counts *hdr.Histogram) (h *Histogram, outside int64) {
	h = New()
	outside = h.counts.Merge(counts)
	h.extremesOfCounts()
	return h, outside
}

// extremesOfCounts sets the extremes to what the buckets tell of them.
func (h *Histogram) extremesOfCounts() {
	if h.Count() > 0 {
		h.min, h.max = time.Duration(h.counts.ValueAtPercentile(0)), time.Duration(h.counts.Max())
	}
}

// seconds rounds to the millisecond, the resolution of the format.
func seconds(s float64) time.Duration {
	return time.Duration(math.Round(s*1000)) * time.Millisecond
}
