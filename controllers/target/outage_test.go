package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

func TestOnlyServersMakeAnOutage(t *testing.T) {
	things := schema.GroupResource{Group: "example.com", Resource: "things"}
	status := func(code int32) error { return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code}} }
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{name: "a refused connection", err: &url.Error{Op: "Get", URL: "https://10.0.0.1", Err: errSilent}, want: true},
		{name: "a deadline", err: context.DeadlineExceeded, want: true},
		{name: "a connection that ends early", err: io.ErrUnexpectedEOF, want: true},
		{name: "429", err: apierrors.NewTooManyRequests("later", 1), want: true},
		{name: "503", err: apierrors.NewServiceUnavailable("no endpoints"), want: true},
		{name: "504", err: apierrors.NewTimeoutError("too slow", 1), want: true},
		{name: "5xx without a reason", err: status(599), want: true},
		{name: "an API service that is down", err: &apiutil.ErrResourceDiscoveryFailed{{Group: "example.com", Version: "v1"}: apierrors.NewServiceUnavailable("no endpoints")}, want: true},
		{name: "500 about one object", err: errBroken},
		{name: "403", err: apierrors.NewForbidden(things, "t", errors.New("no"))},
		{name: "4xx without a reason", err: status(418)},
		{name: "a request that the client cannot form", err: errors.New(`invalid resource name "a/b": [may not contain '/']`)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, silent(fmt.Errorf("reading the scale of Thing/t in namespace ns: %w", tt.err)))
		})
	}
}

// Regression: clients refuse such a name before they ask a server. That looked like an outage of the
// kind, so that one VPA hid all objects of a custom kind from the VPAs of all namespaces.
func TestTargetWithAnImpossibleNameHidesNoOthers(t *testing.T) {
	for _, name := range []string{"a/b", "a%b", ".", ".."} {
		api := newScaleAPI(func(asked string) any {
			if asked == "v1 "+name {
				return fmt.Errorf("invalid resource name %q", name)
			}
			return "app=a"
		}, "v1")
		v := aimedAt("example.com/v1", "Thing")
		v.Spec.TargetRef.Name = name
		_, why := (&Resolver{Client: api.Client, Scales: api.scales}).Selector(t.Context(), v)
		require.Equal(t, "Cannot read targetRef. Reason: Thing ns/"+name+" does not exist", why.Message)
		require.False(t, why.Transient)
		require.Zero(t, api.reads(), "no server can have it")
		require.ErrorContains(t, lookError(t, api, thing(name)), "invalid resource name")
		require.Equal(t, "app=a", api.look(t, thing("t"), asTarget))
	}
}

// Regression: after an outage the first to be asked was always the object that had never answered,
// and its next failure prolonged the outage for all others.
func TestObjectThatAnsweredLastEndsAnOutage(t *testing.T) {
	api := newScaleAPI(func(asked string) any {
		if asked == "v1 hangs" {
			return context.DeadlineExceeded
		}
		return "app=a"
	}, "v1")
	for _, name := range []string{"old", "known"} {
		require.Equal(t, "app=a", api.look(t, thing(name), asTarget))
		api.clock.Step(time.Minute)
	}
	require.Error(t, lookError(t, api, thing("hangs")))
	require.ErrorContains(t, lookError(t, api, thing("new")), "deadline exceeded", "one object is asked for a kind that hangs")
	require.Equal(t, []string{"v1 old", "v1 known", "v1 hangs"}, api.asked)
	api.clock.Step(scaleRetry)
	require.Equal(t, thing("known"), api.scales.due()[0])
	api.asked = nil
	api.scales.refresh(t.Context())
	require.Equal(t, "v1 known", api.asked[0])
	require.Equal(t, 1, api.scales.outages[thing("t").groupKind()].times, "of the new outage, if any")

	api.answers(context.DeadlineExceeded)
	api.asked = nil
	api.clock.Step(scaleRetryMax)
	api.scales.refresh(t.Context())
	require.Equal(t, []string{"v1 known"}, api.asked, "if that hangs too, nobody else is asked")
}
