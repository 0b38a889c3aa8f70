package facts

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// Nodes returns a node by its name; nil = it is not known. Only what nodeSchema reads may be there. It is asked only for rules that
// read the fact.
type Nodes func(name string) *corev1.Node

const factNode = "node"

var nodeSchema = lang.Bind("Node",
	lang.TextFrom("name", "", func(n *corev1.Node) string { return n.Name }),
	lang.IntIf("cpu", lang.IntOf(CPU), "allocatable CPU, for all pods of the node", func(n *corev1.Node) (int64, bool) {
		q, ok := n.Status.Allocatable[corev1.ResourceCPU]
		return MilliCPU(q), ok
	}),
	lang.IntIf("memory", lang.IntOf(Memory), "allocatable memory, for all pods of the node", func(n *corev1.Node) (int64, bool) {
		q, ok := n.Status.Allocatable[corev1.ResourceMemory]
		return Bytes(q), ok
	}))

// costOfNodes ends the docs of the fact.
const costOfNodes = "unset where it is not known. Costs a watch of nodes while a rule in force reads it"

var (
	runningNodeVar = registry.Var{Name: factNode, Type: lang.RecordOf(nodeSchema.Schema), Doc: "the pod's node; " + costOfNodes}
	anyNodeVar     = registry.Var{Name: factNode, Type: lang.RecordOf(nodeSchema.Schema),
		Doc: "the node of a running pod, or of a DaemonSet's new pod; other new pods have none yet; " + costOfNodes}
)

// of binds the node of a pod for a point.
func (n Nodes) of(plan *engine.Plan, point string, pod *corev1.Pod) *lang.Record {
	if n != nil && plan.Reads(point, factNode) {
		if name := nodeName(pod); name != "" {
			if node := n(name); node != nil {
				return nodeSchema.Of(node)
			}
		}
	}
	return nodeSchema.Empty()
}

// nodeName is the only node that a pod runs on, or may run on: the DaemonSet controller names it in the affinity. Empty = any.
func nodeName(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	only := ""
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms { // one must hold
		name := onlyNode(term)
		if name == "" || only != "" && only != name {
			return ""
		}
		only = name
	}
	return only
}

// onlyNode is the node that a term names; empty = none, or several.
func onlyNode(term corev1.NodeSelectorTerm) string {
	for _, field := range term.MatchFields {
		if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
			return field.Values[0]
		}
	}
	return ""
}
