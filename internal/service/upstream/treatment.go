package upstream

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"chokepoint/internal/adminapi"

	"github.com/valyala/fasthttp"
)

// treatment is what one request meets.
type treatment struct {
	delay  time.Duration
	fault  adminapi.Fault
	status int  // of the error answer, with FaultError and FaultStatus
	close  bool // "Connection: close"
}

// treat draws what befalls the next request under b.
func (d *draws) treat(b *behaviour) treatment {
	t := treatment{close: b.CloseAnswers}
	t.delay, t.fault = d.next(b)
	if t.fault != adminapi.FaultNone && b.FaultFirst > 0 && b.befallen.Add(1) > int64(b.FaultFirst) {
		t.fault = adminapi.FaultNone
	}
	return t.withStatus(b.FaultStatus)
}

func (t treatment) withStatus(status int) treatment {
	t.status = status
	if t.fault == adminapi.FaultError {
		t.status = fasthttp.StatusInternalServerError
	}
	return t
}

// own is what a request says of itself, by HeaderDelay and HeaderFault.
type own struct {
	delay    time.Duration
	hasDelay bool
	fault    adminapi.RequestFault
	hasFault bool
}

// readOwn reads both headers. The error is for the caller: one line that names the
// header and its value.
func readOwn(h *fasthttp.RequestHeader) (o own, err error) {
	if text := string(h.Peek(adminapi.HeaderDelay)); text != "" {
		o.hasDelay = true
		if o.delay, err = time.ParseDuration(text); err != nil || o.delay < 0 {
			return o, fmt.Errorf("%s %q: want a duration such as 2s", adminapi.HeaderDelay, text)
		}
	}
	text := string(h.Peek(adminapi.HeaderFault))
	if text == "" {
		return o, nil
	}
	o.hasFault = true
	if o.fault, err = adminapi.ParseRequestFault(text); err != nil {
		return o, err
	}
	f := o.fault
	switch {
	case f.Fault != adminapi.FaultNone && !slices.Contains(requestFaults, f.Fault):
		return o, fmt.Errorf("%s %q: choose one of none, %s", adminapi.HeaderFault, text, strings.Join(names(requestFaults), ", "))
	case f.First > 0 && len(h.Peek(adminapi.HeaderID)) == 0:
		return o, fmt.Errorf("%s %q: first counts the runs of an id; send %s", adminapi.HeaderFault, text, adminapi.HeaderID)
	}
	if err := checkStatus(f.Fault, f.Status); err != nil {
		return o, fmt.Errorf("%s %q: %w", adminapi.HeaderFault, text, err)
	}
	return o, nil
}

// over puts what the request says over what the stub was told; run is which run of
// its id this is.
func (o own) over(t treatment, run int) treatment {
	if o.hasDelay {
		t.delay = o.delay
	}
	if !o.hasFault {
		return t
	}
	t.fault, t.close = o.fault.Fault, t.close || o.fault.Close
	if o.fault.First > 0 && run > o.fault.First {
		t.fault = adminapi.FaultNone
	}
	return t.withStatus(o.fault.Status)
}
