package webhook

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/webhook/podreview"
)

const daemonPod = `{"metadata":{"name":"p","namespace":"ns"},"spec":{"containers":[{"name":"app"}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
  {"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["a"]}]}]}}}}}`

// TestNodesAreLookedUpForRulesThatReadThem, and for no others.
func TestNodesAreLookedUpForRulesThatReadThem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: node}
spec:
  change: [{after: requests, stage: {name: node, each: container, rules: [{name: all, when: has(node.cpu), set: {requests.cpu: node.cpu}}]}}]
`), 0o600))
	pod, err := decodePod([]byte(daemonPod))
	require.NoError(t, err)
	v := &vpav1.VerticalPodAutoscaler{}
	v.Namespace = "ns"
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "app", Target: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
	for path, want := range map[string]struct {
		cpu   string
		asked []string
	}{"": {cpu: "1"}, file: {cpu: "7", asked: []string{"a"}}} {
		book, err := policy.Load(policy.Options{Path: path})
		require.NoError(t, err)
		var asked []string
		answer := podreview.Review(policy.For(book, v).Plan, podreview.Request{Pod: pod, VPA: v, Objects: nodes(func(name string) *corev1.Node {
			asked = append(asked, name)
			return &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7")}}}
		})}, nil)
		require.Empty(t, answer.Failed)
		require.Equal(t, want.asked, asked)
		cpu, _ := answer.Change.Containers[0].Requests.Of(corev1.ResourceCPU)
		require.Equal(t, want.cpu, cpu.String())
	}
}

// nodes knows nothing but nodes.
type nodes func(name string) *corev1.Node

func (n nodes) Node(name string) *corev1.Node                  { return n(name) }
func (nodes) Nodes() (facts.NodeTotals, bool)                  { return facts.NodeTotals{}, false }
func (nodes) NamespaceLabels(string) (map[string]string, bool) { return nil, false }
func (nodes) Workload(target.Key) *metav1.ObjectMeta           { return nil }
