package adminapi

import "time"

// WorkResult is one piece of work that the victim's POST /work has done: the body of
// its answer, and a row of the table that -work-table names, whose columns have the
// names of the fields. The row is the effect of the work: what has no row was not done.
type WorkResult struct {
	RequestID      string `json:"request_id"`      // HeaderID, empty if there was none
	IdempotencyKey string `json:"idempotency_key"` // empty if there was none
	// Attempt counts the rows of a request id, from 1.
	Attempt    int       `json:"attempt"`
	Victim     string    `json:"victim"`     // its -name
	Connection string    `json:"connection"` // which carried the request to the victim, as HeaderConnection has it
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
}
