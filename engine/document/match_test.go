package document

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine/source"
)

func namespaces(list string) (out []source.Scalar) {
	for _, name := range strings.Fields(list) {
		out = append(out, source.Scalar{Value: name})
	}
	return out
}

// TestNamespacesThatAreLeftOut: what matches, how it reads, and with what it cannot meet.
func TestNamespacesThatAreLeftOut(t *testing.T) {
	but := Match{Except: namespaces("kube-system web")}
	require.False(t, but.Everything())
	require.Equal(t, "all namespaces but kube-system, web", but.String())
	require.True(t, but.Matches(Subject{Namespace: "shop"}))
	require.False(t, but.Matches(Subject{Namespace: "web"}))
	for _, tt := range []struct {
		other    Match
		overlaps bool
	}{
		{Match{}, true},
		{Match{Namespaces: namespaces("shop")}, true},
		{Match{Namespaces: namespaces("web")}, false},
		{Match{Namespaces: namespaces("web kube-system")}, false},
		{Match{Namespaces: namespaces("web shop")}, true},
		{Match{Except: namespaces("shop")}, true},
	} {
		require.Equal(t, tt.overlaps, but.Overlaps(&tt.other), tt.other.String())
		require.Equal(t, tt.overlaps, tt.other.Overlaps(&but), tt.other.String())
	}
	a, b := Match{Namespaces: namespaces("a b")}, Match{Namespaces: namespaces("b c")}
	require.True(t, a.Overlaps(&b))
	c := Match{Namespaces: namespaces("c")}
	require.False(t, a.Overlaps(&c))
}
