//go:build !linux

// Package pghost is for Linux only: elsewhere there are no hosts to put a PostgreSQL in.
package pghost

// Server is for Linux only.
type Server struct{}
