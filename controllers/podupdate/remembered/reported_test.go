package remembered

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFaultIsReportedOnceUntilItChanges(t *testing.T) {
	var faults Reported
	require.True(t, faults.News("vpa", "evicting pods of web", "budget b allows 0"))
	require.False(t, faults.News("vpa", "evicting pods of web", "budget b allows 1"), "only a number differs")
	require.True(t, faults.News("vpa", "evicting pods of web", "budget c allows 0"))
	require.True(t, faults.News("vpa", "evicting pods of db", "budget c allows 0"))
	faults.Over("vpa", "evicting pods of db")
	require.True(t, faults.News("vpa", "evicting pods of db", "budget c allows 0"), "it occurs again")
}

// The owners of pods come and go, as the Jobs of a CronJob do, while their VPA stays.
func TestFaultsOfOwnersThatAreGoneTakeBoundedMemory(t *testing.T) {
	var faults Reported
	for i := range 10 * maxMatters {
		require.True(t, faults.News("vpa", fmt.Sprint("evicting pods of job ", i), "no"))
		require.LessOrEqual(t, len(faults.of["vpa"]), maxMatters)
	}
}
