package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShippedRulesCompile(t *testing.T) {
	book, err := Load(Options{Cache: &compiledSets})
	require.NoError(t, err)
	require.Equal(t, "default@1.0.0", book.Default().Pipeline())
}
