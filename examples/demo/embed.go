// Package demo embeds what celvpa demo shows.
package demo

import "embed"

// Files are the manifests and the usage that Story is about.
//
//go:embed cluster usage.csv.gz
var Files embed.FS

// Story is what the demo prints, with a $ before the commands that it runs.
//
//go:embed story.txt
var Story string
