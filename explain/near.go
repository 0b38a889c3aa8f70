package explain

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// near suggests names; empty without any. A failure to read them is no news: the caller has an error.
func near(ctx context.Context, c client.Client, s Subject) string {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(vpav1.GroupVersion.WithKind("VerticalPodAutoscalerList"))
	if err := c.List(ctx, list, client.InNamespace(s.Namespace), client.Limit(nearMost)); err != nil {
		return ""
	}
	var names []string
	for i := range list.Items {
		name := list.Items[i].GetName()
		if similar(name, s.Name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > 3 {
		names = names[:3]
	}
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(names, " or ") + "?"
}

// nearMost bounds the names that are compared.
const nearMost = 500

// similar reports whether one name contains the other, or differs from it in at most two letters.
func similar(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return strings.Contains(a, b) || strings.Contains(b, a) || distance(a, b) <= 2
}

// distance is the number of letters to add, drop or replace between two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		last := row[0]
		row[0] = i + 1
		for j := range b {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last, row[j+1] = row[j+1], min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
