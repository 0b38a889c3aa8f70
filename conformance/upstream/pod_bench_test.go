package upstream

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/webhook/podreview"
)

// benchedPod is a pod of two containers with requests and limits. LimitRanges and a policy bound
// it.
const benchedPod = `object: {pod: {metadata: {name: web-1}, spec: {containers: [
{name: app, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 300m, memory: 200Mi}}}, {name: proxy, resources: {requests: {cpu: 50m, memory: 64Mi}, limits: {cpu: 100m, memory: 64Mi}}}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Container, min: {cpu: 10m, memory: 16Mi}, max: {cpu: 1, memory: 1Gi}, default: {cpu: 500m, memory: 512Mi}},
{type: Pod, max: {cpu: 1500m, memory: 1Gi}}]}}],
vpa: {spec: {updatePolicy: {updateMode: Recreate}, resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: {cpu: 50m, memory: 64Mi}, maxAllowed: {cpu: 400m, memory: 512Mi}}]}},
status: {recommendation: {containerRecommendations: [
{containerName: app, target: {cpu: 600m, memory: 400Mi}, lowerBound: {cpu: 100m, memory: 100Mi}, upperBound: {cpu: 2, memory: 1Gi}},
{containerName: proxy, target: {cpu: 80m, memory: 90Mi}, lowerBound: {cpu: 25m, memory: 50Mi}, upperBound: {cpu: 1, memory: 1Gi}}]}}}}`

// BenchmarkPod computes the patch for one pod with both: the work of each webhook once it knows the
// pod's VPA, without decoding and encoding the review. Both fold the LimitRanges each time.
func BenchmarkPod(b *testing.B) {
	c := readCase(b, benchedPod)
	require.NoError(b, setUpstreamGates(gates{}))
	in, err := readPod(c)
	require.NoError(b, err)
	r, unexplained, err := judgePod(c, nil)
	require.NoError(b, err)
	require.Empty(b, unexplained)
	require.Len(b, r.Celvpa.updates(), 2)

	b.Run("upstream", func(b *testing.B) {
		calculators, err := upstreamCalculators(in.LimitRanges, resource.Quantity{})
		require.NoError(b, err)
		v, err := in.upstreamVPA()
		require.NoError(b, err)
		b.ReportAllocs()
		for b.Loop() {
			for _, one := range calculators {
				if patches, err := one.CalculatePatches(in.Pod, v); err != nil || len(patches) == 0 {
					b.Fatal(patches, err)
				}
			}
		}
	})
	b.Run("celvpa", func(b *testing.B) {
		book, err := shippedRules(gates{})
		require.NoError(b, err)
		v, err := in.celvpaVPA()
		require.NoError(b, err)
		b.ReportAllocs()
		for b.Loop() {
			request := podreview.Request{Pod: in.Pod, VPA: v, Limits: facts.FoldLimitRanges(in.LimitRanges)}
			if answer := podreview.Review(book.Default(), request, nil); len(answer.Patch) == 0 || len(answer.Failed) > 0 {
				b.Fatal(answer)
			}
		}
	})
}
