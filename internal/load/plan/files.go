package plan

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"chokepoint/internal/load/engine"
	"chokepoint/internal/result"
)

const (
	// maxPlan is the size in bytes of the largest plan that is read.
	maxPlan = 1 << 20
	// maxPEM is that of a certificate, a key or a bundle of authorities.
	maxPEM = 4 << 20
	// maxRequestFile is that of a body or of rows. They stay in memory during the
	// load.
	maxRequestFile = 256 << 20
	// maxRows is how many rows an endpoint can have.
	maxRows = 1_000_000
)

// inDir is where a path leads that is relative to dir.
func inDir(dir, path string) string {
	if dir == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// readAll reads a regular file of at most that many bytes. The error says what
// the file was to be.
func readAll(what, path string, most int64) ([]byte, error) {
	if path == "-" {
		return nil, fmt.Errorf("%s: standard input is not read; give a file", what)
	}
	f, err := result.Open(path, most)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return data, nil
}

// setBody reads a text, or the file after an @.
func setBody(e *engine.Endpoint, v datum) (err error) {
	path, isFile := strings.CutPrefix(v.text, "@")
	switch {
	case !isFile:
		e.Body = []byte(v.text)
		return nil
	case path == "":
		return errors.New("body @: the file is missing, as in @body.json")
	}
	e.Body, err = readAll("body", inDir(v.dir, path), maxRequestFile)
	return err
}

// setRows reads a file of rows; an @ before it is allowed, as in a body.
func setRows(e *engine.Endpoint, v datum) error {
	path := strings.TrimPrefix(v.text, "@")
	if path == "" {
		return errors.New("rows: the file is missing, as in rows=@requests.csv")
	}
	path = inDir(v.dir, path)
	data, err := readAll("rows", path, maxRequestFile)
	if err != nil {
		return err
	}
	if e.Rows, err = parseRows(data); err != nil {
		return fmt.Errorf("rows %s%w", path, err)
	}
	return nil
}

// rowError is an error at a line of a file of rows, to stand behind its name.
func rowError(line int, format string, args ...any) error {
	return fmt.Errorf(":%d: "+format, append([]any{line}, args...)...)
}

// parseRows reads the rows of requests, in one of two forms:
//
//	url,body                            CSV with a header; one of the columns may be left out
//	/users/1,"{""name"": ""a""}"
//
//	{"url": "/users/1", "body": {...}}  JSON Lines; a body that is no string is sent as JSON
//
// The first character tells them apart. Another column or field is an error: a
// request that is not what was meant is worse than none.
func parseRows(data []byte) ([]engine.Row, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var rows []engine.Row
	var err error
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		rows, err = parseJSONRows(data)
	} else {
		rows, err = parseCSVRows(data)
	}
	if err == nil && len(rows) == 0 {
		err = rowError(1, "there are no rows; give a header with url or body, and a line for each request")
	}
	return rows, err
}

func parseCSVRows(data []byte) ([]engine.Row, error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.ReuseRecord = true
	var fields []func(*engine.Row, string)
	var rows []engine.Row
	for {
		record, err := r.Read()
		if err == io.EOF {
			return rows, nil
		}
		if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
			return nil, rowError(syntax.Line, "%w", syntax.Err)
		}
		line, _ := r.FieldPos(0)
		if fields == nil {
			if fields, err = rowColumns(record); err != nil {
				return nil, rowError(line, "%w", err)
			}
			continue
		}
		if len(rows) == maxRows {
			return nil, rowError(line, "there are more than %d rows; leave some out", maxRows)
		}
		var row engine.Row
		for i, text := range record {
			fields[i](&row, text)
		}
		rows = append(rows, row)
	}
}

// rowColumns are the setters of the columns of a CSV file of rows.
func rowColumns(header []string) ([]func(*engine.Row, string), error) {
	var fields []func(*engine.Row, string)
	seen := map[string]bool{}
	for _, name := range header {
		name = strings.TrimSpace(name)
		if seen[name] {
			return nil, fmt.Errorf("there are two columns %q", shortened(name))
		}
		seen[name] = true
		switch name {
		case "url":
			fields = append(fields, func(r *engine.Row, text string) { r.URL = strings.Clone(text) })
		case "body":
			fields = append(fields, func(r *engine.Row, text string) { r.Body = []byte(text) })
		default:
			return nil, fmt.Errorf("column %q: the columns of the header are url and body", shortened(name))
		}
	}
	return fields, nil
}

func parseJSONRows(data []byte) ([]engine.Row, error) {
	var rows []engine.Row
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		if len(rows) == maxRows {
			return nil, rowError(line, "there are more than %d rows; leave some out", maxRows)
		}
		row, err := parseJSONRow(text)
		if err != nil {
			return nil, rowError(line, "%w", err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// rowField is a field of a JSON row. Package json sets a field that is there twice
// twice, and so the last would win in silence.
type rowField struct {
	text  json.RawMessage
	times int
}

func (f *rowField) UnmarshalJSON(text []byte) error {
	f.text = bytes.Clone(text)
	f.times++
	return nil
}

func parseJSONRow(text []byte) (engine.Row, error) {
	var fields struct {
		URL  rowField `json:"url"`
		Body rowField `json:"body"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&fields)
	var row engine.Row
	if err == nil && fields.URL.times > 0 {
		if json.Unmarshal(fields.URL.text, &row.URL) != nil {
			err = errors.New("url is not a string")
		}
	}
	if err != nil {
		return engine.Row{}, fmt.Errorf(`%w; a row is {"url": "/a", "body": {"b": 1}}, and either may be left out`, plainJSON(err))
	}
	switch _, end := decoder.Token(); {
	case end != io.EOF:
		return engine.Row{}, errors.New("something follows the row; write one on each line")
	case fields.URL.times > 1:
		return engine.Row{}, errors.New("url is there twice; leave one out")
	case fields.Body.times > 1:
		return engine.Row{}, errors.New("body is there twice; leave one out")
	}
	switch body := fields.Body.text; {
	case bytes.Equal(body, []byte("null")):
	case len(body) > 0 && body[0] == '"':
		var s string
		if err := json.Unmarshal(body, &s); err != nil {
			return engine.Row{}, plainJSON(err)
		}
		row.Body = []byte(s)
	default:
		row.Body = body
	}
	return row, nil
}

// plainJSON words an error of package json for somebody who wrote no Go.
func plainJSON(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("the row is a JSON %s", wrong.Value)
	}
	if err == io.ErrUnexpectedEOF {
		return errors.New("the JSON ends too early")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}
