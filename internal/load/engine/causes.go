package engine

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"chokepoint/internal/load/ledger"
	"chokepoint/internal/load/wire"
	"chokepoint/internal/result"
)

// Causes, the keys of result.Endpoint.Causes.
const (
	// Of timeouts: the phase in which the client's deadline passed.
	CauseConnect  = "connect"
	CauseResponse = "response"
	CauseUnsent   = result.CauseUnsent // before the generator sent anything
	// Of connect errors.
	CauseRefused      = "refused"
	CauseUnreachable  = "unreachable"            // also of transport errors
	CauseTLS          = "tls"                    // a handshake that failed of anything else
	CauseTLSAuthority = "tls_authority"          // the server's certificate is of no known authority
	CauseTLSExpired   = "tls_expired"            // or not valid yet
	CauseTLSHost      = "tls_host"               // it is another host's
	CauseTLSClient    = "tls_client_certificate" // the server wants one, or another one
	CauseOutOfFiles   = "out_of_files"           // EMFILE, ENFILE: the generator's fault
	CauseOutOfPorts   = "out_of_ports"           // EADDRNOTAVAIL: likewise
	// Of transport errors.
	CauseEOF       = "eof"
	CauseReset     = "reset" // also of connect errors
	CauseMalformed = "malformed"
	CauseOversized = "oversized"
	// CauseOther is what the list does not foresee.
	CauseOther = "other"
)

// inTime is what came of a request that was over at ended. An answer, or an end of
// its connection, that is read at the deadline or after it is a timeout, however
// late the generator came to read it: the client had given up. Both engines look at
// the clock once, when the request is over.
func inTime(answer ledger.Answer, ended, deadline time.Duration) ledger.Answer {
	if ended >= deadline && (answer.Outcome.Answered() || answer.Outcome == ledger.TransportError) {
		return ledger.Answer{Outcome: ledger.Timeout, Cause: CauseResponse}
	}
	return answer
}

// connectFailure classifies the error of a dial that had until deadline.
func connectFailure(err error, deadline time.Time) ledger.Answer {
	var handshake *handshakeError
	cause := CauseOther
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		cause = CauseOutOfFiles
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		cause = CauseOutOfPorts
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), !time.Now().Before(deadline):
		return ledger.Answer{Outcome: ledger.Timeout, Cause: CauseConnect}
	case errors.As(err, &handshake):
		cause = handshake.cause()
	case errors.Is(err, syscall.ECONNREFUSED):
		cause = CauseRefused
	case errors.Is(err, syscall.ECONNRESET):
		cause = CauseReset
	case unreachable(err):
		cause = CauseUnreachable
	}
	return ledger.Answer{Outcome: ledger.ConnectError, Cause: cause}
}

// unreachable says that the kernel gave the peer up: no route, or no
// acknowledgement for longer than it tries.
func unreachable(err error) bool {
	return errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.ETIMEDOUT)
}

// transportFailure classifies the error of a request on an open connection; raw is
// the socket's own last error, which TLS does not always pass on.
func transportFailure(err, raw error) ledger.Answer {
	var cause string
	switch {
	case errors.Is(err, wire.ErrMalformed), errors.Is(err, wire.ErrOversized):
		cause = refusal(err)
	case errors.Is(raw, os.ErrDeadlineExceeded):
		return ledger.Answer{Outcome: ledger.Timeout, Cause: CauseResponse}
	case raw != nil:
		cause = lost(raw)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		cause = CauseEOF
	default:
		// The bytes came, and TLS refused them.
		cause = CauseMalformed
	}
	return ledger.Answer{Outcome: ledger.TransportError, Cause: cause}
}

// refusal is the cause of an answer that wire refuses.
func refusal(err error) string {
	if errors.Is(err, wire.ErrOversized) {
		return CauseOversized
	}
	return CauseMalformed
}

// lost is the cause of an error that ended a connection.
func lost(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return CauseReset
	case unreachable(err):
		return CauseUnreachable
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return CauseEOF
	}
	return CauseOther
}
