package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"chokepoint/internal/load/engine"
)

// datum is the text of a key.
type datum struct {
	text string
	at   string // the file and the line that it came from; empty for a flag
	dir  string // what the paths in it are relative to; empty is the working folder
}

// endpointKey is a key of an endpoint, the same in a file, in -endpoint and as a
// flag.
type endpointKey struct {
	name   string
	many   bool // may be given more than once
	secret bool // its text may hold a password, and is not shown
	reads  bool // it names a file
	set    func(*engine.Endpoint, datum) error
}

var endpointKeys = []endpointKey{
	{name: "name", set: func(e *engine.Endpoint, v datum) error { e.Name = v.text; return nil }},
	{name: "url", secret: true, set: func(e *engine.Endpoint, v datum) error { e.URL = v.text; return nil }},
	{name: "rate", set: parseRate},
	{name: "timeout", set: func(e *engine.Endpoint, v datum) (err error) {
		if e.Timeout, err = parseDuration(v.text); err != nil {
			return fmt.Errorf("timeout %q: %w", v.text, err)
		}
		if e.Timeout == 0 {
			return errors.New("timeout 0s must be above zero")
		}
		return nil // engine.Config.Validate refuses a negative one
	}},
	{name: "workers", set: func(e *engine.Endpoint, v datum) (err error) {
		if e.Workers, err = strconv.Atoi(v.text); err != nil || e.Workers < 1 {
			return fmt.Errorf("workers %q is not a number above zero", v.text)
		}
		return nil
	}},
	{name: "method", set: func(e *engine.Endpoint, v datum) error { e.Method = v.text; return nil }},
	{name: "header", many: true, secret: true, set: setHeader},
	{name: "body", secret: true, reads: true, set: setBody},
	{name: "rows", reads: true, set: setRows},
}

// endpointKeyOf is the key with that name.
func endpointKeyOf(name string) (endpointKey, bool) {
	i := slices.IndexFunc(endpointKeys, func(k endpointKey) bool { return k.name == name })
	if i < 0 {
		return endpointKey{}, false
	}
	return endpointKeys[i], true
}

func endpointKeyNames() []string {
	names := make([]string, len(endpointKeys))
	for i, k := range endpointKeys {
		names[i] = k.name
	}
	return names
}

// setHeader reads "Name: value", as curl's -H. Without a value, as in "Name:", the
// field is empty.
func setHeader(e *engine.Endpoint, v datum) error {
	name, text, ok := strings.Cut(v.text, ":")
	if !ok || strings.TrimSpace(name) == "" {
		// Without a colon it may be all secret.
		return errors.New("a header has no name and colon; write it as 'Name: value'")
	}
	e.Header = append(e.Header, engine.Field{Name: strings.TrimSpace(name), Value: strings.TrimSpace(text)})
	return nil
}

// description is an endpoint as it was written: the texts of its keys.
type description struct {
	at     string // the file and the line of its first key; empty for a flag
	texts  map[string][]datum
	faulty bool // not all of it could be read
}

func newDescription(at string) description {
	return description{at: at, texts: map[string][]datum{}}
}

// put gives a key its text, or one more.
func (d description) put(k endpointKey, v datum) {
	if k.many {
		d.texts[k.name] = append(d.texts[k.name], v)
	} else {
		d.texts[k.name] = []datum{v}
	}
}

func (d description) has(key string) bool { return len(d.texts[key]) > 0 }

// name is the endpoint's name; empty if it is missing.
func (d description) name() string {
	if !d.has("name") {
		return ""
	}
	return d.texts["name"][0].text
}

// under is d with what over says as well, which wins. A header takes the place of
// those with its name.
func (d description) under(over description) description {
	merged := description{at: d.at, texts: maps.Clone(d.texts), faulty: d.faulty || over.faulty}
	for key, texts := range over.texts {
		if key == "header" {
			kept := slices.DeleteFunc(slices.Clone(d.texts[key]), func(v datum) bool {
				return slices.ContainsFunc(texts, func(o datum) bool { return headerName(o) == headerName(v) })
			})
			texts = append(kept, texts...)
		}
		merged.texts[key] = texts
	}
	return merged
}

// headerName is the name of a header in the form in which names are compared.
func headerName(v datum) string {
	name, _, _ := strings.Cut(v.text, ":")
	return strings.ToLower(strings.TrimSpace(name))
}

// endpoint is what the description says. Its faults go to faults.
func (d description) endpoint(faults *Faults) engine.Endpoint {
	var e engine.Endpoint
	for _, k := range endpointKeys {
		for _, v := range d.texts[k.name] {
			if err := k.set(&e, v); err != nil {
				if name := d.name(); name != "" {
					err = fmt.Errorf("endpoint %s: %w", name, err)
				}
				faults.add(v.at, err)
			}
		}
	}
	switch {
	case d.faulty: // what is missing may be what could not be read
	case d.name() == "":
		faults.add(d.at, errors.New("an endpoint has no name; give name: a"))
	case e.URL == "":
		faults.add(d.at, fmt.Errorf("endpoint %s: url is missing; give url=http://HOST/PATH", d.name()))
	}
	if e.Method == "" && hasBody(e) {
		e.Method = "POST" // as curl's -d
	}
	return e
}

// hasBody says whether any request of e has a body.
func hasBody(e engine.Endpoint) bool {
	return len(e.Body) > 0 || slices.ContainsFunc(e.Rows, func(r engine.Row) bool { return len(r.Body) > 0 })
}

// commaHint is what to do about a comma in a value.
const commaHint = `a value with a comma is quoted, as in header="Accept: a, b", and in a URL can be written %2C`

// parseEndpoint reads the text of -endpoint: key=value pairs with commas between
// them. A value that begins with " or ' ends with the next such quote, and a
// doubled one stands for itself. The error shows no value of a header or a body.
func parseEndpoint(text string) (description, error) {
	d := newDescription("")
	last := "" // the key before
	for rest := text; ; {
		key, after, ok := strings.Cut(rest, "=")
		if !ok || strings.Contains(key, ",") {
			return d, notAPair(rest, last)
		}
		value, remaining, more, err := cutValue(after)
		if err != nil {
			return d, fmt.Errorf("%s: %w", shown(key, last), err)
		}
		k, known := endpointKeyOf(key)
		switch {
		case !known && last != "" && (last == "header" || last == "body"):
			return d, notAPair(rest, last)
		case !known:
			return d, fmt.Errorf("%w (%s)", unknownKey(key, endpointKeyNames()), commaHint)
		case d.has(key) && !k.many:
			return d, fmt.Errorf("%s is given twice", key)
		}
		d.put(k, datum{text: value})
		if !more {
			break
		}
		last, rest = key, remaining
	}
	if d.name() == "" {
		return d, errors.New("name is missing; give name=a")
	}
	return d, nil
}

// notAPair is the fault of a piece of -endpoint that is no key and value. What
// follows a header or a body may be a part of it, and is not shown.
func notAPair(rest, last string) error {
	piece, _, _ := strings.Cut(rest, ",")
	if last == "header" || last == "body" {
		return fmt.Errorf("what follows the comma after %s is not key=value; %s", last, commaHint)
	}
	return fmt.Errorf("%q is not key=value; %s", shortened(piece), commaHint)
}

// shown is the key of a fault, unless it may be a part of a secret.
func shown(key, last string) string {
	if last == "header" || last == "body" {
		return "what follows " + last
	}
	return shortened(key)
}

func shortened(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// cutValue takes the value that s begins with, and what is behind the comma after
// it.
func cutValue(s string) (value, rest string, more bool, err error) {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		value, rest, more = strings.Cut(s, ",")
		return value, rest, more, nil
	}
	quote := s[:1]
	var b strings.Builder
	for s = s[1:]; ; {
		part, after, closed := strings.Cut(s, quote)
		b.WriteString(part)
		switch {
		case !closed:
			return "", "", false, fmt.Errorf("the quote %s is not closed", quote)
		case after == "":
			return b.String(), "", false, nil
		case after[0] == ',':
			return b.String(), after[1:], true, nil
		case after[:1] != quote:
			return "", "", false, fmt.Errorf("after the closing quote %s there must be a comma; a quote in the value is written twice", quote)
		}
		b.WriteString(quote)
		s = after[1:]
	}
}
