// Package deadconn is the scenario of pooled connections that died while they rested,
// and of the request that is then put on one: a matrix of what the device on the path
// does, what the server did, and what the caller does about it.
//
// Every case has hosts of its own (package netlab): a caller, which is the victim, a
// router that is the device, and an upstream, which is the stub. The caller's pool is
// filled and rests, and then one request is judged: what became of it, on which
// connection, how often the server's handler ran for it, and how long it took. What is
// wanted is data, in cases.go, and is in the same words as what was got.
//
// The package refuses to judge by milliseconds: times are judged where they are a
// timeout's or a timer's. It does not measure what a defence costs.
package deadconn
