package usagefile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// read reads text as standard input.
func read(text string) (*Usage, []string, error) {
	return Read([]string{Stdin}, strings.NewReader(text))
}

func listed(u *Usage) (out []string) {
	for _, row := range u.Rows {
		of := u.Series[row.Series]
		kind := map[Kind]string{CPU: "cpu", Memory: "memory", OOM: "oom"}[of.Kind]
		out = append(out, fmt.Sprintf("%d %s/%s %s %s %d", row.Time().Unix(), of.Pod.Namespace, of.Pod.Name, of.Container, kind, row.Amount))
	}
	return out
}

func TestRowsOfCSVAreRead(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"without a header":   {text: "5,ns,p,a,cpu,0.25\n", want: []string{"5 ns/p a cpu 250"}},
		"another order":      {text: "value,resource,container,pod,namespace,timestamp,node\n0.25,cpu,a,p,ns,5,n1\n", want: []string{"5 ns/p a cpu 250"}},
		"capitals and space": {text: " Timestamp, Namespace ,POD,container,resource,value\n 5 , ns , p , a , cpu , 0.25 \n", want: []string{"5 ns/p a cpu 250"}},
		"comments":           {text: "# of March\n\ntimestamp,namespace,pod,container,resource,value\n# a\n5,ns,p,a,oom,7\n", want: []string{"5 ns/p a oom 7"}},
		"quotes":             {text: "\"5\", \"ns\",p,a,memory,\"7\"\n", want: []string{"5 ns/p a memory 7"}},
		"Windows":            {text: "\ufefftimestamp,namespace,pod,container,resource,value\r\n5,ns,p,a,memory,7\r\n", want: []string{"5 ns/p a memory 7"}},
		"no line end":        {text: "5,ns,p,a,memory,7", want: []string{"5 ns/p a memory 7"}},
		"no namespace":       {text: "5,,p,a,memory,7", want: []string{"5 default/p a memory 7"}},
		"in order of time, then of pod, container, resource, and the largest first": {
			text: "6,ns,p,a,cpu,1\n5,ns,p,b,oom,1\n5,ns,p,b,memory,1\n5,ns,p,b,cpu,1\n5,ns,p,a,memory,1\n5,ns,o,z,memory,1\n5,ns,o,z,memory,2\n5,mm,q,a,cpu,0\n",
			want: []string{"5 mm/q a cpu 0", "5 ns/o z memory 2", "5 ns/o z memory 1", "5 ns/p a memory 1", "5 ns/p b cpu 1000", "5 ns/p b memory 1", "5 ns/p b oom 1", "6 ns/p a cpu 1000"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			u, notes, err := read(tt.text)
			require.NoError(t, err)
			require.Empty(t, notes)
			require.Equal(t, tt.want, listed(u))
		})
	}
}

// Good rows before and after the bad one are read.
func TestRowsThatCannotBeUsedCostNothingElse(t *testing.T) {
	for row, want := range map[string]string{
		"5,ns,p,a,cpu":               `it has 5 columns and not 6: timestamp,namespace,pod,container,resource,value`,
		"soon,ns,p,a,cpu,1":          `"soon" is not a time: write it like 2026-01-31T12:00:00Z or as seconds since 1970`,
		"5,ns,p,a,disk,1":            `resource "disk" is not known; it is cpu, memory or oom`,
		"5,ns,,a,cpu,1":              `it names no pod, or no container`,
		"5,ns,p,,cpu,1":              `it names no pod, or no container`,
		"5,ns,p,a,cpu,NaN":           `value "NaN" is not a number; it is in cores, such as 0.25`,
		"5,ns,p,a,memory,-1":         `value "-1" is less than 0; it is in bytes, such as 1073741824`,
		"5,ns,p,a,memory,200Mi":      `value "200Mi" is not a number; it is in bytes, such as 1073741824`,
		"5,ns,p,a,cpu,100000000001":  `value "100000000001" is too large; it is in cores, such as 0.25`,
		"5,ns,p,a,memory,1e15":       `value "1e15" is too large; it is in bytes, such as 1073741824`,
		`5,"ns,p,a,cpu,1`:            `its quotes do not match`,
		"1376314846000,ns,p,a,cpu,1": `time "1376314846000" is after 2262: write seconds since 1970, not thousandths`,
		"5,ns,p,a,cpu,\x00\xff":      `value "\x00\xff" is not a number; it is in cores, such as 0.25`,
	} {
		u, notes, err := read("1,ns,p,a,cpu,1\n" + row + "\n9,ns,p,a,cpu,1\n")
		require.NoError(t, err)
		require.Equal(t, []string{"standard input:2: " + want + "; this row is left out"}, notes)
		require.Equal(t, []string{"1 ns/p a cpu 1000", "9 ns/p a cpu 1000"}, listed(u))
	}
}

func TestAFileWithoutUsageIsNoted(t *testing.T) {
	for _, text := range []string{"", "# nothing yet\n", "timestamp,namespace,pod,container,resource,value\n", prometheus()} {
		u, notes, err := read(text)
		require.NoError(t, err)
		require.Equal(t, []string{"standard input holds no usage of containers"}, notes)
		require.Empty(t, listed(u))
	}
}

func TestManyRowsThatCannotBeUsedAreSummedUp(t *testing.T) {
	_, notes, err := read("1,ns,p,a,cpu,1\n" + strings.Repeat("5,ns,p,a,cpu,NaN\n", 25))
	require.NoError(t, err)
	require.Len(t, notes, maxSkipped+1)
	require.Equal(t, "standard input: 15 more rows are left out", notes[maxSkipped])
	_, _, err = read(strings.Repeat("5,ns,p,a,cpu,NaN\n", 2))
	require.EqualError(t, err, "usage from standard input: none of its rows can be used")
}

func prometheus(series ...string) string {
	return `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(series, ",") + `]}}`
}

func TestAnswersOfPrometheusAreRead(t *testing.T) {
	const pod = `"namespace":"ns","pod":"p","container":"a"`
	for name, tt := range map[string]struct {
		text  string
		want  []string
		notes []string
	}{
		"memory by the name of its metric": {text: prometheus(`{"metric":{"__name__":"container_memory_working_set_bytes",` + pod + `},"values":[[5,"7"],[6.5, "8.1e1"]]}`),
			want: []string{"5 ns/p a memory 7", "6 ns/p a memory 81"}},
		"a label says what it is": {text: prometheus(`{"metric":{"resource":"cpu",` + pod + `},"values":[[5,"0.29"]]}`), want: []string{"5 ns/p a cpu 290"}},
		"a recorded rate": {text: prometheus(`{"metric":{"__name__":"node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate",` + pod + `},"values":[[5,"0.29"]]}`),
			want: []string{"5 ns/p a cpu 290"}},
		"a counter becomes rates, resets included": {text: prometheus(`{"metric":{"__name__":"container_cpu_usage_seconds_total",` + pod + `},"values":[[10,"100"],[20,"101.5"],[30,"3"],[60,"3"]]}`),
			want: []string{"20 ns/p a cpu 150", "30 ns/p a cpu 300", "60 ns/p a cpu 0"}},
		"a counter that goes back in time": {text: prometheus(`{"metric":{"__name__":"container_cpu_usage_seconds_total",` + pod + `},"values":[[10,"100"],[10,"101"],[20,"102"]]}`),
			want:  []string{"20 ns/p a cpu 200"},
			notes: []string{`standard input:container_cpu_usage_seconds_total{namespace="ns", pod="p", container="a"} at 10: its time is not after the one before; this row is left out`}},
		"a counter that leaps": {text: prometheus(`{"metric":{"__name__":"container_cpu_usage_seconds_total",` + pod + `},"values":[[10,"0"],[10.000000001,"9000000000"],[20.000000001,"9000000001"]]}`),
			want:  []string{"20 ns/p a cpu 100"},
			notes: []string{`standard input:container_cpu_usage_seconds_total{namespace="ns", pod="p", container="a"} at 10.000000001: value "9000000000" exceeds what can be used since the one before; this row is left out`}},
		"no number": {text: prometheus(`{"metric":{"resource":"cpu",` + pod + `},"values":[[5,"NaN"],[6,"1"]]}`), want: []string{"6 ns/p a cpu 1000"},
			notes: []string{`standard input:{namespace="ns", pod="p", container="a"} at 5: value "NaN" is not a number; it is in cores, such as 0.25; this row is left out`}},
		"a value that is a number": {text: prometheus(`{"metric":{"resource":"cpu",` + pod + `},"values":[ [ 5 , 0.1 ] ]}`), want: []string{"5 ns/p a cpu 100"}},
		"no pair": {text: prometheus(`{"metric":{"resource":"cpu",` + pod + `},"values":[7,[6,"1"]]}`), want: []string{"6 ns/p a cpu 1000"},
			notes: []string{`standard input:{namespace="ns", pod="p", container="a"} at 7: value "" is not a number; it is in cores, such as 0.25; this row is left out`}},
		"cgroups of pods and networks": {text: prometheus(`{"metric":{"resource":"cpu","namespace":"ns","pod":"p","container":""},"values":[[5,"1"]]}`, `{"metric":{"resource":"cpu","namespace":"ns","pod":"p","container":"POD"},"values":[[5,"1"]]}`),
			notes: []string{"standard input holds no usage of containers"}},
		"no label": {text: prometheus(`{"metric":{"resource":"cpu","namespace":"ns","container":"a"},"values":[[5,"1"],[6,"1"]]}`, `{"metric":{"resource":"oom",`+pod+`},"values":[[5,"1"]]}`),
			want:  []string{"5 ns/p a oom 1"},
			notes: []string{`standard input:{namespace="ns", pod="", container="a"}: it lacks a label: it needs namespace, pod and container; values: 2; this row is left out`}},
		"neither a name nor a label": {text: prometheus(`{"metric":{`+pod+`},"values":[[5,"1"]]}`, `{"metric":{"resource":"oom",`+pod+`},"values":[[5,"1"]]}`),
			want:  []string{"5 ns/p a oom 1"},
			notes: []string{`standard input:{namespace="ns", pod="p", container="a"}: neither a label resource nor the name of its metric says what it is about; give rates one: label_replace(rate(…), "resource", "cpu", "", ""); values: 1; this row is left out`}},
		"several answers in a row": {text: prometheus(`{"metric":{"resource":"cpu",`+pod+`},"values":[[5,"1"]]}`) + "\n" + prometheus(`{"metric":{"resource":"memory",`+pod+`},"values":[[5,"1"]]}`),
			want: []string{"5 ns/p a cpu 1000", "5 ns/p a memory 1"}},
		"members in another order, and others": {text: `{"infos":[{"a":[1]}],"data":{"stats":{},"result":[{"values":[[5,"1"]],"metric":{"resource":"cpu",` + pod + `}}],"resultType":"matrix"},"status":"success"}`,
			want: []string{"5 ns/p a cpu 1000"}},
		"no series at all": {text: `{"status":"success","data":{"resultType":"matrix","result":null}}`, notes: []string{"standard input holds no usage of containers"}},
	} {
		t.Run(name, func(t *testing.T) {
			u, notes, err := read(tt.text)
			require.NoError(t, err)
			require.Equal(t, tt.notes, notes)
			require.Equal(t, tt.want, listed(u))
		})
	}
}

func TestUnreadableFilesAreReported(t *testing.T) {
	for text, want := range map[string]string{
		"time,pod\n5,p\n1,ns,p,a,cpu,1":                                        "", // rows without a header
		"timestamp,pod,value\n5,p,1\n":                                         "its first line names no column namespace, container, resource; the columns are timestamp,namespace,pod,container,resource,value",
		`{"status":"error","errorType":"bad_data","error":"parse error"}`:      `a Prometheus answer with status "error": parse error`,
		`{"status":"success","data":{"resultType":"vector","result":[]}}`:      "a Prometheus answer with a vector, not a matrix: ask /api/v1/query_range",
		`{"status":"success","data":{"resultType":"scalar","result":[5,"1"]}}`: "a Prometheus answer with a scalar, not a matrix: ask /api/v1/query_range",
		`{"status":"success","data":[]}`:                                       "not a Prometheus answer to a range query: [ where { should be",
		`{"status":"success"`:                                                  "not a Prometheus answer to a range query: unexpected EOF",
		`{"status":`:                                                           "not a Prometheus answer to a range query: unexpected EOF",
		`{"kind":"PodMetricsList","items":[]}`:                                 "an object of Kubernetes of kind PodMetricsList, and not usage over time",
		`{"some":"JSON"}`:                                                      "JSON that is neither an answer of Prometheus to a range query nor an export of VictoriaMetrics",
		"\x1f\x8bnonsense":                                                     "cannot read usage from standard input: gzip: invalid header",
	} {
		_, _, err := read(text)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
	_, _, err := Read([]string{"missing.csv", Stdin, Stdin}, strings.NewReader(""))
	require.EqualError(t, err, "cannot read usage from missing.csv: no such file or directory\nusage: standard input is named twice; it can be read once")
}

// TestWhatUsersHaveInPlaceOfUsageIsNamed: it was read as CSV, with a complaint about columns for each line.
func TestWhatUsersHaveInPlaceOfUsageIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"# HELP container_cpu_usage_seconds_total Cumulative cpu time.\n# TYPE container_cpu_usage_seconds_total counter\n": "it is the text of one scrape",
		"\ncontainer_memory_working_set_bytes{container=\"a\",pod=\"p, q\"} 7 1769853600000\n":                              "it is the text of one scrape",
		"up 1\n": "it is the text of one scrape",
		"NAMESPACE   NAME    CPU(cores)   MEMORY(bytes)\nshop        api-1   12m          340Mi\n": "it is the output of kubectl top",
		"POD     NAME   CPU(cores)   MEMORY(bytes)\n":                                              "it is the output of kubectl top",
		"shop   api-1   api   12m   340Mi\n":                                                       "it is the output of kubectl top",
		"<!DOCTYPE html>\n<html><title>Log in</title></html>":                                      "it is an HTML page, such as that of a login",
		"  <html>":                     "it is an HTML page, such as that of a login",
		"\xff\xfet\x00i\x00m\x00e\x00": "it is UTF-16, as PowerShell writes it",
		`[{"metric":{}}]`:              "it is a JSON list",
		"a.csv" + strings.Repeat("\x00", 252) + "ustar\x00005,ns,p,a,cpu,1\n": "it is a tar archive: unpack it",
		"apiVersion: v1\nkind: Pod\n":                                         "it is a manifest: give it with -f",
	} {
		u, notes, err := read(text)
		require.ErrorContains(t, err, "cannot read usage from standard input: "+want)
		require.Empty(t, notes)
		require.Empty(t, u.Rows)
	}
}

func TestExportsOfVictoriaMetricsAreRead(t *testing.T) {
	line := func(metric, values, timestamps string) string {
		return fmt.Sprintf(`{"metric":{%s,"namespace":"ns","pod":"p","container":"a"},"values":[%s],"timestamps":[%s]}`+"\n", metric, values, timestamps)
	}
	u, notes, err := read(line(`"__name__":"container_memory_working_set_bytes"`, `7,8.1e1,null`, `5000,6500,7000`) +
		line(`"__name__":"container_cpu_usage_seconds_total","cpu":"cpu00"`, `100,105,null,110`, `10000,20000,25000,30000`) +
		line(`"__name__":"container_cpu_usage_seconds_total","cpu":"cpu01"`, `100,105,1`, `10000,20000,30000`) +
		line(`"__name__":"container_spec_cpu_quota"`, `7`, `5000`))
	require.NoError(t, err)
	require.Equal(t, []string{"5 ns/p a memory 7", "6 ns/p a memory 81", "20 ns/p a cpu 1000", "30 ns/p a cpu 600"}, listed(u))
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "container_spec_cpu_quota (1 series)")

	u, notes, err = read(line(`"__name__":"container_memory_working_set_bytes"`, `7,"Infinity"`, `5000,6000`) + line(`"resource":"cpu"`, `1,2`, `5000`))
	require.NoError(t, err)
	require.Equal(t, []string{"5 ns/p a memory 7"}, listed(u))
	require.Equal(t, []string{
		`standard input:container_memory_working_set_bytes{namespace="ns", pod="p", container="a"} at 6000: value "Infinity" is not a number; it is in bytes, such as 1073741824; this row is left out`,
		`standard input:{namespace="ns", pod="p", container="a"}: it has 2 values and 1 timestamps; this row is left out`,
	}, notes)

	u, _, err = read(line(`"resource":"cpu"`, `1`, `5000`) + `{"metric":{"resource":"cpu","namespace":`)
	require.ErrorContains(t, err, "unexpected EOF")
	require.Len(t, u.Rows, 1, "what came before the end counts")
}

// TestAnswersThatLackSomethingAreNamed: as they are for a server.
func TestAnswersThatLackSomethingAreNamed(t *testing.T) {
	whole := prometheus(`{"metric":{"resource":"cpu","namespace":"ns","pod":"p","container":"a"},"values":[[5,"1"]]}`)
	for says, want := range map[string]string{
		`"isPartial":true`:  "usage from standard input is incomplete: the server could not read all of it (isPartial is true); ask it again",
		`"isPartial":false`: "",
		`"warnings":["receive series from Addr: store-2:10901: rpc error: code = Unavailable"]`: "usage from standard input is incomplete: the server could not read all of it (receive series from Addr: store-2:10901: rpc error: code = Unavailable); ask it again",
		`"infos":["PromQL info: metric might not be a counter"]`:                                "",
	} {
		u, notes, err := read(strings.Replace(whole, "{", "{"+says+",", 1))
		require.Len(t, u.Rows, 1)
		require.Empty(t, notes)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, want)
	}
	_, notes, err := read(strings.Replace(whole, "{", `{"warnings":["PromQL warning: this is odd"],`, 1))
	require.NoError(t, err)
	require.Equal(t, []string{"standard input: Prometheus warns of the query: PromQL warning: this is odd"}, notes)
}

func TestCompressedFilesAreRead(t *testing.T) {
	t.Chdir(t.TempDir())
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte("5,ns,p,a,cpu,1\n"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile("usage.csv.gz", packed.Bytes(), 0o600))
	require.NoError(t, os.WriteFile("more.csv", []byte("4,ns,p,a,cpu,1\n"), 0o600))
	u, notes, err := Read([]string{"usage.csv.gz", "more.csv"}, nil)
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Equal(t, []string{"4 ns/p a cpu 1000", "5 ns/p a cpu 1000"}, listed(u))
	require.NoError(t, os.WriteFile("usage.csv.gz", packed.Bytes()[:packed.Len()-4], 0o600))
	u, _, err = Read([]string{"usage.csv.gz"}, nil)
	require.ErrorContains(t, err, "cannot read usage from usage.csv.gz: line 2: unexpected EOF")
	require.Len(t, u.Rows, 1, "what came before counts")
}

// Any input is read or reported; amounts and times are valid and sorted.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", "timestamp,namespace,pod,container,resource,value\n5,ns,p,a,cpu,0.1\n", "5,\"n\"s,p\n,,,,,\n", prometheus(`{"metric":{"__name__":"cpu_seconds_total","namespace":"a","pod":"b","container":"c"},"values":[[1,"2"],[2,"1"],[3,"Inf"]]}`),
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":null,"values":[[1e400,"2"]]}]}}{`, "\x1f\x8b",
		`{"metric":{"__name__":"container_cpu_usage_seconds_total","cpu":"0","namespace":"a","pod":"b","container":"c"},"values":[1,2,null],"timestamps":[1000,2000,3000]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		u, notes, _ := Read([]string{Stdin}, bytes.NewReader(text))
		last := int64(0)
		for _, row := range u.Rows {
			require.GreaterOrEqual(t, row.At, last)
			last = row.At
			require.GreaterOrEqual(t, row.Amount, int64(0))
			require.LessOrEqual(t, row.Amount, int64(most))
			require.NotEmpty(t, u.Series[row.Series].Pod.Name)
		}
		require.LessOrEqual(t, len(notes), maxSkipped+4+mostPairs)
	})
}

// TestAnAnswerIsReadSeriesBySeries: one answer may exceed memory.
func TestAnAnswerIsReadSeriesBySeries(t *testing.T) {
	text := prometheus(slices.Repeat([]string{`{"metric":{"resource":"cpu","namespace":"ns","pod":"p","container":"a"},"values":[[5,"1"]]}`}, 50_000)...)
	rest := strings.NewReader(text)
	full := errors.New("no room")
	taken := 0
	_, err := Each([]string{Stdin}, rest, func(Series, int64, int64) error {
		if taken++; taken == 100 {
			return full
		}
		return nil
	})
	require.ErrorIs(t, err, full)
	require.Equal(t, 100, taken)
	require.Greater(t, rest.Len(), len(text)/2)

	u, _, err := read(text[:len(text)/2])
	require.ErrorContains(t, err, "not a Prometheus answer to a range query: unexpected EOF")
	require.InDelta(t, 25_000, len(u.Rows), 10, "what came before the end counts")
}
