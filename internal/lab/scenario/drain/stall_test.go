package drain

import (
	"errors"
	"testing"
	"time"

	"chokepoint/internal/result"
)

// TestWhatLayUnreadIsToldFromFindings: a request is excused only if it was sent well
// before it may fail, and lay on its way to a gateway that then closed it.
func TestWhatLayUnreadIsToldFromFindings(t *testing.T) {
	// The second of a rolling restart, which is sent its signal 1 s after the first was told
	// to end, and drains for 0.4 s.
	g := End{PreStop: 500 * time.Millisecond, Drain: 400 * time.Millisecond}.
		signalled("gw2", 500*time.Millisecond, time.Second, Balancer{})
	lay := func(change func(*joined)) joined {
		r := joined{
			CaseRequest: result.CaseRequest{ID: "r7", AtS: 0.85, Seconds: 0.16, Got: gotEOF},
			Class:       classNeverReached, Sent: 1, LedTo: "gw2", Reused: true,
		}
		if change != nil {
			change(&r)
		}
		return r
	}
	for name, tc := range map[string]struct {
		r       joined
		excused bool
	}{
		"lay for 150 ms, and was closed":          {lay(nil), true},
		"was reset":                               {lay(func(r *joined) { r.Got = gotReset }), true},
		"was reset before all was written":        {lay(func(r *joined) { r.Got = gotPipe }), true},
		"on a connection that had carried none":   {lay(func(r *joined) { r.Reused = false }), true},
		"was sent late, at the signal":            {lay(func(r *joined) { r.AtS, r.LateS, r.Seconds = 1.001, 0.151, 0.001 }), true},
		"was due after the signal":                {lay(func(r *joined) { r.AtS, r.LateS, r.Seconds = 1.2, 0.19, 0.001 }), false},
		"was late, and failed before the signal":  {lay(func(r *joined) { r.AtS, r.LateS, r.Seconds = 0.95, 0.15, 0.001 }), false},
		"met the close":                           {lay(func(r *joined) { r.AtS, r.Seconds = 0.99, 0.02 }), false},
		"sent after the signal":                   {lay(func(r *joined) { r.AtS, r.Seconds = 1.001, 0.15 }), false},
		"failed before the signal":                {lay(func(r *joined) { r.Seconds = 0.1 }), false},
		"was held until it was cut off":           {lay(func(r *joined) { r.Seconds = 0.56 }), false},
		"was executed":                            {lay(func(r *joined) { r.Class, r.Runs = classButExecuted, 1 }), false},
		"was answered with 200":                   {lay(func(r *joined) { r.Class, r.Got, r.OK = classOK, "200", true }), false},
		"was answered with 502":                   {lay(func(r *joined) { r.Got = "502" }), false},
		"was never answered":                      {lay(func(r *joined) { r.Got, r.Seconds = "no answer", 20 }), false},
		"was refused":                             {lay(func(r *joined) { r.Got = "ECONNREFUSED" }), false},
		"was on a gateway that was not told":      {lay(func(r *joined) { r.LedTo = "gw1" }), false},
		"was on nobody knows which":               {lay(func(r *joined) { r.LedTo = "" }), false},
		"was sent again":                          {lay(func(r *joined) { r.Sent = 2 }), false},
		"was never put on a connection":           {lay(func(r *joined) { r.Sent = 0 }), false},
		"before the gateway was told, and failed": {lay(func(r *joined) { r.AtS, r.Seconds = -0.3, 0.01 }), false},
	} {
		by := g.lay(tc.r)
		if (by > 0) != tc.excused {
			t.Errorf("%s: excused for %v; want excused %v", name, by, tc.excused)
		}
		if off := by - 150*time.Millisecond; tc.excused && off.Abs() > time.Microsecond {
			t.Errorf("%s: it lay for %v, want 150ms", name, by)
		}
		err := unread([]signalled{{gateway: "gw1"}, g}, []joined{lay(func(r *joined) { r.Class = classOK }), tc.r})
		if late := new(Late); errors.As(err, &late) != tc.excused || tc.excused && late.What != "r7 on its way to gw2" {
			t.Errorf("%s: %v; want it too late %v", name, err, tc.excused)
		}
	}
}

// TestWhenRequestsMayBeLost: what comes first of the signal and of the balancer's
// termination is what no request is excused after.
func TestWhenRequestsMayBeLost(t *testing.T) {
	const told, signal = 10 * time.Second, 13 * time.Second
	for name, tc := range map[string]struct {
		end      End
		balancer Balancer
		want     signalled
	}{
		"a drain": {End{Drain: 5 * time.Second}, Balancer{Propagation: time.Second},
			signalled{"gw1", signal, 18 * time.Second}},
		"no bound but the grace": {End{Grace: 30 * time.Second}, Balancer{},
			signalled{"gw1", signal, 40 * time.Second}},
		"terminated before the signal": {End{Drain: 5 * time.Second}, Balancer{DeregistrationDelay: 2 * time.Second, Terminate: true},
			signalled{"gw1", 12 * time.Second, 18 * time.Second}},
		"terminated after it": {End{Drain: 5 * time.Second}, Balancer{DeregistrationDelay: 4 * time.Second, Terminate: true},
			signalled{"gw1", signal, 18 * time.Second}},
		"a delay after which nothing happens": {End{Drain: 5 * time.Second}, Balancer{DeregistrationDelay: time.Second},
			signalled{"gw1", signal, 18 * time.Second}},
	} {
		if got := tc.end.signalled("gw1", told, signal, tc.balancer); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
