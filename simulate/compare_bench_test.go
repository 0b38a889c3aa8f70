package simulate

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/simulate/manifests"
)

// page is an API server with many objects.
type page struct {
	client.Client
	items map[string][]map[string]any // by kind
}

// List answers page by page.
func (p page) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	list := into.(*unstructured.UnstructuredList)
	var o client.ListOptions
	o.ApplyOptions(opts)
	all := p.items[list.GetObjectKind().GroupVersionKind().Kind]
	at := 0
	_, _ = fmt.Sscan(o.Continue, &at)
	end := min(at+int(o.Limit), len(all))
	list.Items = nil
	for _, pod := range all[at:end] {
		list.Items = append(list.Items, unstructured.Unstructured{Object: pod})
	}
	list.SetContinue("")
	if end < len(all) {
		list.SetContinue(fmt.Sprint(end))
	}
	return nil
}

// many is shop n times, in namespaces of so many.
func many(b *testing.B, n, namespace int) page {
	b.Helper()
	var documents []map[string]any
	out := page{items: map[string][]map[string]any{}}
	for i := range n {
		text := strings.NewReplacer("web", fmt.Sprint("web-", i/namespace), "shop", fmt.Sprint("shop-", i)).Replace(shop + shopHistory)
		for _, document := range strings.Split(text, "---\n") {
			if strings.TrimSpace(document) == "" {
				continue
			}
			var object map[string]any
			require.NoError(b, yaml.Unmarshal([]byte(document), &object))
			documents = append(documents, object)
		}
	}
	for _, object := range documents {
		kind := object["kind"].(string)
		out.items[kind] = append(out.items[kind], object)
	}
	return out
}

// cpuTime is what the process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkCompare is celvpa rules diff --live of 10,000 VPAs with two pods each, all of which
// change, from what the API server's client hands out on. docs/rules.md has its result.
func BenchmarkCompare(b *testing.B) {
	for _, namespace := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("%d in a namespace", namespace), func(b *testing.B) {
			server := many(b, 10_000, namespace)
			book := shipped(b)
			candidate := under(b, strings.Replace(margin, "match: {namespaces: [web]}", "", 1))
			begin := cpuTime(b)
			for b.Loop() {
				set, _, err := manifests.Reader{Client: server}.Read(b.Context(), append([]schema.GroupVersionKind{manifests.VPAKind, manifests.CheckpointKind}, manifests.PodKinds...)...)
				require.NoError(b, err)
				c, err := Load(set, book, At(noon))
				require.NoError(b, err)
				got, err := c.Compare(b.Context(), candidate, nil)
				require.NoError(b, err)
				require.Equal(b, 20_000, got.Totals.Pods)
			}
			b.ReportMetric((cpuTime(b)-begin).Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}
