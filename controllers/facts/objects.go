package facts

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/slim"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// Objects are what few rules read. They are asked for only for rules that do; nil = nothing is known. It is safe for concurrent use.
type Objects interface {
	// Node returns a node by its name; nil = it is not known. Only what nodeSchema reads may be there.
	Node(name string) *corev1.Node
	// Nodes returns what all nodes have; false = that is not known.
	Nodes() (NodeTotals, bool)
	// NamespaceLabels returns the labels of a namespace, which nobody may change; false = they are not known.
	NamespaceLabels(namespace string) (map[string]string, bool)
	// Workload returns the labels and annotations of a workload of a well-known kind; nil = it is not known.
	Workload(of target.Key) *metav1.ObjectMeta
}

// NodeTotals are the allocatable resources of all nodes.
type NodeTotals struct {
	Count        int
	Sum, Largest Amounts // the largest of CPU and of memory may be those of two nodes
}

// TotalsOf adds up nodes.
func TotalsOf(nodes []corev1.Node) (t NodeTotals) {
	for i := range nodes {
		has := AmountsOf(nodes[i].Status.Allocatable)
		t.Count, t.Largest = t.Count+1, t.Largest.Larger(has)
		t.Sum.CPU, t.Sum.Memory = lang.SaturatingAdd(t.Sum.CPU, has.CPU), lang.SaturatingAdd(t.Sum.Memory, has.Memory)
	}
	return t
}

const (
	factNode      = "node"
	factNodes     = "nodes"
	factNamespace = "namespaceObject"
	factWorkload  = "workload"
)

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

var nodesSchema = lang.Bind("Nodes",
	lang.IntFrom("count", lang.Int, "", func(t NodeTotals) int { return t.Count }),
	lang.RecordFrom("sum", resourcesSchema.Schema, "allocatable in all of them", func(t NodeTotals) *lang.Record { return t.Sum.record() }),
	lang.RecordFrom("largest", resourcesSchema.Schema, "the most that one of them has, of CPU and of memory", func(t NodeTotals) *lang.Record { return t.Largest.record() }))

var namespaceSchema = lang.Bind("Namespace",
	labelsFrom("labels", "by key", func(of map[string]string) map[string]string { return of }))

var workloadSchema = lang.Bind("Workload",
	labelsFrom("labels", "by key", func(o *metav1.ObjectMeta) map[string]string { return o.Labels }),
	labelsFrom("annotations", "by key: those whose key and value together have at most 256 bytes", func(o *metav1.ObjectMeta) map[string]string { return slim.Annotations(o.Annotations) }))

// costOfNodes ends the docs of the fact.
const costOfNodes = "unset where it is not known. Costs a watch of nodes while a rule in force reads it"

var (
	runningNodeVar = registry.Var{Name: factNode, Optional: true, Type: lang.RecordOf(nodeSchema.Schema), Doc: "the pod's node; " + costOfNodes}
	anyNodeVar     = registry.Var{Name: factNode, Optional: true, Type: lang.RecordOf(nodeSchema.Schema),
		Doc: "the node of a running pod, or of a DaemonSet's new pod; other new pods have none yet; " + costOfNodes}

	nodesVar     = registry.Var{Name: factNodes, Optional: true, Type: lang.RecordOf(nodesSchema.Schema), Doc: "all nodes, also those that take no pods; to 10 seconds; " + costOfNodes}
	namespaceVar = registry.Var{Name: factNamespace, Optional: true, Type: lang.RecordOf(namespaceSchema.Schema),
		Doc: "the namespace; unset where it is not known. Costs a watch of namespaces while a rule in force reads it"}
	workloadVar = registry.Var{Name: factWorkload, Optional: true, Type: lang.RecordOf(workloadSchema.Schema),
		Doc: "the workload that the VPA targets; unset where it is not known, and for custom kinds. Costs a second watch of its kind, of metadata, while a rule in force reads it"}
)

// objectVars are facts of Objects that do not depend on a pod.
var objectVars = []registry.Var{namespaceVar, workloadVar, nodesVar}

// bindObjects binds what rules of a point read of objects; a nil pod has no node.
func bindObjects(f *registry.Facts, from Objects, plan *engine.Plan, point string, v *vpav1.VerticalPodAutoscaler, pod *corev1.Pod) *registry.Facts {
	asks := func(fact string) bool { return from != nil && plan.Reads(point, fact) }
	namespace, workload, nodes := namespaceSchema.Empty(), workloadSchema.Empty(), nodesSchema.Empty()
	if asks(factNamespace) {
		if labels, known := from.NamespaceLabels(v.Namespace); known {
			namespace = namespaceSchema.Of(labels)
		}
	}
	if asks(factWorkload) && v.Spec.TargetRef != nil {
		if o := from.Workload(target.Of(v)); o != nil {
			workload = workloadSchema.Of(o)
		}
	}
	if asks(factNodes) {
		if totals, known := from.Nodes(); known {
			nodes = nodesSchema.Of(totals)
		}
	}
	f.Set(factNamespace, namespace).Set(factWorkload, workload).Set(factNodes, nodes)
	if pod == nil {
		return f
	}
	node := nodeSchema.Empty()
	if asks(factNode) {
		if name := nodeName(pod); name != "" {
			if n := from.Node(name); n != nil {
				node = nodeSchema.Of(n)
			}
		}
	}
	return f.Set(factNode, node)
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
