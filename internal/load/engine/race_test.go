//go:build race

package engine

// raceDetector slows every arrival down some fifteenfold.
const raceDetector = true
