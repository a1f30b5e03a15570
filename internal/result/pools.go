package result

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// PoolsFile has the pools of the victims of a case over time, in the case's folder.
const PoolsFile = "pools.csv"

// PoolRow is one row of pools.csv: the pool of one victim at one moment.
type PoolRow struct {
	AtS         float64 // scenario seconds from the start of the load
	Victim      string  // as CaseVictim names it
	Workers     int     // alive
	Busy        int
	Queued      int // requests that wait for a worker
	PermitsHeld int
	Connections int // accepted and open
}

var poolColumns = []string{"at_s", "victim", "workers", "busy", "queued", "permits_held", "connections"}

func (r *PoolRow) counts() []*int {
	return []*int{&r.Workers, &r.Busy, &r.Queued, &r.PermitsHeld, &r.Connections}
}

// WritePools writes rows as CSV with a header, whole or not at all.
func WritePools(path string, rows []PoolRow) error {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(poolColumns) // a bytes.Buffer takes every write
	for _, r := range rows {
		row := []string{strconv.FormatFloat(r.AtS, 'f', 2, 64), r.Victim}
		for _, n := range r.counts() {
			row = append(row, strconv.Itoa(*n))
		}
		_ = w.Write(row)
	}
	w.Flush()
	return WriteFile(path, b.Bytes())
}

// ParsePools reads what WritePools wrote. An error names the line.
func ParsePools(from io.Reader) ([]PoolRow, error) {
	r := csv.NewReader(from)
	r.FieldsPerRecord = len(poolColumns)
	header, err := r.Read()
	if err != nil || !slices.Equal(header, poolColumns) {
		return nil, fmt.Errorf("line 1 is not the header that a run writes: %.100q", header)
	}
	var rows []PoolRow
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := r.FieldPos(0)
		row := PoolRow{Victim: fields[1]}
		if row.AtS, err = parseFinite(fields[0]); err != nil || math.Abs(row.AtS) > longestRun.Seconds() {
			return nil, fmt.Errorf("line %d: at_s is %.40q, want seconds", line, fields[0])
		}
		for i, field := range row.counts() {
			if *field, err = strconv.Atoi(fields[2+i]); err != nil || *field < 0 {
				return nil, fmt.Errorf("line %d: %s is %.40q, want a count", line, poolColumns[2+i], fields[2+i])
			}
		}
		rows = append(rows, row)
	}
}
