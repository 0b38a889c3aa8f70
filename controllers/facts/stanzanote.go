package facts

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/crds/quantity"
)

// stanzaNote is how annotations hold CPU and memory of a container.
type stanzaNote struct {
	Requests map[string]string `json:"requests"`
	Limits   map[string]string `json:"limits"`
}

// writeStanza encodes CPU and memory; other resources are left out.
func writeStanza(requests, limits corev1.ResourceList) string {
	text := func(list corev1.ResourceList) map[string]string {
		out := map[string]string{}
		for _, name := range ScaledResources {
			if q, ok := list[name]; ok {
				out[string(name)] = q.String()
			}
		}
		return out
	}
	data, _ := json.Marshal(stanzaNote{text(requests), text(limits)}) // a struct of string maps always marshals
	return string(data)
}

// readStanza is the inverse of writeStanza. It rejects partly readable notes: a missing entry means
// that there was none.
func readStanza(text string) (requests, limits corev1.ResourceList, ok bool) {
	var note stanzaNote
	if json.Unmarshal([]byte(text), &note) != nil || note.Requests == nil || note.Limits == nil {
		return nil, nil, false
	}
	list := func(values map[string]string) (out corev1.ResourceList, ok bool) {
		out = corev1.ResourceList{}
		for _, name := range ScaledResources {
			value, there := values[string(name)]
			if !there {
				continue
			}
			q, err := quantity.Parse(value)
			if err != nil || q.Sign() < 0 {
				return nil, false
			}
			out[name] = q
		}
		return out, true
	}
	requests, ok = list(note.Requests)
	if !ok {
		return nil, nil, false
	}
	limits, ok = list(note.Limits)
	return requests, limits, ok
}
