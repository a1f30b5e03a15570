package result

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// WriteFile writes data to path through a temporary file in the same folder and
// a rename, so that a reader sees the whole file or none.
func WriteFile(path string, data []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		f.Close()
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// WriteJSON writes v as indented JSON, whole or not at all.
func WriteJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return WriteFile(path, append(data, '\n'))
}

// ReadSummary reads the summary.json of a run's folder.
func ReadSummary(dir string) (Summary, error) {
	var s Summary
	err := readJSON(filepath.Join(dir, SummaryFile), SummarySchema, &s)
	return s, err
}

// ReadManifest reads the manifest.json of a run's folder.
func ReadManifest(dir string) (Manifest, error) {
	var m Manifest
	err := readJSON(filepath.Join(dir, ManifestFile), ManifestSchema, &m)
	return m, err
}

// ReadLoad reads a file that loadgen -json wrote.
func ReadLoad(path string) (Load, error) {
	var l Load
	err := readJSON(path, LoadSchema, &l)
	return l, err
}

// ReadComparison reads the comparison.json of a comparison's folder.
func ReadComparison(dir string) (Comparison, error) {
	var c Comparison
	err := readJSON(filepath.Join(dir, ComparisonFile), ComparisonSchema, &c)
	return c, err
}

// readJSON reads v from a file that leads with that schema. The schema is looked
// at first: a later version may not fit v, and that is what the error should say.
func readJSON(path, schema string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var leads struct {
		Schema string `json:"schema"`
	}
	err = json.Unmarshal(data, &leads)
	if err == nil && leads.Schema != schema {
		return fmt.Errorf("%s has schema %q, this program reads %q", path, leads.Schema, schema)
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return fmt.Errorf("%s is not what a run writes: %w", path, err)
	}
	return nil
}
