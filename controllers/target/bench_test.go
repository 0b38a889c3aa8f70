package target

import (
	"context"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// memory is a cache that hands out what it has without a copy, as the process does.
type memory struct {
	client.Client
	objects map[client.ObjectKey]client.Object
}

func (m memory) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	reflect.Indirect(reflect.ValueOf(into)).Set(reflect.Indirect(reflect.ValueOf(m.objects[key])))
	return nil
}

// BenchmarkSelectorsOfTenThousand is what the recommender asks each cycle.
func BenchmarkSelectorsOfTenThousand(b *testing.B) {
	const n = 10_000
	d := deployment("web", owner("v1", "Node", "n", ptr.To(true)))
	m := memory{objects: map[client.ObjectKey]client.Object{client.ObjectKeyFromObject(d): d}}
	s := &Selectors{Resolver: &Resolver{Client: m, Scales: NewScales(m, clock.RealClock{}, nil)}, Clock: clock.RealClock{}, Grace: time.Hour}
	vpas := make([]*vpav1.VerticalPodAutoscaler, n)
	for i := range vpas {
		vpas[i] = vpaFor("v", "web", 0)
		vpas[i].UID = types.UID(string(rune('a'+i%26)) + time.Duration(i).String())
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, v := range vpas {
			if s.For(b.Context(), v).Problem != nil {
				b.Fatal("no selector")
			}
		}
	}
}
