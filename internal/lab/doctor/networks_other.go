//go:build !linux

package doctor

// networkChecks: there are no hosts here, and the sandbox says so.
var networkChecks []check
