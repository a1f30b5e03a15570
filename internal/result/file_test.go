package result

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
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
	{LoadFile, LoadSchema, Load{Schema: LoadSchema, Model: ModelOpen, Phase: "load", Drops: map[string][]int{"fast": {0, 3}}},
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
				{"empty", "", "is not what a run writes: it is empty"},
				{"not JSON", "# Report\n", "is not what a run writes: invalid character '#'"},
				{"not an object", "[]", "is not what a run writes: it holds a JSON array"},
				{"no schema", "{}", `has schema "", this program reads "` + d.schema + `"`},
				{"a schema without an end", `{"schema": "` + strings.Repeat("x", 1<<20) + `"}`, `has schema "` + strings.Repeat("x", 40) + `", this`},
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

func TestAScaleOfNoRunIsRefused(t *testing.T) {
	for _, scale := range []string{"-1", "5e-324", "1e308"} {
		dir := t.TempDir()
		path := filepath.Join(dir, SummaryFile)
		if err := WriteFile(path, []byte(`{"schema": "`+SummarySchema+`", "run": {"scale": `+scale+`}}`)); err != nil {
			t.Fatal(err)
		}
		_, err := ReadSummary(dir)
		wantError(t, err, path, "is not what a run writes: run.scale is "+strings.Replace(scale, "e308", "e+308", 1))
	}
}

// wantText wants a file, or what a link leads to, to hold this.
func wantText(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", path, got, err, want)
	}
}

// wantLink wants path to be a symbolic link to this.
func wantLink(t *testing.T, path, to string) {
	t.Helper()
	if got, err := os.Readlink(path); err != nil || got != to {
		t.Errorf("%s leads to %q, %v; want %q", path, got, err, to)
	}
}

func TestASymbolicLinkStaysOne(t *testing.T) {
	for _, test := range []struct {
		name, link, target string // the link's text; the file that it means
		exists             bool
	}{
		{"to a file", "../data/load.json", "data/load.json", true},
		{"to nothing yet", "../data/load.json", "data/load.json", false},
		{"to another link", "again", "data/load.json", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, folder := range []string{"data", "links"} {
				if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			target, link := filepath.Join(dir, test.target), filepath.Join(dir, "links", "load.json")
			if test.exists {
				if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for path, to := range map[string]string{link: test.link, filepath.Join(dir, "links", "again"): target} {
				if err := os.Symlink(to, path); err != nil {
					t.Fatal(err)
				}
			}
			if err := WriteFile(link, []byte("new")); err != nil {
				t.Fatal(err)
			}
			wantLink(t, link, test.link)
			wantText(t, target, "new")
			wantFolder(t, filepath.Join(dir, "data"), "load.json")
			wantFolder(t, filepath.Join(dir, "links"), "again", "load.json")
		})
	}
}

func TestADashIsNotTakenForStdout(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := WriteFile("-", nil); err == nil || !strings.Contains(err.Error(), "/dev/stdout is standard output") {
		t.Errorf("%v, want where standard output is", err)
	}
	if err := Probe("-"); err == nil {
		t.Error("Probe takes what Create refuses")
	}
	if err := WriteFile("./-", nil); err != nil {
		t.Error(err)
	}
}

func TestLinksInACircleAreRefused(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "load.json")
	if err := os.Symlink("load.json", link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, []byte("new")); err == nil {
		t.Error("no error")
	}
	wantLink(t, link, "load.json")
	wantFolder(t, dir, "load.json")
}

// The links of these tests are what a wrong rename would replace, never the device.
func TestADeviceIsWrittenAndNotReplaced(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "null")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	if err := Probe(link); err != nil {
		t.Error(err)
	}
	if err := WriteFile(link, []byte("gone")); err != nil {
		t.Error(err)
	}
	wantLink(t, link, os.DevNull)
	if info, err := os.Stat(link); err != nil || info.Mode()&fs.ModeCharDevice == 0 {
		t.Errorf("mode %v, %v; want the device", info.Mode(), err)
	}
	wantFolder(t, dir, "null")
}

func TestANameThatIsTakenMeanwhileIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "load.hlog")
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(os.DevNull, path); err != nil {
		t.Fatal(err)
	}
	wantError(t, f.Commit(), path, "no longer a regular file")
	wantLink(t, path, os.DevNull)
	wantFolder(t, dir, "load.hlog")
}

func TestStdoutIsWrittenWhereItStands(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "printed")
	stdout, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	before := os.Stdout
	defer func() { os.Stdout = before }()
	os.Stdout = stdout

	stdout.WriteString("before\n")
	if err := WriteFile(path, []byte("the result\n")); err != nil {
		t.Fatal(err)
	}
	stdout.WriteString("after\n")
	wantText(t, path, "before\nthe result\nafter\n")
	wantFolder(t, dir, "printed")
}

func TestAnErrorNamesThePathThatWasAskedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), SummaryFile)
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	f.file.Close() // as good as a full disk
	_, unwritten := f.Write([]byte("{}"))
	for _, err := range []error{unwritten, f.Commit()} {
		if wrong, ok := errors.AsType[*fs.PathError](err); !ok || wrong.Path != path {
			t.Errorf("error %v, want one of %s", err, path)
		}
	}
	wantFolder(t, filepath.Dir(path))
}

func TestSameFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, err := range []error{
		os.Mkdir("a", 0o755), os.Symlink("a", "folder"), os.Symlink("a/x", "link"), os.Symlink("link", "chain"),
		os.WriteFile("file", nil, 0o600), os.Link("file", "hard"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"a/x", "./a/../a/x", true},
		{"a/x", "folder/x", true},
		{"link", "folder/x", true},
		{"chain", "link", true},
		{"file", "hard", true},
		{"missing/x", "missing/x", true},
		{"a/x", "a/y", false},
		{"link", "a/y", false},
		{"file", "a/file", false},
	} {
		if got := SameFile(test.a, test.b); got != test.want {
			t.Errorf("SameFile(%q, %q) = %v", test.a, test.b, got)
		}
	}
}
