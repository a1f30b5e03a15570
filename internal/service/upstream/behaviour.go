package upstream

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"chokepoint/internal/adminapi"
	"chokepoint/internal/delay"
)

// MaxBodyBytes is the largest body that a good answer can be given.
const MaxBodyBytes = 64 << 20

// answerBody is the body of a good answer, before it is padded.
const answerBody = `{"service":"upstream"}`

var (
	requestFaults = []adminapi.Fault{
		adminapi.FaultError, adminapi.FaultStatus, adminapi.FaultHang, adminapi.FaultClose,
		adminapi.FaultCloseMid, adminapi.FaultReset, adminapi.FaultResetMid,
	}
	idleEnds         = []adminapi.IdleEnd{adminapi.IdleEndFIN, adminapi.IdleEndHalf, adminapi.IdleEndRST}
	connectionFaults = []adminapi.Fault{adminapi.FaultRefuse, adminapi.FaultTLSHang}
)

// behaviour is an adminapi.Behaviour that was found valid, ready to be used.
type behaviour struct {
	adminapi.Behaviour
	delay       delay.Delay
	body        []byte
	idleTimeout time.Duration // 0: none
	// befallen counts the requests that the fault has befallen, for FaultFirst.
	befallen atomic.Int64
}

// parseBehaviour validates b and puts it into its normal form: the rate is 0
// without a fault and 1 with a connection fault, and without an idle timeout there
// is no way in which an idle connection ends.
func parseBehaviour(b adminapi.Behaviour) (*behaviour, error) {
	if b.Delay == "" {
		return nil, fmt.Errorf("delay is missing; write 0s for none (a behaviour is replaced as a whole)")
	}
	drawn, err := delay.Parse(b.Delay)
	if err != nil {
		return nil, err
	}
	if b.BodyBytes < 0 || b.BodyBytes > MaxBodyBytes {
		return nil, fmt.Errorf("body bytes %d: must be from 0 to %d", b.BodyBytes, MaxBodyBytes)
	}
	// Written so that NaN is refused too.
	if !(b.FaultRate >= 0 && b.FaultRate <= 1) {
		return nil, fmt.Errorf("fault rate %v: must be from 0 to 1", b.FaultRate)
	}
	switch {
	case b.Fault == adminapi.FaultNone:
		b.FaultRate = 0
	case slices.Contains(connectionFaults, b.Fault):
		b.FaultRate = 1
	case !slices.Contains(requestFaults, b.Fault):
		return nil, fmt.Errorf("unknown fault %q; choose one of %s, or none", b.Fault, strings.Join(FaultNames(), ", "))
	case b.FaultRate == 0:
		return nil, fmt.Errorf("fault %q with fault rate 0 would do nothing; give a rate above 0, up to 1", b.Fault)
	}
	idleTimeout, err := parseIdle(&b)
	if err != nil {
		return nil, err
	}
	switch {
	case b.FaultFirst < 0:
		return nil, fmt.Errorf("fault first %d: must be 0, for every request, or more", b.FaultFirst)
	case b.FaultFirst > 0 && !slices.Contains(requestFaults, b.Fault):
		return nil, fmt.Errorf("fault first %d counts requests, and fault %q befalls none", b.FaultFirst, b.Fault)
	}
	if err := checkStatus(b.Fault, b.FaultStatus); err != nil {
		return nil, err
	}
	return &behaviour{Behaviour: b, delay: drawn, body: padded(answerBody, b.BodyBytes), idleTimeout: idleTimeout}, nil
}

// parseIdle reads how an idle connection ends, and leaves its normal form in b.
func parseIdle(b *adminapi.Behaviour) (time.Duration, error) {
	if b.IdleEnd != "" && !slices.Contains(idleEnds, b.IdleEnd) {
		return 0, fmt.Errorf("unknown idle end %q; choose one of %s", b.IdleEnd, strings.Join(IdleEndNames(), ", "))
	}
	var timeout time.Duration
	if b.IdleTimeout != "" {
		var err error
		if timeout, err = time.ParseDuration(b.IdleTimeout); err != nil || timeout < 0 {
			return 0, fmt.Errorf("idle timeout %q: want a duration such as 2s, or 0s for none", b.IdleTimeout)
		}
	}
	switch {
	case timeout == 0:
		b.IdleTimeout, b.IdleEnd = "", ""
	case b.IdleEnd == "":
		b.IdleEnd = adminapi.IdleEndFIN
	}
	return timeout, nil
}

// checkStatus refuses a status that is none, or belongs to another fault.
func checkStatus(fault adminapi.Fault, status int) error {
	switch {
	case fault == adminapi.FaultStatus && (status < 400 || status > 599):
		return fmt.Errorf("fault %q with status %d: want 400 to 599", fault, status)
	case fault != adminapi.FaultStatus && status != 0:
		return fmt.Errorf("status %d goes with fault %q only, and the fault is %q", status, adminapi.FaultStatus, fault)
	}
	return nil
}

// IdleEndNames lists every way in which an idle connection can end.
func IdleEndNames() []string { return names(idleEnds) }

// FaultNames lists every fault, those of requests first.
func FaultNames() []string {
	return names(slices.Concat(requestFaults, connectionFaults))
}

func names[T ~string](values []T) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return texts
}

// onConnections says whether the fault befalls connections rather than requests.
func (b *behaviour) onConnections() bool { return slices.Contains(connectionFaults, b.Fault) }

// padded fills doc up to size bytes with spaces, which JSON ignores.
func padded(doc string, size int) []byte {
	return append([]byte(doc), bytes.Repeat([]byte(" "), max(0, size-len(doc)))...)
}

// draws is the seeded chance of a server. Delays and faults come from separate
// streams, so that a change of the fault rate leaves the delays as they were.
type draws struct {
	mu            sync.Mutex
	delay, faults *rand.Rand
	scale         float64 // on every delay
}

func newDraws(seed uint64, scale float64) *draws {
	return &draws{delay: rand.New(rand.NewPCG(seed, 1)), faults: rand.New(rand.NewPCG(seed, 2)), scale: scale}
}

// next draws what befalls the next request under b, whether or not FaultFirst still
// lets it.
func (d *draws) next(b *behaviour) (time.Duration, adminapi.Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	took := time.Duration(float64(b.delay.Sample(d.delay)) * d.scale)
	// Drawn for every request, fault or none, for the same reason as above.
	coin := d.faults.Float64()
	if b.onConnections() || coin >= b.FaultRate {
		return took, adminapi.FaultNone
	}
	return took, b.Fault
}
