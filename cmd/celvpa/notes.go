package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/simulate/manifests"
)

// notebook collects what a user should know, in order.
type notebook struct {
	notes []string
}

// note tells something, once.
func (n *notebook) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(n.notes, text) {
		n.notes = append(n.notes, text)
	}
}

// podKinds are pods and what makes them.
var podKinds = []string{"CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "ReplicationController", "StatefulSet"}

// tellTwice notes which objects of some kinds are there more than once.
func (n *notebook) tellTwice(set *manifests.Set, kinds ...string) {
	for _, kind := range kinds {
		if err := set.Twice(kind); err != nil {
			for fault := range strings.Lines(err.Error()) {
				n.note("%s; the first counts", strings.TrimSpace(fault))
			}
		}
	}
}
