package upstream

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
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
		adminapi.FaultError, adminapi.FaultHang, adminapi.FaultClose,
		adminapi.FaultCloseMid, adminapi.FaultReset, adminapi.FaultResetMid,
	}
	connectionFaults = []adminapi.Fault{adminapi.FaultRefuse, adminapi.FaultTLSHang}
)

// behaviour is an adminapi.Behaviour that was found valid, ready to be used.
type behaviour struct {
	adminapi.Behaviour
	delay delay.Delay
	body  []byte
}

// parseBehaviour validates b and puts it into its normal form: the rate is 0
// without a fault and 1 with a connection fault.
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
	return &behaviour{Behaviour: b, delay: drawn, body: padded(answerBody, b.BodyBytes)}, nil
}

// FaultNames lists every fault, those of requests first.
func FaultNames() []string {
	var names []string
	for _, f := range slices.Concat(requestFaults, connectionFaults) {
		names = append(names, string(f))
	}
	return names
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

// next draws what befalls the next request under b.
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
