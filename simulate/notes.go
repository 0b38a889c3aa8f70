package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/faults"
)

// note adds a note unless it exists.
func (c *Cluster) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if c.noted == nil {
		c.noted = map[string]bool{}
	}
	if !c.noted[text] {
		c.noted[text] = true
		c.notes = append(c.notes, text)
	}
}

// lacking says of an object that the cluster lacks where it was looked for; wayOut is what to do about it.
func (c *Cluster) lacking() (what, wayOut string) {
	if c.set.IsLive() {
		return "was not found in the cluster", ""
	}
	return "is not in the manifests", "; add its manifest with -f"
}

const maxNames = 5

// Few joins the first names, with an ellipsis for the rest.
func Few(names []string) string {
	if len(names) > maxNames {
		names = append(slices.Clone(names[:maxNames]), "…")
	}
	return strings.Join(names, ", ")
}

// Counted formats a number with its noun, e.g. 1 row or 2 rows.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// podKinds are pods and their controllers.
var podKinds = []string{"CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "ReplicationController", "StatefulSet"}

// noteTwice notes duplicate objects of some kinds.
func (c *Cluster) noteTwice(kinds ...string) {
	for _, kind := range kinds {
		for _, fault := range faults.List(c.set.Twice(kind)) {
			c.note("%v; the first counts", fault)
		}
	}
}
