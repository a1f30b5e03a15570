package proc

import (
	"fmt"
	"os"
)

// Identity names a process so that another program can tell later, from what it
// was told or has read somewhere, that the process is gone. All fields are the
// system's own words.
type Identity struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // see startTime
	// Host and PIDNamespace say where the pid means something. The second is empty
	// where the system has no such thing.
	Host         string `json:"host"`
	PIDNamespace string `json:"pid_namespace,omitempty"`
}

// Self is the identity of this process.
func Self() (Identity, error) {
	host, err := os.Hostname()
	if err != nil {
		return Identity{}, fmt.Errorf("name this process: %w", err)
	}
	return Identity{PID: os.Getpid(), Start: startTime(os.Getpid()), Host: host, PIDNamespace: pidNamespace()}, nil
}

// Gone says that the process has certainly ended. It is false for a process of
// another host or pid namespace: what cannot be seen from here may be alive.
func (i Identity) Gone() bool {
	here, err := Self()
	if err != nil || i.PID <= 0 || i.Start == "" || i.Host != here.Host || i.PIDNamespace != here.PIDNamespace {
		return false
	}
	p := process{PID: i.PID, Start: i.Start}
	return !p.alive()
}
