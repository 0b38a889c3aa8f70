package closure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLargeConstantsAreNotKept(t *testing.T) {
	small, large := constant(strings.Repeat("x", 100)), constant(strings.Repeat("x", maxFolded/2+1))
	n, ok := binary(addTexts)([]node{small, small})
	require.True(t, ok && n.Known)
	n, ok = binary(addTexts)([]node{large, large})
	require.True(t, ok && !n.Known)
	require.Len(t, n.Run.(Code[string])(&Frame{}), maxFolded+2)
}
