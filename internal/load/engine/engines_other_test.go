//go:build !linux

package engine

// clients makes, for each engine, a client that sends one request at a time, and
// what closes it.
var clients = map[Kind]newClient{Goroutines: goroutineClient}
