package upstream

import (
	"testing"
)

// BenchmarkAdmission validates one ordinary VPA with both: the work of each webhook for one
// request, without decoding and encoding the review.
func BenchmarkAdmission(b *testing.B) {
	c := readCase(b, `object: {metadata: {name: web}, spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web},
updatePolicy: {updateMode: Recreate, minReplicas: 2}, resourcePolicy: {containerPolicies: [{containerName: app, mode: Auto,
minAllowed: {cpu: 50m, memory: 64Mi}, maxAllowed: {cpu: 2, memory: 4Gi}, controlledResources: [cpu, memory], controlledValues: RequestsAndLimits}]}}}`)
	for name, ask := range map[string]func(testCase) (answer, error){"upstream": askUpstream, "celvpa": askCelvpa} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if a, err := ask(c); err != nil || !a.allowed() {
					b.Fatal(a, err)
				}
			}
		})
	}
}
