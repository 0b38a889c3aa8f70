// Package harness starts what demonstrations and integration tests need: a lab, celvpa as a
// process, and objects from YAML files. It makes no assertions.
package harness
