package drain

import (
	"os"
	"testing"

	"chokepoint/internal/lab/netlab/netlabtest"
)

func TestMain(m *testing.M) { os.Exit(netlabtest.Main(m)) }
