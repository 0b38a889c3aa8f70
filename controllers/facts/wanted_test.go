package facts

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// conformance/lab tests that kubelets still say these things.
func TestWhatANodeSaysOfAResizeIsAFact(t *testing.T) {
	const below = `cannot decrease memory limits: attempting to set pod memory limit (1) below current usage (2)`
	for _, tt := range []struct {
		status     ResizeStatus
		message    string
		lacks      string
		belowUsage bool
	}{
		{ResizeDeferred, "", "", false},
		{ResizeDeferred, "Node didn't have enough resource: cpu, requested: 1200, used: 1350, capacity: 2000", "cpu", false},
		{ResizeDeferred, "OutOfmemory: Node didn't have enough resource: memory, requested: 3, used: 2, capacity: 4", "memory", false},
		{ResizeDeferred, "Node didn't have enough resource: ephemeral-storage, requested: 3, used: 2, capacity: 4", "", false},
		{ResizeInfeasible, "Node didn't have enough capacity: cpu, requested: 1200, capacity: 1000", "", false},
		{ResizeError, below, "", true},
		{ResizeError, "out of disk", "", false},
		{ResizeUnknown, below, "", false},
	} {
		r := resizeSchema.Of(resizing{Resize: &Resize{Status: tt.status, Message: tt.message}})
		require.Equal(t, tt.lacks, r.Text("lacks"), tt.message)
		require.Equal(t, tt.belowUsage, r.Bool("belowUsage"), tt.message)
	}
}
