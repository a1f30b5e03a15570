// Package scrape reads single figures from a server's metrics, in the text format
// of Prometheus. It keeps nothing and evaluates no expression: a selector names one
// metric, and its value is the sum over the series that have the labels.
package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// maxAnswer bounds the text of one scrape, in bytes.
const maxAnswer = 64 << 20

// Selector is a metric, and labels that its series must have.
type Selector struct {
	text   string
	name   string
	labels map[string]string
}

// ParseSelector reads a selector such as process_cpu_seconds_total or
// tomcat_threads_busy_threads{name="http-nio-8080"}.
func ParseSelector(text string) (Selector, error) {
	text = strings.TrimSpace(text)
	// A selector is a sample without its value.
	families, err := parse(strings.NewReader(text + " 0\n"))
	if err != nil || len(families) != 1 {
		return Selector{}, fmt.Errorf("%q is no metric; write its name, and labels behind it as in name{label=\"value\"}", text)
	}
	s := Selector{text: text, labels: map[string]string{}}
	for name, family := range families {
		s.name = name
		for _, l := range family.Metric[0].Label {
			s.labels[l.GetName()] = l.GetValue()
		}
	}
	return s, nil
}

// Named selects all series of a metric.
func Named(name string) Selector { return Selector{text: name, name: name} }

// String is the selector as it was written.
func (s Selector) String() string { return s.text }

// Name is the metric's name, without labels.
func (s Selector) Name() string { return s.name }

// Families are the metrics of one scrape.
type Families map[string]*dto.MetricFamily

// Value is the sum over the series that the selector names; false if there is none
// of a counter, a gauge or an untyped metric, or the sum is not finite.
func (f Families) Value(s Selector) (float64, bool) {
	family := f[s.name]
	sum, found := 0.0, false
	for _, m := range family.GetMetric() {
		if !s.fits(m) {
			continue
		}
		switch {
		case m.Counter != nil:
			sum, found = sum+m.Counter.GetValue(), true
		case m.Gauge != nil:
			sum, found = sum+m.Gauge.GetValue(), true
		case m.Untyped != nil:
			sum, found = sum+m.Untyped.GetValue(), true
		}
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return 0, false
	}
	return sum, found
}

func (s Selector) fits(m *dto.Metric) bool {
	matching := 0
	for _, l := range m.Label {
		if want, ok := s.labels[l.GetName()]; ok && want == l.GetValue() {
			matching++
		}
	}
	return matching == len(s.labels)
}

func parse(r io.Reader) (Families, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(r)
}

// Get asks a URL for its metrics. An error has nothing of the URL that may be
// secret.
func Get(ctx context.Context, client *http.Client, address string, header http.Header) (Families, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, errors.New("not a URL that can be asked for")
	}
	for name, values := range header {
		request.Header[name] = values
	}
	if request.Header.Get("Accept") == "" {
		request.Header.Set("Accept", "text/plain;version=0.0.4")
	}
	response, err := client.Do(request)
	if err != nil {
		// The message of a url.Error has the whole URL.
		if inner := (*url.Error)(nil); errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answered %s", response.Status)
	}
	if kind := response.Header.Get("Content-Type"); strings.HasPrefix(kind, "text/html") {
		return nil, errors.New("answered with HTML, and not with metrics as text")
	}
	families, err := parse(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("no metrics in the text format of Prometheus: %w", err)
	}
	return families, nil
}
