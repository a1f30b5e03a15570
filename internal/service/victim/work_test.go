package victim

import (
	"flag"
	"io"
	"strings"
	"testing"
	"time"
)

func TestWorkFlags(t *testing.T) {
	for _, tt := range []struct {
		args string
		want WorkConfig
		err  string
	}{
		{"", WorkConfig{Name: "victim"}, ""},
		{"-work-table=run_1.work -name=was1 -work-time=2s -idempotency-key -work-cancel",
			WorkConfig{Table: "run_1.work", Name: "was1", Time: 2 * time.Second, Idempotent: true, Cancel: true}, ""},
		{"-work-table=work", WorkConfig{Table: "work", Name: "victim"}, ""},
		{"-work-table=a.b.c", WorkConfig{}, `-work-table "a.b.c": want [schema.]table`},
		{"-work-table=Work", WorkConfig{}, `-work-table "Work"`},
		{"-work-table=work;drop", WorkConfig{}, `-work-table "work;drop"`},
		{"-work-table=work -work-time=-1s", WorkConfig{}, "-work-time -1s: must not be below 0"},
		{"-work-table=work -name=was/1", WorkConfig{}, `-name "was/1": want up to 64 letters`},
		{"-idempotency-key", WorkConfig{}, "needs -work-table"},
		{"-work-time=1s", WorkConfig{}, "needs -work-table"},
	} {
		var got WorkConfig
		fs := flag.NewFlagSet("victim", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		got.Bind(fs)
		if err := fs.Parse(strings.Fields(tt.args)); err != nil {
			t.Fatal(err)
		}
		err := got.Validate()
		switch {
		case tt.err == "" && (err != nil || got != tt.want):
			t.Errorf("%q: %+v, %v, want %+v", tt.args, got, err, tt.want)
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%q: %v, want %q", tt.args, err, tt.err)
		}
	}
}
