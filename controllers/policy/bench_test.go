package policy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// BenchmarkLoad reads, checks and compiles all shipped rules.
func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// manyOverlays is the shipped rules with an overlay for each of many namespaces.
func manyOverlays(b *testing.B, count int) *compile.Rulebook {
	book, err := Load(Options{})
	require.NoError(b, err)
	for i := range count {
		o := marginOverlay(fmt.Sprintf("o%03d", i), 1, "0.3", fmt.Sprintf("ns%d", i))
		book = with(b, book, &o)
	}
	return book
}

func with(b *testing.B, book *compile.Rulebook, o *rulesv1alpha1.RuleOverlay) *compile.Rulebook {
	overlay, err := parseOverlay(o)
	require.NoError(b, err)
	next, err := book.With(overlay)
	require.NoError(b, err)
	return next
}

// BenchmarkAddAnOverlay adds one to a hundred.
func BenchmarkAddAnOverlay(b *testing.B) {
	book := manyOverlays(b, 100)
	o := marginOverlay("new", 1, "0.3", "new")
	for b.Loop() {
		with(b, book, &o)
	}
}

// BenchmarkFor chooses the plan of a VPA: without overlays, and with a hundred of which one
// matches.
func BenchmarkFor(b *testing.B) {
	for _, count := range []int{0, 100} {
		b.Run(fmt.Sprintf("overlays=%d", count), func(b *testing.B) {
			book := manyOverlays(b, count)
			v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns7", Name: "web"}}
			b.ReportAllocs()
			for b.Loop() {
				For(book, v)
			}
		})
	}
}
