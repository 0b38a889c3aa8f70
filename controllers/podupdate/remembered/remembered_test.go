package remembered

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
)

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func TestRecordsAreSafeForConcurrentUse(t *testing.T) {
	var i Infeasible
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for m := range 200 {
				uid := types.UID(fmt.Sprint(n, "-", m%7))
				i.Note(uid, facts.Requests{"app": amounts("1", "1Gi")})
				i.Report(uid)
				i.Tried(uid)
				i.Keep(func(one types.UID) bool { return one == uid })
				i.Forget(uid)
			}
		})
	}
	all.Wait()
	require.Empty(t, i.of)
}
