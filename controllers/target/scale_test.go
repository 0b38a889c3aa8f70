package target

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Argo Rollouts with the blue/green strategy name the hash of the active ReplicaSet.
func TestASelectorOfOneRevisionSelectsThePodsOfAll(t *testing.T) {
	for selector, want := range map[string]string{
		"app=web,rollouts-pod-template-hash=5d8f":     "app=web",
		"app=web,pod-template-hash in (1, 2),tier":    "app=web,tier",
		"controller-revision-hash=web-7,app=web":      "app=web",
		"app=web,example.com/revision=4":              "app=web",
		"app=web,web-revision!=4":                     "app=web",
		"rollouts-pod-template-hash=5d8f":             "rollouts-pod-template-hash=5d8f",
		"app=web,hash=5d8f,revisions=2,version=green": "app=web,hash=5d8f,revisions=2,version=green",
		"app=pod-template-hash":                       "app=pod-template-hash",
	} {
		api := newScaleAPI(always(selector), "v1")
		require.Equal(t, want, api.look(t, thing("t"), asTarget), selector)
	}
}
