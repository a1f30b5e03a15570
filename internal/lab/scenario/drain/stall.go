package drain

import (
	"slices"
	"time"
)

// maxUnread is how long before its gateway's signal a request may be due, and
// meet the close that the signal brings. On a machine that has a processor for everyone
// it is sent, and the gateway reads it, within a few milliseconds.
const maxUnread = 20 * time.Millisecond

// signalled is a gateway that was sent its signal. Times are from the moment at which the
// first gateway was told to end.
type signalled struct {
	gateway string
	// mayLose is from when on requests on the gateway may fail without having reached the
	// application: that of the signal, or of what comes before it.
	mayLose time.Duration
	// cutsOff is when the gateway's drain is over.
	cutsOff time.Duration
}

// signalled is a gateway that was told to end and then sent its signal, behind a balancer
// that may cut its clients off.
func (e End) signalled(gateway string, told, signal time.Duration, b Balancer) signalled {
	g := signalled{gateway: gateway, mayLose: signal, cutsOff: signal + e.Drain}
	if e.Drain == 0 {
		g.cutsOff = told + e.grace()
	}
	if b.Terminate {
		g.mayLose = min(g.mayLose, told+b.DeregistrationDelay)
	}
	return g
}

// lay is how long a request was held up on its way to the gateway when the gateway began
// to end, because the client, the balancer or the gateway was not given a processor; 0 if
// that is not what became of it. Such a request says nothing of the setup: a client that
// wakes sends at once what it should have sent one by one, and all of it meets the close.
// It was due while none may fail, and its connection was closed, without an answer, between
// the signal and the end of the drain; no handler ran for it. One that failed before anything was done to the gateway is a finding, and so
// is one that the gateway held until it cut it off, one that was sent anew, and one whose
// gateway is not known.
func (g signalled) lay(r joined) time.Duration {
	due, failed := seconds(r.AtS-r.LateS), seconds(r.AtS+r.Seconds)
	closed := slices.Contains([]string{gotReset, gotPipe, gotEOF}, r.Got)
	if r.LedTo != g.gateway || r.Class != classNeverReached || r.Sent != 1 || !closed ||
		failed < g.mayLose || failed >= g.cutsOff {
		return 0
	}
	if lay := g.mayLose - due; lay > maxUnread {
		return lay
	}
	return 0
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// unread is a *Late if a request was held up on its way to a gateway that ended.
func unread(signals []signalled, all []joined) error {
	for _, g := range signals {
		for _, r := range all {
			if by := g.lay(r); by > 0 {
				return &Late{r.ID + " on its way to " + g.gateway, by}
			}
		}
	}
	return nil
}
