//go:build race

package model

// slowdown is how much longer a test may take under the race detector.
const slowdown = 10
