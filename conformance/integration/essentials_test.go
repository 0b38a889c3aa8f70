package integration

import "testing"

// TestEssentials is what every user relies on, and all of this package that `make test` runs.
func TestEssentials(t *testing.T) {
	serve(t)
	t.Run("serving", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"recommend, and resize":                    fromUsageToAResizedPod,
			"recommend, evict, and admit":              recreateEvicts,
			"evict where a resize is refused":          aRefusedResizeBecomesAnEviction,
			"leave Off, Initial and lonely pods alone": offInitialAndLonelyPodsAreLeftAlone,
			"audit an overlay, then enforce it":        anOverlayIsAuditedThenEnforced,
			"refuse invalid VPAs":                      invalidVPAsAreRefused,
			"report a target that does not exist":      aTargetThatDoesNotExistIsReported,
			"serve metrics and health":                 metricsAndHealthAreServed,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
	t.Run("gone", podsAreAdmittedWhileCelvpaIsGone)
	t.Run("explain", why)
	t.Run("replace upstream's CRDs", theCRDsReplaceUpstreams)
}
