// Package examples embeds what celvpa demo shows.
package examples

import "embed"

// Demo holds the story of celvpa demo, demo.txt, and below demo/ the manifests and the usage that it is about.
//
//go:embed demo demo.txt
var Demo embed.FS
