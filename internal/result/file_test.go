package result

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wantFolder wants exactly these names in a folder, hidden ones included.
func wantFolder(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", dir, diff)
	}
}

func TestWriteFileReplacesTheWholeFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results", "run")
	path := filepath.Join(dir, "report.md")
	for _, text := range []string{"a long first report\n", "short\n", ""} {
		if err := WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q, %v; want %q", got, err, text)
		}
	}
	wantFolder(t, dir, "report.md")
	// The temporary file's own mode would keep a report from its readers.
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v; want 0644", info.Mode(), err)
	}
}

func TestAWriteThatFailsLeavesNothingBehind(t *testing.T) {
	t.Run("the name is a folder", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, SummaryFile)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := WriteFile(path, []byte("{}")); err == nil {
			t.Error("no error")
		}
		wantFolder(t, dir, SummaryFile)
		wantFolder(t, path)
	})
	t.Run("the folder is a file", func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "run")
		if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := WriteFile(filepath.Join(file, SummaryFile), []byte("{}")); err == nil {
			t.Error("no error")
		}
		wantFolder(t, dir, "run")
		if got, err := os.ReadFile(file); err != nil || string(got) != "kept" {
			t.Errorf("%q, %v; want it untouched", got, err)
		}
	})
	t.Run("the value cannot be encoded", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, SummaryFile)
		if err := WriteFile(path, []byte("kept")); err != nil {
			t.Fatal(err)
		}
		err := WriteJSON(path, Summary{Run: Run{Scale: math.NaN()}})
		wantError(t, err, SummaryFile, "NaN")
		wantFolder(t, dir, SummaryFile)
		if got, err := os.ReadFile(path); err != nil || string(got) != "kept" {
			t.Errorf("%q, %v; want the file as it was", got, err)
		}
	})
}

// documents are the versioned files, each with a value and its reader.
var documents = []struct {
	name, schema string
	value        any
	read         func(dir string) (any, error)
}{
	{SummaryFile, SummarySchema, Summary{Schema: SummarySchema, Run: Run{ID: "a", Scale: 0.1}, Endpoints: map[string]Endpoint{"fast": {Planned: 1200, OK: 400}}},
		func(dir string) (any, error) { return ReadSummary(dir) }},
	{ManifestFile, ManifestSchema, Manifest{Schema: ManifestSchema},
		func(dir string) (any, error) { return ReadManifest(dir) }},
	{LoadFile, LoadSchema, Load{Schema: LoadSchema, Phase: "load", Drops: map[string][]int{"fast": {0, 3}}},
		func(dir string) (any, error) { return ReadLoad(filepath.Join(dir, LoadFile)) }},
	{ComparisonFile, ComparisonSchema, Comparison{Schema: ComparisonSchema},
		func(dir string) (any, error) { return ReadComparison(dir) }},
}

func TestDocumentsRoundTrip(t *testing.T) {
	for _, d := range documents {
		t.Run(d.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := WriteJSON(filepath.Join(dir, d.name), d.value); err != nil {
				t.Fatal(err)
			}
			got, err := d.read(dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(d.value, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAFileThatIsNoneOfOursIsOneClearError(t *testing.T) {
	for _, d := range documents {
		t.Run(d.name, func(t *testing.T) {
			for _, test := range []struct{ name, text, want string }{
				{"cut short", `{"schema": "` + d.schema + `", "run"`, "is not what a run writes: unexpected end of JSON input"},
				{"empty", "", "is not what a run writes: unexpected end of JSON input"},
				{"not JSON", "# Report\n", "is not what a run writes: invalid character '#'"},
				{"not an object", "[]", "is not what a run writes: json: cannot unmarshal array"},
				{"no schema", "{}", `has schema "", this program reads "` + d.schema + `"`},
				// A later version may have fields of another type: the version is the reason.
				{"a later schema", `{"schema": "chokepoint/any/v9", "run": 1, "children": 1, "metrics": 1, "endpoints": 1}`,
					`has schema "chokepoint/any/v9", this program reads "` + d.schema + `"`},
			} {
				t.Run(test.name, func(t *testing.T) {
					dir := t.TempDir()
					path := filepath.Join(dir, d.name)
					if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
						t.Fatal(err)
					}
					_, err := d.read(dir)
					wantError(t, err, path, test.want)
				})
			}
			if _, err := d.read(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("no file: %v", err)
			}
		})
	}
}

func TestAFieldOfTheWrongTypeIsNamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, SummaryFile)
	if err := WriteFile(path, []byte(`{"schema": "`+SummarySchema+`", "run": {"scale": "0.1"}}`)); err != nil {
		t.Fatal(err)
	}
	_, err := ReadSummary(dir)
	wantError(t, err, path, "run.scale")
}
