package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/aeps"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// validated judges one file that holds one VerticalPodAutoscaler.
func validated(t *testing.T, file string, flags ...string) simulate.Judgement {
	t.Helper()
	out, err := celvpa(t, append([]string{"validate", "-f", file, "-o", "json"}, flags...)...)
	if !errors.Is(err, errNo) {
		require.NoError(t, err, out)
	}
	var report simulate.Validation
	require.NoError(t, json.Unmarshal([]byte(out), &report), out)
	require.Len(t, report.Items, 1)
	require.Equal(t, err == nil, report.Items[0].Allowed)
	return report.Items[0]
}

func fieldsOf(causes []vpareview.Cause) []string {
	var out []string
	for _, c := range causes {
		out = append(out, c.Field)
	}
	return out
}

// TestTheManifestsOfTheAEPs: with its gate each gets the verdict that its proposal gives it, and no field is unknown.
func TestTheManifestsOfTheAEPs(t *testing.T) {
	for _, m := range aeps.Manifests {
		t.Run(m.File, func(t *testing.T) {
			file := "../../conformance/aeps/" + m.File
			var gate []string
			if m.Gate != "" {
				gate = []string{"--feature-gates", m.Gate + "=true"}
			}
			item := validated(t, file, gate...)
			require.Equal(t, m.Warned, fieldsOf(item.Warnings), "warnings: %v", item.Warnings)
			if m.Allowed() {
				require.Empty(t, item.Causes)
				return
			}
			require.Len(t, item.Causes, 1, "%v", item.Causes)
			require.Equal(t, m.Rule, item.Causes[0].Rule)
		})
	}
}

// TestTheManifestsOfTheAEPsWithoutTheirGate are refused in words that name the gate, if they need one.
func TestTheManifestsOfTheAEPsWithoutTheirGate(t *testing.T) {
	for _, m := range aeps.Manifests {
		t.Run(m.File, func(t *testing.T) {
			item := validated(t, "../../conformance/aeps/"+m.File)
			require.Equal(t, m.Gate == "", item.Allowed, "%v", item.Causes)
			if m.Gate != "" {
				require.Contains(t, fmt.Sprint(item.Causes), "--feature-gates="+m.Gate+"=true")
			}
		})
	}
}
