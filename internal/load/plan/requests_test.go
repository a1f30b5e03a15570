package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chokepoint/internal/load/engine"
)

func TestTheTextOfAnEndpoint(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"name=a,url=http://a/?b=c&d=e,rate=5", "name: a|url: http://a/?b=c&d=e|rate: 5"},
		{`name="a",body="{""b"": 1, ""c"": [2,3]}"`, `name: a|body: {"b": 1, "c": [2,3]}`},
		{`name=a,body='{"b": 1, "c": "it''s"}',method=PUT`, `name: a|method: PUT|body: {"b": 1, "c": "it's"}`},
		{`name=a,header=A: b="c",header='B: c, d',header="E: f"`, `name: a|header: A: b="c"|header: B: c, d|header: E: f`},
		{`name=a,body=`, "name: a|body: "},
		{`name=a,body=""`, "name: a|body: "},
		{`name=a,body=""""`, `name: a|body: "`},

		{"", `"" is not key=value`},
		{"name=a,", `"" is not key=value`},
		{"name=a,,rate=3", `"" is not key=value`},
		{"name=a, rate=3", `unknown key " rate"; did you mean rate?`},
		{"name=a,body='b", "body: the quote ' is not closed"},
		{"name=a,body='b'c", "body: after the closing quote ' there must be a comma"},
		{"name=a,rate=1,rate=2", "rate is given twice"},
		{"name=a,rate=" + strings.Repeat("9", 100) + "x,yyyy" + strings.Repeat("y", 100), `"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy..." is not key=value`},
		{"rate=1", "name is missing"},
	} {
		d, err := parseEndpoint(test.text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%q: error %q, want %q", test.text, err, test.want)
			}
			continue
		}
		var parts []string
		for _, k := range endpointKeys {
			for _, v := range d.texts[k.name] {
				parts = append(parts, k.name+": "+v.text)
			}
		}
		if got := strings.Join(parts, "|"); got != test.want {
			t.Errorf("%q: %q, want %q", test.text, got, test.want)
		}
	}
}

func TestRows(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []engine.Row
	}{
		{"urls", "url\n/1\n/2\n", []engine.Row{{URL: "/1"}, {URL: "/2"}}},
		{"bodies before urls", "body,url\n\"{\"\"a\"\": 1}\",/1\n,/2\n", []engine.Row{{URL: "/1", Body: []byte(`{"a": 1}`)}, {URL: "/2", Body: []byte{}}}},
		{"a body of two lines, a byte order mark, carriage returns", "\ufeffurl,body\r\n/1,\"a\nb\"\r\n", []engine.Row{{URL: "/1", Body: []byte("a\nb")}}},
		{"JSON Lines", "{\"url\": \"/1\", \"body\": {\"a\": [1, 2]}}\n\n  {\"body\": \"a\\nb\"}\n{\"url\": \"/3\", \"body\": null}\n{\"body\": 4}",
			[]engine.Row{{URL: "/1", Body: []byte(`{"a": [1, 2]}`)}, {Body: []byte("a\nb")}, {URL: "/3"}, {Body: []byte("4")}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseRows([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestRowsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"":                               ":1: there are no rows; give a header with url or body, and a line for each request",
		"url,body\n":                     ":1: there are no rows; give a header with url or body, and a line for each request",
		"URL\n/1\n":                      `:1: column "URL": the columns of the header are url and body`,
		"url,id\n/1,1\n":                 `:1: column "id": the columns of the header are url and body`,
		"url,url\n/1,/2\n":               `:1: there are two columns "url"`,
		"url,body\n/1,a\n/2\n":           ":3: wrong number of fields",
		"url\n\"/1\n":                    `:2: extraneous or missing " in quoted-field`,
		"{\"url\": \"/1\"}\n{\"ur\": 1}": `:2: unknown field "ur"; a row is {"url": "/a", "body": {"b": 1}}, and either may be left out`,
		"{\"url\": 1}":                   `:1: url is not a string; a row is {"url": "/a", "body": {"b": 1}}, and either may be left out`,
		"{\"url\": \"/1\"}\n[1]":         `:2: the row is a JSON array; a row is {"url": "/a", "body": {"b": 1}}, and either may be left out`,
		"{\"url\": \"/1\"}\n\n{\"url\": \"/2\", \"body\": 1, \"url\": \"/3\"}": ":3: url is there twice; leave one out",
		"{\"body\": null, \"body\": {}}":                                       ":1: body is there twice; leave one out",
		"{\"url\": \"/1\"} {}":                                                 ":1: something follows the row; write one on each line",
		"{\"url\": \"/1\"":                                                     `:1: the JSON ends too early; a row is {"url": "/a", "body": {"b": 1}}, and either may be left out`,
		"{\n\"url\": \"/1\"\n}":                                                `:1: the JSON ends too early; a row is {"url": "/a", "body": {"b": 1}}, and either may be left out`,
		strings.Repeat("x\n", 1_000_002):                                       `:1: column "x": the columns of the header are url and body`,
		"url\n" + manyRows("/\n"):                                              ":1000002: there are more than 1000000 rows; leave some out",
		"{\"url\": \"/1\", \"body\": tru":                                      `:1: the JSON ends too early; a row is {"url": "/a", "body": {"b": 1}}, and either may be left out`,
	} {
		if _, err := parseRows([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%.40q: error %v, want %s", text, err, want)
		}
	}
}

// manyRows is one row too many.
func manyRows(row string) string { return strings.Repeat(row, maxRows+1) }

func TestAFaultOfRowsNamesTheFileAndTheLine(t *testing.T) {
	dir := in(t, map[string]string{"rows.csv": "url\n/1\n/2,3\n", "other.csv": "url\nhttp://b/\n"})
	for file, want := range map[string]string{
		"rows.csv":  fmt.Sprintf("endpoint url: rows %s:3: wrong number of fields", filepath.Join(dir, "rows.csv")),
		"other.csv": `endpoint url: row 1: URL "http://b/" leaves http://a; give it an endpoint of its own`,
	} {
		if _, err := made("-rate", "1", "-rows", filepath.Join(dir, file), "http://a/"); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	large := filepath.Join(dir, "large")
	if err := os.Truncate(writeEmpty(t, large), maxRequestFile+1); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"-body=@", "-rows="} {
		if _, err := made("-rate", "1", flag+large, "http://a/"); err == nil || !strings.HasSuffix(err.Error(), "large has 268435457 bytes, and at most 268435456 are read") {
			t.Error(err)
		}
	}
}

func writeEmpty(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
