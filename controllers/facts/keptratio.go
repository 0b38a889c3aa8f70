package facts

import (
	"math/big"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/engine/lang"
)

// annotationLimitRatio, with a slash and the name of a container or without, records a request and a limit
// whose ratio in-place updates keep. It is celvpa's own: what the pod has is rounded, and a ratio of that
// would come down with each resize.
const annotationLimitRatio = "vpaLimitRatio"

// LimitRatioAnnotation is the key for a container; for the pod as a whole the name is empty.
func LimitRatioAnnotation(container string) string {
	if container == "" {
		return annotationLimitRatio
	}
	return annotationLimitRatio + "/" + container
}

// keptRatio binds the annotation of a running pod. It is empty if it is missing or cannot be read.
func (b *boundPod) keptRatio(container string) *lang.Record {
	if !b.in.Creating {
		if text, there := b.in.Pod.Annotations[LimitRatioAnnotation(container)]; there {
			if requests, limits, ok := readStanza(text); ok {
				return stanzaSchema.Of(stanza{requests, limits})
			}
		}
	}
	return stanzaSchema.Empty()
}

// LimitRatio is the value of LimitRatioAnnotation after a resize; empty if the limits that it writes have
// the ratio exactly, or follow none.
func (c *ResourceChange) LimitRatio() string {
	if c.ratio == nil {
		return ""
	}
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	inexact := false
	for _, name := range ScaledResources {
		ratio, known := c.ratio.Field(string(name)).(*lang.Record)
		written, writes := c.Requests.Of(name)
		if _, follows := c.Limits.Of(name); !known || !writes || !follows {
			continue
		}
		limit, hasLimit := ratio.Int("limit")
		request, hasRequest := ratio.Int("request")
		if !hasLimit || !hasRequest || request <= 0 {
			continue
		}
		if extra, _ := ratio.Int("extra"); extra != 0 {
			continue // of a policy
		}
		requests[name], limits[name] = quantityOf(name, request), quantityOf(name, limit)
		product := new(big.Int).Mul(big.NewInt(AmountOf(name, written)), big.NewInt(limit))
		inexact = inexact || product.Rem(product, big.NewInt(request)).Sign() != 0
	}
	if !inexact {
		return ""
	}
	return writeStanza(requests, limits)
}
