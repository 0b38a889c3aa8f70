package webhook

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

const ownedReview = reviewHead + `{"uid":"u1","kind":{"version":"v1","kind":"Pod"},"requestKind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},
  "namespace":"ns","operation":"CREATE","object":{"metadata":{"name":"p","labels":{"app":"web"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet",
  "name":%q,"uid":%q,"controller":true}]},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1"}}}]}}}}`

// TestReviewsOfMissingOwnersLeaveSlotsToOthers: time stands still, so a review that waits for its owner does so until the end.
func TestReviewsOfMissingOwnersLeaveSlotsToOthers(t *testing.T) {
	h, api, _ := reviewer(t, append(shop(), sized("v", 1, func(v *vpav1.VerticalPodAutoscaler) {
		v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{
			{ContainerName: "app", Target: corev1.ResourceList{"cpu": resource.MustParse("500m")}}}}
	}))...)
	s, _ := testServer(t, h.Handle, func(o *ServerOptions) { o.Concurrent = 2 })
	h.Resolver.Scales.LimitWaits(s.Slots() / 2)
	first := make(chan bool, 1)
	go func() { first <- post(t, s, "/", fmt.Sprintf(ownedReview, "never", "uid-0")).Allowed }()
	hang.Until(t, api.clock.HasWaiters)
	for i := range 5 {
		answered := post(t, s, "/", fmt.Sprintf(ownedReview, "never", fmt.Sprint("uid-", i+1)))
		require.True(t, answered.Allowed)
		require.Empty(t, answered.Patch)
		require.NotEmpty(t, post(t, s, "/", fmt.Sprintf(ownedReview, "web-1", "uid-web-1")).Patch, "a pod of an owner that exists")
	}
	api.clock.Step(time.Second)
	require.True(t, <-first)
}
