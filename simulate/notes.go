package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/faults"
)

// note adds to what Notes returns, once.
func (c *Cluster) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.notes, text) {
		c.notes = append(c.notes, text)
	}
}

// maxNames is how many names one note lists.
const maxNames = 5

// Few lists the first names of many, with an ellipsis for the others.
func Few(names []string) string {
	if len(names) > maxNames {
		names = append(slices.Clone(names[:maxNames]), "…")
	}
	return strings.Join(names, ", ")
}

// Counted is a number with its noun, e.g. 1 row or 2 rows.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// podKinds are pods and what makes them.
var podKinds = []string{"CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "ReplicationController", "StatefulSet"}

// noteTwice notes the objects of some kinds that are there more than once.
func (c *Cluster) noteTwice(kinds ...string) {
	for _, kind := range kinds {
		for _, fault := range faults.List(c.set.Twice(kind)) {
			c.note("%v; the first counts", fault)
		}
	}
}
