package engine

import "runtime"

// SpareProcessor gives the program one processor of the Go scheduler more than it
// would have (GOMAXPROCS), and is for its main function to call. A thread that
// paces keeps its processor while it sleeps in a system call, until the runtime
// notices: everything else needs another.
//
// Not so in a real-time class. A thread of that leaves its CPU only when it blocks,
// and the runtime's background sweeper waits for the other processors without
// blocking (golang/go#76353): with more processors than CPUs the program hangs.
// Pinned to one CPU by `chrt -f` three runs of three did, and none of 28 without
// the spare one.
func SpareProcessor() {
	if !realTime() {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}
