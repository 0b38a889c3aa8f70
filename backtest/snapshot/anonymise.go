package snapshot

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/celvpa/celvpa/simulate/manifests"
)

type target struct{ kind, name string }

// targetOf is the target of a VPA.
func targetOf(d *manifests.Document) (target, bool) {
	if d.Kind != "VerticalPodAutoscaler" {
		return target{}, false
	}
	var v struct {
		Spec struct {
			TargetRef struct {
				Kind string `json:"kind"`
				Name string `json:"name"`
			} `json:"targetRef"`
		} `json:"spec"`
	}
	if json.Unmarshal(d.JSON, &v) != nil || v.Spec.TargetRef.Name == "" {
		return target{}, false
	}
	return target{v.Spec.TargetRef.Kind, v.Spec.TargetRef.Name}, true
}

// anonymised gives all names in an object another. Labels that nothing selects by are dropped, if
// selected says which keys are selected by.
func (n *names) anonymised(kind string, o object, selected map[string]bool) {
	if _, known := needed[kind]; !known {
		n.kind(o)
		delete(o, "status") // its selector is text
	}
	pod := kind == "Pod"
	namespace := textAt(o, "metadata", "namespace")
	eachMetadata(o, func(m object) { n.metadata(m, pod, namespace, selected) })
	n.walk(o, kind)
}

func (n *names) metadata(m object, pod bool, namespace string, selected map[string]bool) {
	if name, ok := m["name"].(string); ok {
		if pod {
			m["name"] = n.pod(namespace, name)
		} else {
			m["name"] = n.name(name)
		}
	}
	if text, ok := m["generateName"].(string); ok {
		m["generateName"] = n.name(strings.TrimSuffix(text, "-")) + "-"
	}
	if text, ok := m["namespace"].(string); ok {
		m["namespace"] = n.name(text)
	}
	if labels, ok := m["labels"].(object); ok {
		for key := range labels {
			if !selected[key] {
				delete(labels, key)
			}
		}
		n.labels(m, "labels")
	}
	if notes, ok := m["annotations"].(object); ok {
		m["annotations"] = n.annotations(notes)
	}
	owners, _ := m["ownerReferences"].([]any)
	for _, one := range owners {
		if owner, ok := one.(object); ok {
			owner["name"] = n.owner(namespace, textAt(owner, "kind"), textAt(owner, "name"))
			n.kind(owner)
		}
	}
}

// kind gives a custom kind another name: it may say whose it is.
func (n *names) kind(o object) {
	kind := textAt(o, "kind")
	if _, known := needed[kind]; known || kind == "" || kind == "Node" {
		return
	}
	o["kind"], o["apiVersion"] = "N"+n.hash("kind " + kind)[:nameLength], n.name("group "+textAt(o, "apiVersion"))+".example/v1"
}

// owner is the name of an owner, which may be a ReplicaSet or a Job whose own name was generated.
func (n *names) owner(namespace, kind, name string) string {
	for _, w := range n.workloads[namespace] {
		if _, makes := w.MakesNamed(kind, name); makes {
			return n.name(w.Name) + strings.TrimPrefix(name, w.Name)
		}
	}
	return n.name(name)
}

// annotations name containers in their keys or values.
func (n *names) annotations(notes object) object {
	out := object{}
	for key, value := range notes {
		for _, form := range []struct{ before, after string }{{"vpa-post-processor.kubernetes.io/", "_integerCPU"}, {"vpaCpuStartupBoost/", ""}, {"vpaLimitRatio/", ""}} {
			if name, ok := strings.CutPrefix(key, form.before); ok {
				key = form.before + n.name(strings.TrimSuffix(name, form.after)) + form.after
			}
		}
		if text, ok := value.(string); ok && key == "vpaObservedContainers" {
			var all []string
			for _, one := range strings.Split(text, ",") {
				all = append(all, n.name(strings.TrimSpace(one)))
			}
			value = strings.Join(all, ", ")
		}
		out[key] = value
	}
	return out
}

// labels replaces the keys and values of the labels in o[field].
func (n *names) labels(o object, field string) {
	in, ok := o[field].(object)
	if !ok {
		return
	}
	out := object{}
	for key, value := range in {
		if text, ok := value.(string); ok {
			value = n.name(text)
		}
		out[n.name(key)] = value
	}
	o[field] = out
}

// walk replaces names below metadata, wherever the API has them.
func (n *names) walk(value any, kind string) {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			n.walk(one, kind)
		}
	case object:
		for field, inner := range value {
			switch field {
			case "metadata", "change", "resources", "limits", "status": // done, rules, and quantities
				continue
			case "containers", "initContainers":
				eachName(inner, "name", n.name)
			case "containerPolicies":
				eachName(inner, "containerName", n.name)
			case "targetRef", "scaleTargetRef":
				eachName([]any{inner}, "name", n.name)
				if of, ok := inner.(object); ok {
					n.kind(of)
				}
			case "matchLabels":
				n.labels(value, field)
				continue
			case "matchExpressions":
				n.expressions(inner)
				continue
			case "namespaces":
				if list, ok := inner.([]any); ok {
					for i, one := range list {
						if text, ok := one.(string); ok {
							list[i] = n.name(text)
						}
					}
				}
				continue
			case "description":
				delete(value, field)
				continue
			case "selector":
				if kind == "ReplicationController" {
					n.labels(value, field)
					continue
				}
			}
			n.walk(inner, kind)
		}
	}
}

func (n *names) expressions(list any) {
	all, _ := list.([]any)
	for _, one := range all {
		e, ok := one.(object)
		if !ok {
			continue
		}
		if key, ok := e["key"].(string); ok {
			e["key"] = n.name(key)
		}
		values, _ := e["values"].([]any)
		for i, value := range values {
			if text, ok := value.(string); ok {
				values[i] = n.name(text)
			}
		}
	}
}

// eachName replaces a field in all items of a list.
func eachName(list any, field string, by func(string) string) {
	all, _ := list.([]any)
	for _, one := range all {
		if item, ok := one.(object); ok {
			if text, ok := item[field].(string); ok {
				item[field] = by(text)
			}
		}
	}
}

// selectedBy collects the keys of the labels that objects select by.
func selectedBy(value any, into map[string]bool, kind string) {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			selectedBy(one, into, kind)
		}
	case object:
		for field, inner := range value {
			switch in, _ := inner.(object); {
			case field == "matchLabels", field == "selector" && kind == "ReplicationController":
				for key := range in {
					into[key] = true
				}
			case field == "matchExpressions":
				eachName(inner, "key", func(key string) string { into[key] = true; return key })
			default:
				selectedBy(inner, into, kind)
			}
		}
	}
}

func textAt(o object, path ...string) string {
	for _, step := range path[:len(path)-1] {
		o, _ = o[step].(object)
	}
	text, _ := o[path[len(path)-1]].(string)
	return text
}
