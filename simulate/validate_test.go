package simulate

import (
	"strings"
	"testing"
	"time"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/stretchr/testify/require"
)

// Except those that do not fit their type.
func TestOtherObjectsOfTheNamespaceStandBeside(t *testing.T) {
	set, err := manifests.Read([]string{"-"}, strings.NewReader(`---
{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: plain}, spec: {targetRef: {kind: Deployment, name: plain}}}
---
{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: second}, spec: {targetRef: {kind: Deployment, name: plain}}}
---
{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: misfit}, spec: {targetRef: []}}
---
{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: far, namespace: away}, spec: {targetRef: {kind: Deployment, name: plain}}}
---
{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: plain}, spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: plain}}}
`))
	require.NoError(t, err)
	book, err := policy.Load(policy.Options{})
	require.NoError(t, err)
	cluster, err := Load(set, book, At(time.Now()))
	require.NoError(t, err)
	v, err := cluster.validation(&manifests.Set{})
	require.NoError(t, err)
	require.Len(t, v.vpas, 4)
	here := v.besideOf("default", "Deployment", "plain")
	require.Equal(t, []string{"plain", "second"}, []string{here.VPAs[0].Name, here.VPAs[1].Name})
	require.Len(t, here.VPAs, 2)
	require.Len(t, here.HPAs, 1)
	require.Empty(t, v.besideOf("default", "Deployment", "another").VPAs, "a VPA is compared with those of its target only")
	away := v.besideOf("away", "Deployment", "plain")
	require.Len(t, away.VPAs, 1)
	require.Empty(t, away.HPAs)
}
