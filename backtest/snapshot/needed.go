package snapshot

import (
	"strings"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
)

type object = map[string]any

// fields are what is kept of an object: true keeps a value as it is, fields some of it, also in each
// item of a list.
type fields map[string]any

var (
	selector  = fields{"matchLabels": true, "matchExpressions": true}
	container = fields{"name": true, "resources": true, "resizePolicy": true, "restartPolicy": true}
	podSpec   = fields{
		"containers": container, "initContainers": container, "resources": true, "overhead": true,
		"restartPolicy": true,
	}
	metadata = fields{
		"name": true, "generateName": true, "namespace": true, "labels": true, "annotations": true, "creationTimestamp": true,
		"ownerReferences": fields{"apiVersion": true, "kind": true, "name": true, "controller": true},
	}
	template = fields{"metadata": fields{"labels": true, "annotations": true}, "spec": podSpec}
	workload = fields{
		"replicas": true, "selector": selector, "template": template, "completions": true, "parallelism": true,
		"completionMode": true, "ordinals": true, "jobTemplate": fields{"spec": fields{"template": template, "selector": selector}},
	}
	counts = fields{"replicas": true, "desiredNumberScheduled": true, "selector": true, "labelSelector": true}
)

// needed is what is kept by kind, besides metadata; other kinds only count as targets of VPAs.
var needed = map[string]fields{
	"CronJob": {"spec": workload}, "DaemonSet": {"spec": workload, "status": counts}, "Deployment": {"spec": workload, "status": counts},
	"Job": {"spec": workload}, "ReplicaSet": {"spec": workload, "status": counts}, "StatefulSet": {"spec": workload, "status": counts},
	"ReplicationController": {"spec": fields{"replicas": true, "selector": true, "template": template}, "status": counts},
	"Pod":                   {"spec": podSpec, "status": fields{"phase": true}},
	"LimitRange":            {"spec": true},
	"PodDisruptionBudget":   {"spec": fields{"minAvailable": true, "maxUnavailable": true, "selector": selector, "unhealthyPodEvictionPolicy": true}},
	"VerticalPodAutoscaler": {"spec": fields{
		"targetRef": fields{"apiVersion": true, "kind": true, "name": true}, "updatePolicy": true,
		"resourcePolicy": fields{"containerPolicies": true}, "recommenders": fields{"name": true}, "startupBoost": true,
	}},
	"RuleOverlay": {"spec": true},
}

// custom is what is kept of the target of a VPA of any other kind.
var custom = fields{"spec": fields{"replicas": true, "selector": true, "template": template}, "status": counts}

// readAnnotation: rules or the choice of a pipeline go by it; others are dropped.
func readAnnotation(name string) bool {
	switch {
	case name == policy.AnnotationPipeline, name == facts.AnnotationObservedContainers,
		strings.HasPrefix(name, facts.AnnotationStartupBoost),
		strings.HasPrefix(name, "vpa-post-processor.kubernetes.io/") && strings.HasSuffix(name, "_integerCPU"):
		return true
	}
	return false
}

// keep returns the parts of a value that fields name.
func keep(value any, of any) any {
	some, isFields := of.(fields)
	if !isFields {
		return value
	}
	switch value := value.(type) {
	case object:
		out := object{}
		for name, inner := range value {
			if of, kept := some[name]; kept {
				out[name] = keep(inner, of)
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(value))
		for _, one := range value {
			out = append(out, keep(one, of))
		}
		return out
	}
	return value // of another type than it should be, which whoever reads it says
}

// reduced is an object without what a backtest has no use for: environments, images, commands,
// volumes, probes, annotations, status and all else.
func reduced(kind string, from object) object {
	of, known := needed[kind]
	if !known {
		of = custom
	}
	out := object{"apiVersion": from["apiVersion"], "kind": from["kind"], "metadata": keep(from["metadata"], metadata)}
	for name, part := range of {
		if value, there := from[name]; there {
			out[name] = keep(value, part)
		}
	}
	eachMetadata(out, func(m object) {
		notes, _ := m["annotations"].(object)
		for name := range notes {
			if !readAnnotation(name) {
				delete(notes, name)
			}
		}
		if len(notes) == 0 {
			delete(m, "annotations")
		}
	})
	return out
}

// eachMetadata calls do with the metadata of an object and of its templates.
func eachMetadata(value any, do func(object)) {
	in, ok := value.(object)
	if !ok {
		return
	}
	for name, inner := range in {
		if m, ok := inner.(object); ok && name == "metadata" {
			do(m)
		} else if name == "spec" || name == "template" || name == "jobTemplate" {
			eachMetadata(inner, do)
		}
	}
}
