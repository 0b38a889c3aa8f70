package quantity

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShortQuantities(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "",
		"0":                   "0",
		"671m":                "671m",
		"12345m":              "12345m",
		"228956m":             "229",
		"1000001m":            "1000",
		"1500.5":              "1500.5",
		"1Gi":                 "1Gi",
		"100G":                "100G",
		"1280Mi":              "1280Mi",
		"134217728":           "128Mi",
		"1342177280":          "1280Mi",
		"587804717":           "561Mi",
		"95491088":            "91.1Mi",
		"1175609434":          "1.09Gi",
		"1073741823":          "1024Mi",
		"1073741825":          "1Gi",
		"470547884911":        "438Gi",
		"12345678901":         "11.5Gi",
		"978270031500m":       "933Mi",
		"9223372036854775806": "8Ei",
		"9223372036854775807": "9223372036854775807",
		"-587804717":          "-561Mi",
		"unset":               "unset",
		"something else":      "something else",
		"1e-99999999999":      "1e-99999999999",
	} {
		require.Equal(t, want, Short(text), text)
	}
}

func TestChangesAreSeen(t *testing.T) {
	require.Equal(t, "128Mi → 561Mi", FromTo("128Mi", "587804717"))
	require.Equal(t, "587804717 → 587804718", FromTo("587804717", "587804718"))
	require.Equal(t, "unset → 1.09Gi", FromTo("unset", "1175609434"))
}
