package oom

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// eviction is an event with the three annotations.
func eviction(containers, usage, starved string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1.17", UID: "17", CreationTimestamp: metav1.NewTime(noon),
			Annotations: map[string]string{containersAnnotation: containers, usageAnnotation: usage, starvedAnnotation: starved}},
		Reason:         "Evicted",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-1"},
	}
}

func TestEvictionsNameTheContainerThatUsedUpTheMemory(t *testing.T) {
	of := func(container string, memory int64) model.OOM {
		return model.OOM{Pod: model.PodID{Namespace: "shop", Name: "web-1"}, Container: container, Memory: memory, At: noon}
	}
	but := func(change func(*corev1.Event)) *corev1.Event {
		e := eviction("app", "1Gi", "memory")
		change(e)
		return e
	}
	for name, test := range map[string]struct {
		event *corev1.Event
		want  []model.OOM
		says  string
	}{
		"one container":                    {event: eviction("app", "1Gi", "memory"), want: []model.OOM{of("app", 1<<30)}},
		"lists that run side by side":      {event: eviction("app,side", "1Gi,100", "memory,memory"), want: []model.OOM{of("app", 1<<30), of("side", 100)}},
		"what kubelets write for several":  {event: eviction("app,side", "1Gi,100", "memory"), want: []model.OOM{of("app", 1<<30), of("side", 100)}},
		"another resource was short":       {event: eviction("app", "1Gi", "ephemeral-storage")},
		"another resource, several of it":  {event: eviction("app,side", "1Gi,100", "ephemeral-storage")},
		"memory and another resource":      {event: eviction("app,side", "1Gi,100", "ephemeral-storage,memory"), want: []model.OOM{of("side", 100)}},
		"nobody used too much":             {event: eviction("", "", "memory")},
		"nothing was used":                 {event: eviction("app", "0", "memory"), want: []model.OOM{of("app", 0)}},
		"more than int64":                  {event: eviction("app", "1e30", "memory"), want: []model.OOM{of("app", math.MaxInt64)}},
		"no event":                         {},
		"an event of nothing":              {event: &corev1.Event{}},
		"no annotations":                   {event: but(func(e *corev1.Event) { e.Annotations = nil })},
		"an event of another reason":       {event: but(func(e *corev1.Event) { e.Reason = "Killing" })},
		"an event about something else":    {event: but(func(e *corev1.Event) { e.InvolvedObject.Kind = "Node" })},
		"usage that is not a quantity":     {event: eviction("app,side", "lots,100", "memory"), want: []model.OOM{of("side", 100)}, says: `event shop/web-1.17 about an eviction: metadata.annotations[offending_containers_usage], entry 0 (container app): "lots" is not a quantity such as 4Gi; the entry is left out`},
		"usage that is empty":              {event: eviction("app", "", "memory"), says: `"" is not a quantity`},
		"usage below nothing":              {event: eviction("app", "-1Gi", "memory"), says: `"-1Gi" is negative`},
		"usage that takes minutes to read": {event: eviction("app,side", "1e-999999999,1E999999999", "memory"), says: `"1e-999999999" is not an amount of memory: an exponent has at most three digits; the entry is left out, and so are 1 more`},
		"usage with endless digits":        {event: eviction("app", strings.Repeat("9", 4096), "memory"), says: `"` + strings.Repeat("9", 40) + `…" is not an amount of memory`},
		"a name that no container has": {event: eviction("a b,"+strings.Repeat("x", 64)+",app", "1,1,100", "memory"), want: []model.OOM{of("app", 100)},
			says: "event shop/web-1.17 about an eviction: metadata.annotations[offending_containers], entry 0 (container a b): not a valid container name; the entry is left out, and so are 1 more"},
		"an annotation without an end": {event: eviction("app,"+strings.Repeat("x", 4093), "1,1", "memory"),
			says: "event shop/web-1.17 about an eviction is ignored: metadata.annotations[offending_containers]: longer than 4096 bytes"},
		"a name that no pod has": {event: but(func(e *corev1.Event) { e.InvolvedObject.Name = strings.Repeat("x", 254) }), says: "involvedObject.name: longer than 253 bytes"},
		"too little usage":       {event: eviction("app,side", "1Gi", "memory,memory"), says: "event shop/web-1.17 about an eviction is ignored: metadata.annotations[offending_containers_usage]: 1 entries for 2 of offending_containers"},
		"too much usage":         {event: eviction("app", "1Gi,2Gi", "memory"), says: "metadata.annotations[offending_containers_usage]: 2 entries for 1"},
		"too many resources":     {event: eviction("app", "1Gi", "memory,memory"), says: "metadata.annotations[starved_resource]: 2 entries for 1"},
		"too few resources":      {event: eviction("a,b,c", "1,1,1", "memory,memory"), says: "metadata.annotations[starved_resource]: 2 entries for 3"},
		"too many entries": {event: eviction(strings.Repeat("a,", 1000), strings.Repeat("1,", 1000), "memory"),
			says: "metadata.annotations[offending_containers]: 1001 entries, more than 1000"},
		"an annotation is missing": {event: but(func(e *corev1.Event) { delete(e.Annotations, starvedAnnotation) }), says: "metadata.annotations[starved_resource]: missing"},
		"a pod without a name":     {event: but(func(e *corev1.Event) { e.InvolvedObject.Name = "" }), says: "involvedObject.name"},
		"an event without a time":  {event: but(func(e *corev1.Event) { e.CreationTimestamp = metav1.Time{} }), says: "metadata.creationTimestamp"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FromEviction(test.event)
			require.Equal(t, test.want, got)
			if test.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.says)
			require.NotContains(t, err.Error(), "\n")
			require.Less(t, len(err.Error()), 500)
		})
	}
}

func FuzzEvictionsNeverPanic(f *testing.F) {
	f.Add("app,side", "1Gi,100", "memory")
	f.Add("app", "1e-999999999", "memory,")
	f.Add("", ",,", "")
	f.Fuzz(func(t *testing.T, containers, usage, starved string) {
		got, err := FromEviction(eviction(containers, usage, starved))
		require.LessOrEqual(t, len(got), strings.Count(containers, ",")+1)
		for _, o := range got {
			require.GreaterOrEqual(t, o.Memory, int64(0))
			require.Contains(t, containers, o.Container)
		}
		if err != nil {
			require.Less(t, len(err.Error()), 500, "%s", err)
		}
	})
}
