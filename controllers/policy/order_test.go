package policy

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestRulesDecideWhichOfTwoVPAsControlsAPod(t *testing.T) {
	vpa := func(name string, created time.Time, labels map[string]string) *vpav1.VerticalPodAutoscaler {
		return &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(created), Labels: labels}}
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	old, young := vpa("old", at, nil), vpa("a-young", at.Add(time.Second), map[string]string{"tier": "gold"})

	shipped, err := Load(Options{})
	require.NoError(t, err)
	compare := Precedence(shipped, logr.Discard())
	require.Negative(t, compare(old, young), "the older one")
	require.Positive(t, compare(young, old))
	require.Negative(t, compare(vpa("a", at, nil), vpa("b", at, nil)), "by name where they are of one age")
	require.Negative(t, compare(vpa("b", time.Time{}, nil), old), "creation time unknown")

	file := filepath.Join(t.TempDir(), "gold.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: gold-first}
spec:
  match: {vpaSelector: {matchLabels: {tier: gold}}}
  change: [{replace: vpa-order/age/oldest-first, rule: {name: gold, set: {order.first: "1"}}}]
`), 0o600))
	own, err := Load(Options{Path: file})
	require.NoError(t, err)
	require.Positive(t, Precedence(own, logr.Discard())(old, young), "an overlay that puts VPAs of a label first")
}
