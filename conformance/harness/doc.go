// Package harness starts the real things that a demonstration or an integration test needs: a lab,
// celvpa as a process, and objects from YAML files. It holds no assertions and no story.
package harness
