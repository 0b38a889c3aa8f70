package usagefile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
)

// endless is a text that never ends: a beginning, and parts that are made one after another.
type endless struct {
	rest string
	part func(i int) string
	made int
	read int64 // bytes
}

func (e *endless) Read(into []byte) (int, error) {
	for len(e.rest) == 0 {
		e.rest = e.part(e.made)
		e.made++
	}
	n := copy(into, e.rest)
	e.rest = e.rest[n:]
	e.read += int64(n)
	return n, nil
}

func always(text string) func(int) string {
	text = strings.Repeat(text, 1000)
	return func(int) string { return text }
}

// TestEndlessUsageEnds: of a line, a value, and all that is kept. Each case read on until memory was full.
func TestEndlessUsageEnds(t *testing.T) {
	const answer = `{"status":"success","data":{"resultType":"matrix","result":[`
	few := limits{line: 64 << 10, labels: 64 << 10, value: 1 << 20, memory: 1 << 20}
	const line, value = "line 2 is longer than 64 KiB, which no row is", "one value, such as a series, takes more than 1 MiB of memory: ask for a shorter time, or for fewer points"
	const memory = "usage from standard input takes more than 1 MiB of memory, with what was read before: read fewer pods, or a shorter time"
	oneSeries := func(labels, values string) string {
		return `{"metric":{"namespace":"ns","container":"a",` + labels + `},"values":[` + values + `]},`
	}
	for name, tt := range map[string]struct {
		begins string
		part   func(i int) string
		want   string
		most   int64 // bytes that are read
	}{
		"a line":              {"5,ns,p,a,cpu,1\n", always("x"), "cannot read usage from standard input: " + line, 256 << 10},
		"columns":             {"5,ns,p,a,cpu,1\n", always(","), "cannot read usage from standard input: " + line, 256 << 10},
		"a quoted cell":       {"5,ns,p,a,cpu,1\n\"", always("x"), "cannot read usage from standard input: " + line, 256 << 10},
		"a comment":           {"5,ns,p,a,cpu,1\n#", always("x"), "cannot read usage from standard input: " + line, 256 << 10},
		"rows":                {"", always("5,ns,p,a,cpu,1\n"), memory, 2 << 20},
		"rows of a pod each":  {"", func(i int) string { return fmt.Sprintf("5,ns,p%d,a,cpu,1\n", i) }, memory, 2 << 20},
		"a text in JSON":      {`{"status":"`, always("x"), "cannot read usage from standard input: " + value, 2 << 20},
		"a list in JSON":      {`{"infos":[`, always("0,"), "cannot read usage from standard input: " + value, 2 << 20},
		"space in JSON":       {`{"status":`, always(" "), "cannot read usage from standard input: " + value, 2 << 20},
		"lists in JSON":       {`{"infos":`, always("["), "cannot read usage from standard input:", 2 << 20},
		"points of a series":  {answer + oneSeries(`"pod":"p","resource":"cpu"`, "")[:len(oneSeries(`"pod":"p","resource":"cpu"`, ""))-3], always(`[5,"1"],`), value, 2 << 20},
		"labels of a series":  {answer + `{"metric":{`, func(i int) string { return fmt.Sprintf(`"l%d":"",`, i) }, value, 2 << 20},
		"values of an export": {`{"metric":{"resource":"cpu"},"values":[`, always("0,"), value, 2 << 20},
		"series":              {answer, func(i int) string { return oneSeries(fmt.Sprintf(`"pod":"p%d","resource":"cpu"`, i), `[5,"1"]`) }, memory, 2 << 20},
		"series that differ in labels": {answer, func(i int) string {
			return oneSeries(fmt.Sprintf(`"pod":"p","resource":"memory","x":"%d"`, i), `[5,"1"]`)
		}, memory, 2 << 20},
		"series of cores": {answer, func(i int) string {
			return oneSeries(fmt.Sprintf(`"pod":"p%d","cpu":"cpu0","resource":"cpu"`, i), `[5,"1"]`)
		}, memory, 2 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			from := &endless{rest: tt.begins, part: tt.part}
			allocated := hang.Bytes(t, func() {
				_, notes, err := readWithin(few, []string{Stdin}, from)
				require.ErrorContains(t, err, tt.want)
				require.Less(t, len(err.Error())+len(strings.Join(notes, "")), 20_000)
			})
			require.Less(t, from.read, tt.most)
			require.Less(t, allocated, uint64(64<<20))
		})
	}
}

// TestLongTextsInUsageAreNeitherKeptNorQuoted, and cost nothing else.
func TestLongTextsInUsageAreNeitherKeptNorQuoted(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	of := func(labels string) string {
		return `{"metric":{"namespace":"ns","pod":"p","container":"a",` + labels + `},"values":[[5,"1"]]}`
	}
	u, notes, err := read(prometheus(of(`"resource":"cpu","x":"`+long+`"`), of(`"resource":"memory"`)))
	require.NoError(t, err)
	require.Equal(t, []string{"5 ns/p a memory 1"}, listed(u))
	require.Equal(t, []string{"standard input:a series: its labels are longer than 64 KiB; this row is left out"}, notes)
	for _, text := range []string{
		`{"status":"error","error":"` + long + `"}`, `{"status":"` + long + `"}`, `{"kind":"` + long + `"}`, `{"status":"success","data":{"resultType":"` + long + `"}}`,
		strings.Replace(prometheus(), "{", `{"warnings":["`+long+`"],`, 1), prometheus(of(`"resource":"cpu"`), strings.Replace(of(`"resource":"cpu"`), `"1"`, `"`+long+`"`, 1)),
		"5,ns,p,a,cpu," + long[:60_000] + "\n",
	} {
		_, notes, err := read(text)
		require.Less(t, len(strings.Join(append(notes, fmt.Sprint(err)), "")), 5000)
	}
}

// TestNoKindOfNameInUsageIsKeptWithoutEnd: of metrics that are no usage, pairs of metrics, and clusters, the first are kept.
func TestNoKindOfNameInUsageIsKeptWithoutEnd(t *testing.T) {
	var all []string
	for i := range 5000 {
		all = append(all, fmt.Sprintf(`{"metric":{"__name__":"other_%d","namespace":"ns","pod":"p","container":"a"},"values":[[5,"1"]]}`, i),
			fmt.Sprintf(`{"metric":{"__name__":"a:container_memory_usage:m%d","namespace":"ns","pod":"p","container":"a","cluster":"c%d"},"values":[[5,"1"]]}`, i, i),
			fmt.Sprintf(`{"metric":{"resource":"memory","namespace":"ns","pod":"p","container":"a","cluster":"c%d"},"values":[[5,"1"],[5000,"1"]]}`, i))
	}
	r := newReading(shippedLimits, func(Series, int64, int64) error { return nil })
	notes, err := r.each([]string{Stdin}, strings.NewReader(prometheus(all...)))
	require.NoError(t, err)
	require.Less(t, len(strings.Join(notes, "")), 10_000)
	require.LessOrEqual(t, len(r.names.lost), mostKept)
	require.LessOrEqual(t, len(r.contradictions.clusters), mostKept)
	for _, clusters := range r.contradictions.clusters {
		require.LessOrEqual(t, len(clusters), mostClusters)
	}
}
