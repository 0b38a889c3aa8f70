package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/celvpa/celvpa/cmd/celvpa/manifests"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
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

// readVPAs are the VerticalPodAutoscalers that can be used, as they are written. Of several with one name the first counts. The
// error tells of those that cannot be used.
func (n *notebook) readVPAs(set *manifests.Set) ([]*vpav1.VerticalPodAutoscaler, error) {
	var faults []error
	documents, err := set.VPAs()
	schema, broken := policy.VPASchema()
	faults = append(faults, err, broken)
	if broken != nil {
		return nil, errors.Join(faults...)
	}
	var out []*vpav1.VerticalPodAutoscaler
	seen := map[string]bool{}
	for i := range documents {
		d := &documents[i]
		if seen[d.Key()] {
			continue
		}
		seen[d.Key()] = true
		var object map[string]any
		if err := json.Unmarshal(d.JSON, &object); err == nil {
			if large := schema.TooLarge(object, nil); len(large) > 0 {
				faults = append(faults, fmt.Errorf("%s: %s cannot be used: %s: %s", d.Source, d, large[0].Field, large[0].Message))
				continue
			}
		}
		v, err := d.VPA()
		if err != nil {
			faults = append(faults, err)
			continue
		}
		for _, unknown := range vpav1.Unknown(d.JSON) {
			n.note("%s: %s: %v; it has no effect", d.Source, d, unknown)
		}
		v.Name, v.APIVersion, v.Kind = d.Name, d.APIVersion, d.Kind
		out = append(out, &v)
	}
	return out, errors.Join(faults...)
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
