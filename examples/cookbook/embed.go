// Package cookbook embeds overlays that operators ask for, each with its test table.
package cookbook

import "embed"

// FS holds a file per recipe, whose first line says what it does.
//
//go:embed *.yaml
var FS embed.FS
