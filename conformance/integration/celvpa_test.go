package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
)

// TestCelvpaOnARealControlPlane runs what else needs the shared celvpa, in parallel and in
// namespaces of their own, stops celvpa, and runs what needs the API server without it.
func TestCelvpaOnARealControlPlane(t *testing.T) {
	serve(t)
	t.Run("serving", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"what gets in the way is warned about":        whatGetsInTheWayIsWarnedAbout,
			"a custom controller is followed to its pods": aCustomControllerIsFollowedToItsPods,
			"the first pod of a custom kind is changed":   theFirstPodOfACustomKindIsChanged,
			"a candidate changes what the diff predicts":  aCandidateChangesWhatTheDiffPredicts,
			"one overlay on a shared setting":             oneOverlayOnASharedSettingMovesEveryRule,
			"a pinned pipeline is used":                   aPinnedPipelineIsUsed,
			"ignored namespaces are not served":           ignoredNamespacesAreNotServed,
			"metrics that begin late starve nobody":       metricsThatBeginLateStarveNobody,
			"a new Deployment under an old VPA":           aNewDeploymentUnderAnOldVPAStarvesNobody,
			"a container that is added is not starved":    aContainerThatIsAddedIsNotStarved,

			// Each starts recommenders of its own.
			"upstream hands over to celvpa and takes over again":    upstreamHandsOverToCelvpaAndTakesOverAgain,
			"checkpoints come and go with what they are about":      checkpointsComeAndGoWithWhatTheyAreAbout,
			"what is behind gates follows the VPA":                  whatIsBehindGatesFollowsTheVPA,
			"OOMs of before the first cycle count":                  oomsOfBeforeTheFirstCycleCount,
			"a restart loses nothing":                               aRestartLosesNothing,
			"history of a real Prometheus is recommended from":      historyOfARealPrometheusIsRecommendedFrom,
			"without its Prometheus it starts all the same":         withoutItsPrometheusItStartsAllTheSame,
			"external metrics are recommended from":                 externalMetricsAreRecommendedFrom,
			"a target that cannot be read keeps its recommendation": aTargetThatCannotBeReadKeepsItsRecommendation,
			"a process that may read nothing stops when asked to":   aProcessThatMayReadNothingStopsWhenAskedTo,
			"the permissions in the docs are those it needs":        thePermissionsInTheDocsAreThoseItNeeds,
			"a namespace without permission stops no other":         aNamespaceWithoutPermissionStopsNoOther,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
	withoutCelvpa(t)
	t.Run("alone", func(t *testing.T) { // the API server, or with a webhook that a test starts: one after the other
		t.Run("invalid VPAs are refused as early as they can be", invalidVPAsAreRefusedAsEarlyAsTheyCanBe)
		t.Run("celvpa admit says what the webhook does", admitSaysWhatTheWebhookDoes)
		t.Run("the admission policy stands in for the webhook", theAdmissionPolicyStandsInForTheWebhook)
		t.Run("one rule file changes the webhook and the API server", oneRuleFileChangesTheWebhookAndTheAPIServer)
		t.Run("a stored VPA that cannot be read harms no other", aStoredVPAThatCannotBeReadHarmsNoOther)
	})
}

// podsAreAdmittedWhileCelvpaIsGone stops the shared celvpa: its webhook is
// registered with failurePolicy Ignore, and pods must come up without it.
func podsAreAdmittedWhileCelvpaIsGone(t *testing.T) {
	require.NoError(t, celvpa.Stop(), "a stop on request is not an error")
	ns := namespace(t, "it-gone")
	create(t, steady(ns, "web", 1))
	hang.Eventually(t, "a pod without celvpa", func(context.Context) (bool, error) { return len(pods(t, ns)) == 1, nil })
}

// TestEssentials is what every user relies on, and all of this package that `make test` runs.
func TestEssentials(t *testing.T) {
	serve(t)
	t.Run("serving", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"recommend, and resize":                      fromUsageToAResizedPod,
			"recommend, evict, and admit":                recreateEvicts,
			"evict where a resize is refused":            aRefusedResizeBecomesAnEviction,
			"leave Off, Initial and lonely pods alone":   offInitialAndLonelyPodsAreLeftAlone,
			"audit an overlay, then enforce it":          anOverlayIsAuditedThenEnforced,
			"an overlay is for namespaces by label":      anOverlayIsForNamespacesByLabel,
			"an overlay is for workloads by label":       anOverlayIsForWorkloadsByLabel,
			"rules read workloads, namespaces and nodes": rulesReadWorkloadsNamespacesAndNodes,
			"refuse invalid VPAs":                        invalidVPAsAreRefused,
			"report a target that does not exist":        aTargetThatDoesNotExistIsReported,
			"serve metrics and health":                   metricsAndHealthAreServed,
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
