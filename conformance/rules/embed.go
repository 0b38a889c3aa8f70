// Package rules holds the test tables that every shipped rule must pass: what goes in, what comes out, and which rule
// did it. They are part of the program, so `celvpa test` runs them without a checkout.
package rules

import "embed"

// FS holds the tables.
//
//go:embed *.yaml
var FS embed.FS

// Dir is how the tables are called in positions: their folder in the repository.
const Dir = "conformance/rules"
