package usagefile

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCoresAddUpAndCopiesDoNot: a cAdvisor outside kubelets has a series for each core.
func TestCoresAddUpAndCopiesDoNot(t *testing.T) {
	const name = "container_cpu_usage_seconds_total"
	cores := func(labels string) (out []string) {
		for i := range 4 {
			out = append(out, series(name, fmt.Sprintf(`,"cpu":"cpu%02d"%s`, i, labels), `[10,"100"],[20,"105"],[30,"110"]`))
		}
		return out
	}
	sum := []string{"20 ns/p a cpu 2000", "30 ns/p a cpu 2000"}
	for what, tt := range map[string]struct {
		series []string
		want   []string
	}{
		"a series for each core":              {cores(""), sum},
		"one for all":                         {[]string{series(name, `,"cpu":"total"`, `[10,"100"],[20,"120"],[30,"140"]`)}, sum},
		"cores of two replicas":               {slices.Concat(cores(`,"prometheus_replica":"a"`), cores(`,"prometheus_replica":"b"`)), []string{sum[0], sum[0], sum[1], sum[1]}},
		"cores beside their sum":              {append(cores(`,"job":"cadvisor"`), series(name, `,"cpu":"total","job":"kubelet"`, `[10,"100"],[20,"120"],[30,"140"]`)), []string{sum[0], sum[0], sum[1], sum[1]}},
		"rates of cores":                      {[]string{series("", `,"resource":"cpu","cpu":"0"`, `[5,"0.0015"]`), series("", `,"resource":"cpu","cpu":"1"`, `[5,"0.0015"],[6,"0.1"]`)}, []string{"5 ns/p a cpu 3", "6 ns/p a cpu 100"}},
		"less than a milli-core each":         {[]string{series(name, `,"cpu":"cpu00"`, `[10,"0"],[20,"0.006"]`), series(name, `,"cpu":"cpu01"`, `[10,"0"],[20,"0.006"]`)}, []string{"20 ns/p a cpu 1"}},
		"a core that was reset and one later": {[]string{series(name, `,"cpu":"cpu00"`, `[10,"100"],[20,"5"],[30,"10"]`), series(name, `,"cpu":"cpu01"`, `[20,"0"],[30,"5"]`)}, []string{"20 ns/p a cpu 500", "30 ns/p a cpu 1000"}},
		"memory has no cores":                 {[]string{series("container_memory_working_set_bytes", `,"cpu":"cpu00"`, `[5,"7"]`), series("container_memory_working_set_bytes", `,"cpu":"cpu01"`, `[5,"7"]`)}, []string{"5 ns/p a memory 7", "5 ns/p a memory 7"}},
	} {
		t.Run(what, func(t *testing.T) {
			u, notes, err := read(prometheus(tt.series...))
			require.NoError(t, err)
			require.Empty(t, notes)
			require.Equal(t, tt.want, listed(u))
		})
	}
	// Exports may overlap, and parts of a series come in any order.
	line := func(core, values, times string) string {
		return fmt.Sprintf(`{"metric":{"resource":"cpu","cpu":%q,"namespace":"ns","pod":"p","container":"a"},"values":[%s],"timestamps":[%s]}`, core, values, times)
	}
	u, _, err := read(line("0", "1,1", "5000,6000") + line("1", "1,1,1", "5000,6000,7000") + line("0", "1", "9000") + line("0", "1,1", "6000,7000"))
	require.NoError(t, err)
	require.Equal(t, []string{"5 ns/p a cpu 2000", "6 ns/p a cpu 2000", "7 ns/p a cpu 2000", "9 ns/p a cpu 1000"}, listed(u))
	// An answer that repeats the end of another one is no other core.
	u, _, err = read(prometheus(series("", `,"resource":"cpu","cpu":"0"`, `[5,"1"]`)) + prometheus(series("", `,"resource":"cpu","cpu":"0"`, `[5,"1"],[6,"1"]`)))
	require.NoError(t, err)
	require.Equal(t, []string{"5 ns/p a cpu 1000", "5 ns/p a cpu 1000", "6 ns/p a cpu 1000"}, listed(u))
}
