package podpatch

import (
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
)

const annotationsPath = "/metadata/annotations/"

// fitting drops the annotations for which a pod has no room: API servers refuse pods whose
// annotations exceed 256 KiB in all, keys included, and with them the whole patch. The old value of
// a dropped annotation is removed, because it is no longer true. left are the keys of those
// dropped.
func fitting(pod *corev1.Pod, ops []jsonpatch.Operation) (out []jsonpatch.Operation, left []string) {
	room := validation.TotalAnnotationSizeLimitB
	for key, value := range pod.Annotations {
		room -= len(key) + len(value)
	}
	out = ops[:0]
	for _, op := range ops {
		escaped, about := strings.CutPrefix(op.Path, annotationsPath)
		if !about {
			out = append(out, op)
			continue
		}
		key := unescaped.Replace(escaped)
		value, _ := op.Value.(string) // none of what removes
		before, there := pod.Annotations[key]
		freed := 0
		if there {
			freed = len(key) + len(before)
		}
		if op.Operation != "remove" && len(key)+len(value) > room+freed {
			left = append(left, key)
			if !there {
				continue
			}
			op = jsonpatch.NewOperation("remove", op.Path, nil)
		}
		room += freed
		if op.Operation != "remove" {
			room -= len(key) + len(value)
		}
		out = append(out, op)
	}
	return out, left
}

// Annotate sets one annotation on a pod that has an annotation map.
func Annotate(key, value string) jsonpatch.Operation {
	return Add(annotationsPath+Escape(key), value)
}

// Escape writes a path segment as RFC 6901 asks.
func Escape(segment string) string { return escapes.Replace(segment) }

var (
	escapes   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaped = strings.NewReplacer("~1", "/", "~0", "~")
)
