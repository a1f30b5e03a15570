// Package rolling is the scenario of one step of a rolling deploy: nginx keeps
// connections to two servers, and one of them goes away. A matrix of how it ends
// (gracefully, at once, by SIGKILL), whether its address goes with it, whether requests
// are in flight, and what the balancer is told to do about it.
//
// Every case has hosts of its own (package netlab): a client, the balancer, which is the
// nginx of this machine with a configuration that a reader can replace, and two stubs on
// one subnet. Each request has an id, by which what the client saw is joined with the
// balancer's log and with the runs of the stubs' handlers. What is wanted is data, in
// cases.go, and is in the same words as what was got.
//
// The package refuses to judge by milliseconds, and it does not choose nginx's settings:
// what the configuration does not say is nginx's default.
package rolling
