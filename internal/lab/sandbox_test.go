package lab

import (
	"slices"
	"testing"
)

func TestASandboxGetsNothingOfAnotherPostgres(t *testing.T) {
	got := withoutPostgres([]string{"PATH=/bin", "PGSERVICE=prod", "PGOPTIONS=-c x=y", "HOME=/PG"})
	if want := []string{"PATH=/bin", "HOME=/PG"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
