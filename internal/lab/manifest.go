package lab

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"chokepoint/internal/lab/world"
	"chokepoint/internal/result"
)

// newManifest tells on what and with which settings a run was made.
func newManifest(seed uint64, config map[string]string, w world.Description) result.Manifest {
	m := result.Manifest{
		Schema: result.ManifestSchema, GoVersion: runtime.Version(),
		OS: runtime.GOOS + "/" + runtime.GOARCH, Kernel: kernel(),
		CPUs: runtime.NumCPU(), CPUModel: cpuModel(), MemoryBytes: memoryBytes(),
		Runtime: w.Runtime, Postgres: w.Postgres, Limits: w.Limits, Programs: w.Programs, Images: w.Images,
		Seed: seed, Config: config,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				m.Revision = setting.Value
			case "vcs.modified":
				m.Modified = setting.Value == "true"
			}
		}
	}
	return m
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	text := func(b []byte) string { return string(bytes.TrimRight(b, "\x00")) }
	return text(u.Sysname[:]) + " " + text(u.Release[:])
}

// cpuModel and memoryBytes read /proc; where there is none they say nothing.
func cpuModel() string { return procField("/proc/cpuinfo", "model name") }

func memoryBytes() int64 {
	kb, _, _ := strings.Cut(procField("/proc/meminfo", "MemTotal"), " ")
	n, err := strconv.ParseInt(kb, 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// procField is the first value of a "name : value" line.
func procField(path, name string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
