package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// large is a valid object with full container policies.
func large(policies int) map[string]any {
	amounts := func(value string) map[string]any {
		out := map[string]any{"cpu": value, "memory": value}
		for i := range 30 {
			out[fmt.Sprintf("example.com/device-%d", i)] = value
		}
		return out
	}
	var list []any
	for i := range policies {
		list = append(list, map[string]any{
			"containerName": fmt.Sprintf("%s-%03d", strings.Repeat("c", 59), i),
			"minAllowed":    amounts("1"), "maxAllowed": amounts("2"),
			"controlledResources": []any{"cpu", "memory"},
			"requestToLimitRatio": map[string]any{"cpu": map[string]any{"type": "Factor", "factor": 1.5}},
		})
	}
	return map[string]any{
		"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
		"metadata": map[string]any{"name": "web", "namespace": "shop"},
		"spec": map[string]any{
			"targetRef":      map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
			"resourcePolicy": map[string]any{"containerPolicies": list, "podPolicies": map[string]any{"minAllowed": amounts("500"), "maxAllowed": amounts("1k")}},
		},
	}
}

// The budgets of API servers and of the engine must cover the schema's bounds. The runtime budget
// is smaller than the estimated cost allowed at CRD installation.
func TestTheLargestObjectIsJudged(t *testing.T) {
	b := newBoth(t)
	policies := b.server.root.Properties["spec"].Properties["resourcePolicy"].Properties["containerPolicies"]
	most := int(*policies.ValueValidation.MaxItems)
	for want, count := range map[bool]int{false: most, true: most + 1} {
		begin := time.Now()
		came, difference := b.judge(large(count), nil)
		t.Logf("%d container policies: %s", count, time.Since(begin).Round(time.Millisecond))
		require.Empty(t, difference)
		require.Equal(t, outcome{misfit: want}, came)
	}
}

// API servers run rules even on values that the pattern refuses, and cannot interrupt a comparison.
// One of these quantities takes minutes, so a failure would hang the test.
func TestNoRuleOfTheSchemaReadsEndlessQuantities(t *testing.T) {
	b := newBoth(t)
	for _, endless := range []string{"1e999999999", "1E-999999999", "-1e+99999999"} {
		amounts := map[string]any{"cpu": endless, "memory": endless, "example.com/device": endless}
		boost := map[string]any{"cpu": map[string]any{"type": "Quantity", "quantity": endless}}
		ratio := map[string]any{"cpu": boost["cpu"], "memory": boost["cpu"]}
		verdict := b.server.Judge(map[string]any{
			"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
			"metadata": map[string]any{"name": "web", "namespace": "shop"},
			"spec": map[string]any{
				"targetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "startupBoost": boost,
				"resourcePolicy": map[string]any{
					"containerPolicies": []any{map[string]any{
						"containerName": "app", "minAllowed": amounts, "maxAllowed": amounts, "startupBoost": boost, "requestToLimitRatio": ratio,
						"oomBumpUpRatio": endless, "oomMinBumpUp": endless, "memoryPerCPU": endless,
					}},
					"podPolicies": map[string]any{"minAllowed": amounts, "maxAllowed": amounts},
				},
			},
		}, nil)
		require.Len(t, verdict.Structure, 19, "each is refused by the pattern: %v", verdict.Structure)
		require.Contains(t, verdict.Refused, "per-vpa-config/oom-ratio-parses@spec.resourcePolicy.containerPolicies[0].oomBumpUpRatio", "and the rules are run")
	}
}
