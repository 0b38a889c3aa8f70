// Package snapshot keeps what a backtest needs, manifests and usage, in one compressed file, with
// its own names or with others. Its format:
//
// A gzipped tar archive with, in this order, snapshot.json (a Head), manifests.yaml (documents, as
// kubectl reads them, without what a backtest has no use for), usage-00001.csv and so on (columns as
// in package usagefile, at most a few MiB each), and end.json (an End). Without the last one the
// file is not complete.
//
// Names are those of objects, pods, containers, namespaces and labels. Numbers, times, quantities
// and rules are never changed.
package snapshot

// Version is the version of the archive format that Write produces. Open refuses later ones.
const Version = 1

// The names of the files in an archive.
const (
	headName      = "snapshot.json"
	manifestsName = "manifests.yaml"
	usageName     = "usage-%05d.csv"
	endName       = "end.json"
)

// Head is the first file of an archive.
type Head struct {
	Version    int  `json:"celvpaSnapshot"`
	Anonymised bool `json:"anonymised"`
}

// End is the last file of an archive.
type End struct {
	Points int64    `json:"points"` // of usage, those that came twice counted twice
	Notes  []string `json:"notes"`  // remarks about the history; none in an anonymised snapshot, for they hold names
	// Faults counts what could not be read when the snapshot was made, or those it was made of; it
	// lacks that.
	Faults int `json:"faults"`
}
