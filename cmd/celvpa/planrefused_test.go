package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPodsThatWouldNotComeBackAreNotEvicted: the plan asks what admission would answer, as the updater does.
func TestPodsThatWouldNotComeBackAreNotEvicted(t *testing.T) {
	const (
		shares   = ", resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2, memory: 2Gi}}"
		defaults = "---\n{apiVersion: v1, kind: LimitRange, metadata: {name: defaults, namespace: web}, spec: {limits: [{type: Container, default: {cpu: 600m, memory: 256Mi}}]}}\n"
		refused  = "Admission would refuse the replacement pod: spec.resources: pods with resources at pod level are refused in a namespace with a LimitRange of type Container: " +
			"defaults; remove it, or remove spec.resources from the pod"
		ignores = "---\n{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: o}, spec: {mode: Enforce, match: {namespaces: [web]}, change: [{before: admission-mode/mode-off, decision: {name: never, when: 'true', do: Ignore, reason: New pods stay as they are}}]}}\n"
	)
	older := strings.Replace(inMode("Initial", "StatefulSet", "shop"), "metadata: {name: shop", "metadata: {name: older", 1)
	pods := func(mode, stanza, limits string) string {
		text := inMode(mode, "StatefulSet", "shop") + sized("StatefulSet", "", "shop", 2)
		for _, name := range []string{"a", "b"} {
			text += strings.Replace(running(name, "shop", "StatefulSet", "shop", "", stanza), "memory: 128Mi}}", "memory: 128Mi}"+limits+"}", 1)
		}
		return text
	}
	const waits = "b shop Wait update/budget-spent"
	evicted := []string{"a shop Evict update/evict", waits}
	resized := []string{"a shop InPlace update/resize", waits}
	both := func(rule string) []string {
		return []string{"a shop Wait " + rule, "b shop Wait " + rule}
	}
	for name, tt := range map[string]struct {
		text   string
		off    bool
		rows   []string
		reason string // of the first pod
	}{
		"admission would refuse them":       {text: pods("Recreate", shares, "") + defaults, rows: both("eviction/admission-refuses"), reason: refused},
		"there is no LimitRange":            {text: pods("Recreate", shares, ""), rows: evicted},
		"it is of another namespace":        {text: pods("Recreate", shares, "") + strings.Replace(defaults, "namespace: web", "namespace: other", 1), rows: evicted},
		"the gate is off":                   {text: pods("Recreate", shares, "") + defaults, off: true, rows: evicted},
		"an empty stanza is none":           {text: pods("Recreate", ", resources: {}", "") + defaults, rows: evicted},
		"empty limits are none":             {text: pods("Recreate", ", resources: {limits: {}}", "") + defaults, rows: evicted},
		"empty requests are none":           {text: pods("Recreate", ", resources: {requests: {}}", "") + defaults, rows: evicted},
		"a resize would bring the defaults": {text: pods("InPlaceOrRecreate", shares, "") + defaults, rows: both("resize/limit-range-defaults"), reason: "A resize would give defaults of a LimitRange of type Container to containers that share what the pod has: app"},
		"a resize has none to bring":        {text: pods("InPlaceOrRecreate", shares, ", limits: {cpu: 200m, memory: 256Mi}") + defaults, rows: resized},
		"a resize is stuck, and the pod would not come back": {text: strings.ReplaceAll(pods("InPlaceOrRecreate", shares, ", limits: {cpu: 200m, memory: 256Mi}"), "phase: Running", "conditions: [{type: PodResizePending, status: 'True', reason: Infeasible}], phase: Running") + defaults,
			rows: both("eviction/admission-refuses"), reason: refused},
		"admission would leave new pods as they are": {text: pods("Recreate", "", "") + ignores, rows: both("eviction/admission-ignores"), reason: "Admission would not change the replacement pod: New pods stay as they are (admission-mode/never)"},
		"a resize does not ask for that":             {text: pods("InPlaceOrRecreate", "", "") + ignores, rows: resized},
		"admission would use an older VPA":           {text: pods("Recreate", "", "") + older, rows: both("eviction/admission-by-another"), reason: "Admission would change the replacement pod by another VerticalPodAutoscaler, older"},
		"a resize does not ask for that either":      {text: pods("InPlaceOrRecreate", "", "") + older, rows: resized},
	} {
		t.Run(name, func(t *testing.T) {
			report, notes, err := plannedFrom(t, !tt.off, tt.text)
			require.NoError(t, err)
			require.Equal(t, tt.rows, rows(report), notes)
			if tt.reason != "" {
				require.Equal(t, tt.reason, report.Items[0].Reason)
			}
		})
	}
}
