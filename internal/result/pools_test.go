package result

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPoolsComeBack(t *testing.T) {
	rows := []PoolRow{
		{AtS: -1.25, Victim: "one", Workers: 10},
		{AtS: 15, Victim: "two", Workers: 200, Busy: 200, Queued: 912, PermitsHeld: 20, Connections: 1112},
	}
	path := filepath.Join(t.TempDir(), PoolsFile)
	if err := WritePools(path, rows); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParsePools(bytes.NewReader(text))
	if err != nil || !slices.Equal(got, rows) {
		t.Errorf("got %+v, %v; want %+v", got, err, rows)
	}
}

func TestPoolsThatNobodyWrote(t *testing.T) {
	header := strings.Join(poolColumns, ",") + "\n"
	for text, want := range map[string]string{
		"":                                  "line 1 is not the header",
		"a,b,c,d,e,f,g\n":                   "line 1 is not the header",
		header + "1,one,1,1\n":              "wrong number of fields",
		header + "NaN,one,1,1,1,1,1\n":      "line 2: at_s is \"NaN\"",
		header + "1e99,one,1,1,1,1,1\n":     "line 2: at_s is \"1e99\"",
		header + "1,one,1,-1,1,1,1\n":       "line 2: busy is \"-1\"",
		header + "1,one,1,1,1,1,1\n2,two,x": "record on line 3",
	} {
		if _, err := ParsePools(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
