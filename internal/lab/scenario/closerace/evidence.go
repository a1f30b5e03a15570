package closerace

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"time"

	"chokepoint/internal/result"
)

// callsFile is the file of a line's folder that has every call.
const callsFile = "calls.csv"

// callColumns are those of callsFile. Times are in milliseconds; the first call of a
// caller has no think time.
var callColumns = []string{"id", "rested", "planned_ms", "rest_ms", "took_ms", "connection", "attempts", "status", "error", "socket", "handler_runs"}

func writeCalls(path string, calls []call) error {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	// A bytes.Buffer takes every write.
	_ = w.Write(callColumns)
	ms := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds()*1000, 'f', 3, 64) }
	for _, c := range calls {
		_ = w.Write([]string{c.ID, strconv.FormatBool(c.Rested), ms(c.Planned), ms(c.Rest), ms(c.Took), c.Connection,
			strconv.Itoa(c.Attempts), strconv.Itoa(c.Status), c.Error, c.Socket, strconv.Itoa(c.Runs)})
	}
	w.Flush()
	return result.WriteFile(path, b.Bytes())
}

// readCalls reads what writeCalls wrote.
func readCalls(path string) ([]call, error) {
	f, err := result.Open(path, result.MaxInput)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) == 0 || !slices.Equal(rows[0], callColumns) {
		return nil, fmt.Errorf("%s is not what a run writes (%v)", path, err)
	}
	var calls []call
	for i, row := range rows[1:] {
		c := call{ID: row[0], Connection: row[5], Error: row[8], Socket: row[9]}
		var errs [7]error
		c.Rested, errs[0] = strconv.ParseBool(row[1])
		c.Planned, errs[1] = time.ParseDuration(row[2] + "ms")
		c.Rest, errs[2] = time.ParseDuration(row[3] + "ms")
		c.Took, errs[3] = time.ParseDuration(row[4] + "ms")
		c.Attempts, errs[4] = strconv.Atoi(row[6])
		c.Status, errs[5] = strconv.Atoi(row[7])
		c.Runs, errs[6] = strconv.Atoi(row[10])
		for _, err := range errs {
			if err != nil {
				return nil, fmt.Errorf("%s line %d: %w", path, i+2, err)
			}
		}
		calls = append(calls, c)
	}
	return calls, nil
}
