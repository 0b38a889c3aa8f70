package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// boundsPods reports whether a LimitRange bounds pods.
func (l *LimitRanges) boundsPods() bool {
	return l != nil && slices.ContainsFunc(l.items, func(item corev1.LimitRangeItem) bool { return item.Type == corev1.LimitTypePod })
}

// outside is what the LimitRanger plugin has against a request and a limit; nil is none.
func (l *LimitRanges) outside(kind corev1.LimitType, name corev1.ResourceName, a requestAndLimit) string {
	request, limit := a.request, a.limit
	if l == nil {
		return ""
	}
	for i := range l.items {
		item := &l.items[i]
		if item.Type != kind {
			continue
		}
		refuse := func(bound string, q resource.Quantity, what string) string {
			return fmt.Sprintf("LimitRanges "+bound+" for each %s (%s)", q.String(), name, strings.ToLower(string(kind)), what)
		}
		if least, ok := item.Min[name]; ok {
			const bound = "require at least %s of %s"
			asked, used, bounded := inUnits(request, limit, least)
			if request == nil || asked < bounded {
				return refuse(bound, least, wouldBe(request, "request"))
			} else if limit != nil && used < bounded {
				return refuse(bound, least, wouldBe(limit, "limit"))
			}
		}
		if most, ok := item.Max[name]; ok {
			const bound = "allow at most %s of %s"
			asked, used, bounded := inUnits(request, limit, most)
			if limit == nil || used > bounded {
				return refuse(bound, most, wouldBe(limit, "limit"))
			} else if request != nil && asked > bounded {
				return refuse(bound, most, wouldBe(request, "request"))
			}
		}
		if most, ok := item.MaxLimitRequestRatio[name]; ok && exceeds(request, limit, most) {
			return refuse("allow a limit of at most %s times the request of %s", most, wouldBe(limit, "limit")+" and "+wouldBe(request, "request"))
		}
	}
	return ""
}

func wouldBe(q *resource.Quantity, of string) string {
	if q == nil {
		return "it would have no " + of
	}
	return "its " + of + " would be " + q.String()
}

// inUnits are a request, a limit and a bound in units in which the plugin compares them:
// thousandths, unless one is too large for that. nil counts as 0.
func inUnits(request, limit *resource.Quantity, bound resource.Quantity) (asked, used, bounded int64) {
	none := &resource.Quantity{}
	request, limit = cmp.Or(request, none), cmp.Or(limit, none)
	asked, used, bounded = request.Value(), limit.Value(), bound.Value()
	if max(asked, used, bounded) <= resource.MaxMilliValue {
		return request.MilliValue(), limit.MilliValue(), bound.MilliValue()
	}
	return asked, used, bounded
}

// exceeds compares a ratio as the plugin does, in floating point, because that decides. Without a
// request or a limit, every ratio is too much.
func exceeds(request, limit *resource.Quantity, most resource.Quantity) bool {
	asked, used, _ := inUnits(request, limit, most)
	if asked == 0 || used == 0 {
		return true
	}
	ratio, bound := float64(used)/float64(asked), float64(most.Value())
	if most.Value() <= resource.MaxMilliValue {
		ratio, bound = ratio*1000, float64(most.MilliValue())
	}
	return ratio > bound
}
