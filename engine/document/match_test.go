package document

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine/source"
)

func scalars(list string) (out []source.Scalar) {
	for _, name := range strings.Fields(list) {
		out = append(out, source.Scalar{Value: name})
	}
	return out
}

// TestNamespacesThatAreLeftOut: what matches, how it reads, and with what it cannot meet.
func TestNamespacesThatAreLeftOut(t *testing.T) {
	but := Match{Except: scalars("kube-system web")}
	require.False(t, but.Everything())
	require.Equal(t, "all namespaces but kube-system, web", but.String())
	require.True(t, but.Matches(Subject{Namespace: "shop"}))
	require.False(t, but.Matches(Subject{Namespace: "web"}))
	for _, tt := range []struct {
		other    Match
		overlaps bool
	}{
		{Match{}, true},
		{Match{Namespaces: scalars("shop")}, true},
		{Match{Namespaces: scalars("web")}, false},
		{Match{Namespaces: scalars("web kube-system")}, false},
		{Match{Namespaces: scalars("web shop")}, true},
		{Match{Except: scalars("shop")}, true},
	} {
		require.Equal(t, tt.overlaps, but.Overlaps(&tt.other), tt.other.String())
		require.Equal(t, tt.overlaps, tt.other.Overlaps(&but), tt.other.String())
	}
	a, b := Match{Namespaces: scalars("a b")}, Match{Namespaces: scalars("b c")}
	require.True(t, a.Overlaps(&b))
	c := Match{Namespaces: scalars("c")}
	require.False(t, a.Overlaps(&c))
}

func TestKinds(t *testing.T) {
	batch := Match{Kinds: scalars("Job CronJob")}
	require.False(t, batch.Everything())
	require.Equal(t, "kinds Job, CronJob", batch.String())
	require.True(t, batch.Matches(Subject{Namespace: "shop", Kind: "Job"}))
	require.False(t, batch.Matches(Subject{Kind: "Deployment"}))
	require.False(t, batch.Matches(Subject{}))
	for kinds, overlaps := range map[string]bool{"": true, "Job": true, "Deployment": false, "Deployment CronJob": true} {
		other := Match{Kinds: scalars(kinds)}
		require.Equal(t, overlaps, batch.Overlaps(&other), kinds)
		require.Equal(t, overlaps, other.Overlaps(&batch), kinds)
	}
}
