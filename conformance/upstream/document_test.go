package upstream

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

const document = "../../docs/upstream-differences.md"

// TestTheDocumentListsTheDeliberateDifferences compares the bold first cells of the document's
// tables with the names in the code, in both directions and in order.
func TestTheDocumentListsTheDeliberateDifferences(t *testing.T) {
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	var documented, meant []string
	for _, row := range regexp.MustCompile(`(?m)^\| \*\*(.+?)\*\* \|`).FindAllSubmatch(text, -1) {
		documented = append(documented, string(row[1]))
	}
	for _, x := range deliberate {
		meant = append(meant, x.name)
	}
	for _, x := range deliberateOfRecommender {
		meant = append(meant, x.name)
	}
	for _, x := range deliberateOfPods {
		meant = append(meant, x.name)
	}
	for _, x := range deliberateOfUpdater {
		meant = append(meant, x.name)
	}
	require.Equal(t, meant, documented)
}
