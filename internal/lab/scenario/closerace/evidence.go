package closerace

import (
	"bytes"
	"encoding/csv"
	"strconv"
	"time"

	"chokepoint/internal/result"
)

// callsFile is the file of a line's folder that has every call.
const callsFile = "calls.csv"

// writeCalls writes the calls of a line as CSV. Think times are in milliseconds; of a
// call before which no connection had rested they are of no connection.
func writeCalls(path string, calls []call) error {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	// A bytes.Buffer takes every write.
	_ = w.Write([]string{"id", "rested", "planned_ms", "rest_ms", "connection", "attempts", "status", "error", "socket", "handler_runs"})
	ms := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds()*1000, 'f', 3, 64) }
	for _, c := range calls {
		_ = w.Write([]string{c.ID, strconv.FormatBool(c.Rested), ms(c.Planned), ms(c.Rest), c.Connection,
			strconv.Itoa(c.Attempts), strconv.Itoa(c.Status), c.Error, c.Socket, strconv.Itoa(c.Runs)})
	}
	w.Flush()
	return result.WriteFile(path, b.Bytes())
}
