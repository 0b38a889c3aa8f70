package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bySize has rules about the nodes of pods.
const bySize = `---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: by-size}
spec:
  change:
  - after: requests
    stage:
      name: share-of-node
      each: container
      rules:
      - {name: tenth, when: has(requests.cpu) && has(node.cpu) && requests.cpu > node.cpu / 10, set: {requests.cpu: node.cpu / 10}, note: at most a tenth of its node}
  - before: eligibility
    decision: {name: small-node, when: "has(node.memory) && node.memory < mem('2Gi')", do: Skip, class: Settled, reasonExpression: "'Node ' + node.name + ' is small'"}
`

const nodeOf4 = "---\n{apiVersion: v1, kind: Node, metadata: {name: node}, status: {allocatable: {cpu: '4', memory: 1Gi, pods: '110'}}}\n"

// TestNodesInManifestsAreFacts of running pods, and of new pods that a DaemonSet made for one node.
func TestNodesInManifestsAreFacts(t *testing.T) {
	const forNode = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [node]}]}]}}}, "
	daemon := farOff("DaemonSet", "agent") + workloadOf("DaemonSet", "", "agent", "app")
	created := strings.Replace(ownedPod("new", "agent", "DaemonSet", "agent"), "spec: {", "spec: {"+forNode, 1)
	cpu := func(text string) string {
		report, _, err := admittedFrom(t, text)
		require.NoError(t, err)
		for _, item := range report.Items {
			if item.Pod == "web/new" {
				spec := item.Object["spec"].(map[string]any)
				requests := spec["containers"].([]any)[0].(map[string]any)["resources"].(map[string]any)["requests"].(map[string]any)
				return requests["cpu"].(string)
			}
		}
		return ""
	}
	require.Equal(t, "400m", cpu(daemon+created+bySize+nodeOf4))
	require.Equal(t, "500m", cpu(daemon+created+bySize), "the node is not known")
	require.Equal(t, "500m", cpu(daemon+ownedPod("new", "agent", "DaemonSet", "agent")+bySize+nodeOf4), "the pod may run on any node")

	pods := farOff("StatefulSet", "shop") + sized("StatefulSet", "", "shop", 2) + running("a", "shop", "StatefulSet", "shop") + running("b", "shop", "StatefulSet", "shop")
	for text, small := range map[string]bool{pods + bySize: false, pods + bySize + nodeOf4: true, pods + bySize + strings.Replace(nodeOf4, "1Gi", "8Gi", 1): false} {
		out, _, err := run(text, "plan", "-f", "-")
		require.NoError(t, err)
		require.Equal(t, small, strings.Contains(out, "Node node is small"), out)
	}
}

// bySurroundings has rules about the workload of a VPA, its namespace and all nodes.
const bySurroundings = `---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: by-surroundings}
spec:
  change:
  - before: eligibility
    decision:
      name: told
      when: workload.labels[?'tier'].orValue('') == 'front' && workload.annotations[?'team'].orValue('') == 'a' && namespaceObject.labels[?'kubernetes.io/metadata.name'].orValue('') == 'web'
      do: Skip
      class: Settled
      reasonExpression: "string(nodes.count) + ' nodes, ' + string(nodes.largest.cpu)"
`

// TestWorkloadsNamespacesAndNodesInManifestsAreFacts.
func TestWorkloadsNamespacesAndNodesInManifestsAreFacts(t *testing.T) {
	shop := strings.Replace(sized("StatefulSet", "", "shop", 2), "name: shop", "name: shop, labels: {tier: front}, annotations: {team: a}", 1)
	pods := farOff("StatefulSet", "shop") + running("a", "shop", "StatefulSet", "shop") + running("b", "shop", "StatefulSet", "shop") + bySurroundings
	for text, told := range map[string]bool{
		shop + nodeOf4 + "---\n{apiVersion: v1, kind: Namespace, metadata: {name: web}}\n": true,
		shop + nodeOf4: false, // the namespace is not known
		sized("StatefulSet", "", "shop", 2) + nodeOf4 + "---\n{apiVersion: v1, kind: Namespace, metadata: {name: web}}\n": false,
	} {
		out, _, err := run(text+pods, "plan", "-f", "-")
		require.NoError(t, err)
		require.Equal(t, told, strings.Contains(out, "1 nodes, 4000"), out)
	}
}
