package upstream

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/celvpa/celvpa/webhook/vpareview"
)

// BenchmarkAdmission validates ordinary VPAs with both: the work of each webhook for one request,
// without decoding and encoding the review.
func BenchmarkAdmission(b *testing.B) {
	book, err := shippedRules(gates{})
	require.NoError(b, err)
	for _, policies := range []int{1, 10, 100} {
		c := readCase(b, ordinaryVPA(policies))
		request := &admissionv1.AdmissionRequest{Operation: admissionv1.Create}
		request.Object.Raw = c.objectJSON()
		b.Run(fmt.Sprintf("policies=%d/side=upstream", policies), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, errs := upstreamHandler.GetPatches(context.Background(), request); len(errs) > 0 {
					b.Fatal(errs)
				}
			}
		})
		b.Run(fmt.Sprintf("policies=%d/side=celvpa", policies), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if answer := vpareview.Review(book.Default(), vpareview.Request{Object: request.Object.Raw}); !answer.Allowed() {
					b.Fatal(answer.Causes)
				}
			}
		})
	}
}

// ordinaryVPA is a case with a VPA that both accept as it is.
func ordinaryVPA(policies int) string {
	var list []string
	for i := range policies {
		list = append(list, fmt.Sprintf(`{containerName: app-%d, mode: Auto, minAllowed: {cpu: 50m, memory: 64Mi},
maxAllowed: {cpu: 2, memory: 4Gi}, controlledResources: [cpu, memory], controlledValues: RequestsAndLimits}`, i))
	}
	return `object: {metadata: {name: web}, spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web},
updatePolicy: {updateMode: Recreate, minReplicas: 2}, resourcePolicy: {containerPolicies: [` + strings.Join(list, ",\n") + `]}}}`
}
