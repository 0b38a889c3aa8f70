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

func TestLabelsOfNamespaces(t *testing.T) {
	requirement := func(key, operator, values string) Requirement {
		return Requirement{Key: source.Scalar{Value: key}, Operator: source.Scalar{Value: operator}, Values: scalars(values)}
	}
	notBatch := Match{NamespaceSelector: []Requirement{requirement("tier", "NotIn", "batch test"), requirement("frozen", "DoesNotExist", "")}}
	require.False(t, notBatch.Everything())
	require.Equal(t, "namespaces with tier notin (batch, test) and !frozen", notBatch.String())
	require.True(t, notBatch.Matches(Subject{Namespace: "shop"}), "but for the labels of the namespace")
	for _, tt := range []struct {
		labels  map[string]string
		matches bool
	}{
		{nil, true},
		{map[string]string{"tier": "front"}, true},
		{map[string]string{"tier": "batch"}, false},
		{map[string]string{"frozen": ""}, false},
	} {
		require.Equal(t, tt.matches, Hold(notBatch.NamespaceSelector, tt.labels), tt.labels)
	}
	batch, front := Match{NamespaceSelector: []Requirement{requirement("tier", "In", "batch")}}, Match{NamespaceSelector: []Requirement{requirement("tier", "In", "front")}}
	require.False(t, notBatch.Overlaps(&batch))
	require.True(t, notBatch.Overlaps(&front))
	require.False(t, batch.Overlaps(&front))
	require.True(t, batch.Overlaps(&Match{Selector: front.NamespaceSelector}), "labels of the object are others")
	ofTeam := Match{WorkloadSelector: []Requirement{requirement("team", "In", "shop")}}
	require.False(t, ofTeam.Everything())
	require.False(t, ofTeam.Matches(Subject{Namespace: "shop"}), "without a workload")
	require.True(t, ofTeam.Matches(Subject{Namespace: "shop", Kind: "Deployment", Name: "web"}), "but for its labels")
	require.Equal(t, "workloads with team=shop", ofTeam.String())
	require.False(t, ofTeam.Overlaps(&Match{WorkloadSelector: []Requirement{requirement("team", "DoesNotExist", "")}}))
	require.True(t, ofTeam.Overlaps(&Match{NamespaceSelector: []Requirement{requirement("team", "DoesNotExist", "")}}))
}
