package markup

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMarkupHasAPlaceForEachValue(t *testing.T) {
	for _, values := range [][]string{{}, {"a", "b"}} {
		w := NewWriter(&strings.Builder{})
		w.Put("<p>{}</p>", values...)
		require.Error(t, w.Finish())
	}
}
