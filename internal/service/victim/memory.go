package victim

import (
	"bytes"
	"os"
	rtmetrics "runtime/metrics"
	"strconv"
)

// residentBytes is the process's resident set, from /proc (the second field of
// statm, in pages); where there is no /proc, what the Go runtime has mapped.
func residentBytes() int64 {
	if data, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := bytes.Fields(data); len(fields) > 1 {
			if pages, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
				return pages * int64(os.Getpagesize())
			}
		}
	}
	sample := []rtmetrics.Sample{{Name: "/memory/classes/total:bytes"}}
	rtmetrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
