package updater

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// TestSiblingsHaveTheSameOwner: one that was deleted and made again under its name is another.
func TestSiblingsHaveTheSameOwner(t *testing.T) {
	pod := func(namespace, name, owner string, uid types.UID) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Note", Name: "of", UID: "n"}, {APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: uid, Controller: ptr.To(true)}}
		}
		return p
	}
	var got [][]string
	for _, s := range siblingsOf([]*corev1.Pod{
		pod("shop", "a", "web", "1"), pod("shop", "b", "db", "2"), pod("shop", "c", "web", "1"), pod("shop", "d", "web", "3"),
		pod("other", "e", "web", "1"), pod("ignored", "f", "web", "1"), pod("shop", "nobodys", "", ""),
	}, map[string]bool{"shop": true, "other": true}) {
		var names []string
		for _, p := range s.pods {
			names = append(names, p.Name)
		}
		got = append(got, names)
	}
	require.Equal(t, [][]string{{"a", "c"}, {"b"}, {"d"}, {"e"}}, got)
}
