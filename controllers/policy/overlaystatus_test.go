package policy

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
)

// A message that was cut within a character was stored with another in its place, and so written
// again with every interval.
func TestAConditionThatIsTooLongIsWrittenOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, rulesv1alpha1.AddToScheme(scheme))
	for _, filler := range []string{"", "x", "xx"} { // the cut is at each byte of a character
		object := &rulesv1alpha1.RuleOverlay{ObjectMeta: metav1.ObjectMeta{Name: "long", UID: "1", Generation: 1}}
		written := 0
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(object).WithStatusSubresource(object).WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
				written++
				return c.SubResource(name).Patch(ctx, o, p, options...)
			}}).Build()
		s := &Source{}
		s.accepted.Store(&map[string]Acceptance{"long": {UID: "1", Generation: 1, Err: errors.New(filler + strings.Repeat("…", maxConditionMessage))}})
		w := &OverlayStatus{Client: c, Source: s, Clock: testclock.NewFakeClock(time.Unix(0, 0)), Log: logr.Discard()}
		for range 3 {
			w.WriteOnce(t.Context())
		}
		require.Equal(t, 1, written)
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		require.LessOrEqual(t, len(object.Status.Conditions[0].Message), maxConditionMessage)
	}
}
