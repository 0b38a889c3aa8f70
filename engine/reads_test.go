package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlansKnowWhatTheirRulesRead at a point, so that hosts need not find out what none does.
func TestPlansKnowWhatTheirRulesRead(t *testing.T) {
	book, err := rulebook(overlay("mine", "  change: [{before: markup, stage: {name: first, rules: [{name: a, when: size(customer.tags) > 1, set: {total.free: 'true'}}]}}]\n"))
	require.NoError(t, err)
	require.False(t, book.Default().Reads("order.adjust", "customer"))
	with, err := book.Everywhere()
	require.NoError(t, err)
	require.True(t, with.Reads("order.adjust", "customer"))
	require.False(t, with.Reads("order.ship", "customer"))
	require.False(t, with.Reads("order.adjust", "total"), "what is only written")
	require.True(t, with.Interpreted().Reads("order.adjust", "customer"))
}
