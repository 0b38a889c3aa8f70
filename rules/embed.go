// Package rules embeds the policy that ships with celvpa: the rule sets and the pipeline that orders them.
// No logic in Go lives here; to change what celvpa decides, edit the YAML.
package rules

import "embed"

// FS holds the shipped rule files.
//
//go:embed *.yaml
var FS embed.FS

// Pipelines holds the pipelines follow and careful, with their rule sets and tables (docs/numbers.md). They are loaded where they are asked for.
//
//go:embed pipelines/*.yaml
var Pipelines embed.FS

// PipelineNames are those of Pipelines.
var PipelineNames = []string{"follow", "careful"}

// DefaultPipeline is the pipeline that runs unless an operator names another.
const DefaultPipeline = "default"

// Dir is how the shipped files are called in positions: their folder in the repository.
const Dir = "rules"
