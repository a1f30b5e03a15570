package drain

import (
	"chokepoint/internal/adminapi"
	"chokepoint/internal/result"
)

// joined is a request with what became of it on both sides.
type joined struct {
	result.CaseRequest
	LateS    float64  `json:"late_s"` // how long after it was due it was sent
	Class    string   `json:"class"`
	OK       bool     `json:"ok"`
	Sent     int      `json:"sent"` // how often it was put on a connection
	Error    string   `json:"error,omitempty"`
	Client   string   `json:"client"`                // the client's end of its last connection
	Reused   bool     `json:"reused"`                // that connection had carried others
	LedTo    string   `json:"led_to,omitempty"`      // the gateway to which the balancer gave that connection; none behind an edge
	Passed   []string `json:"passed,omitempty"`      // the connections at the gateways that logged it
	AppConns []string `json:"connections,omitempty"` // the application's connections, one a row
}

// The classes of a request.
const (
	classOK           = "ok"
	classNeverReached = "never_reached"
	classButExecuted  = "failed_but_executed"
)

// classOf joins what the client got with the rows that the request left.
func classOf(ok bool, rows int) string {
	switch {
	case ok:
		return classOK
	case rows > 0:
		return classButExecuted
	}
	return classNeverReached
}

// count counts requests by class. One that was executed more than once counts as that
// too.
func count(all []joined) (c result.CaseCounts) {
	for _, r := range all {
		switch r.Class {
		case classOK:
			c.OK++
		case classNeverReached:
			c.NeverReached++
		case classButExecuted:
			c.FailedButExecuted++
		}
		if r.Runs > 1 {
			c.ExecutedTwice++
		}
	}
	return c
}

// byRequest are the rows of the application's table by the id of their request.
func byRequest(rows []adminapi.WorkResult) map[string][]adminapi.WorkResult {
	all := map[string][]adminapi.WorkResult{}
	for _, row := range rows {
		all[row.RequestID] = append(all[row.RequestID], row)
	}
	return all
}
