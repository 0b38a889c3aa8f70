package updater

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFaultIsToldOnceUntilItChanges(t *testing.T) {
	var told told
	require.True(t, told.news("vpa", "evicting pods of web", "budget b allows 0"))
	require.False(t, told.news("vpa", "evicting pods of web", "budget b allows 1"), "the same but for a number")
	require.True(t, told.news("vpa", "evicting pods of web", "budget c allows 0"))
	require.True(t, told.news("vpa", "evicting pods of db", "budget c allows 0"))
	told.over("vpa", "evicting pods of db")
	require.True(t, told.news("vpa", "evicting pods of db", "budget c allows 0"), "it is there again")
}

// The owners of pods come and go, as the Jobs of a CronJob do, while their VPA stays.
func TestOwnersThatAreGoneTakeNoMemoryForEver(t *testing.T) {
	var told told
	for i := range 10 * maxMatters {
		require.True(t, told.news("vpa", fmt.Sprint("evicting pods of job ", i), "no"))
		require.LessOrEqual(t, len(told.of["vpa"]), maxMatters)
	}
}
