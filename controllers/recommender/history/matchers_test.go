package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMatchers(t *testing.T) {
	for text, want := range map[string]string{
		`cluster=prod`:                      `cluster="prod"`,
		`cluster="prod"`:                    `cluster="prod"`,
		` cluster = 'prod' `:                `cluster="prod"`,
		`namespace=~"web|shop"`:             `namespace=~"web|shop"`,
		`namespace!~kube-.+`:                `namespace!~"kube-.+"`,
		`a!=`:                               `a!=""`,
		"a=`b\\d`":                          `a="b\\d"`,
		`a="b\"} or up{"`:                   `a="b\"} or up{"`,
		`a="b", c=~"d|e",`:                  `a="b", c=~"d|e"`,
		`"k8s.cluster.name"="a"`:            `"k8s.cluster.name"="a"`,
		`a=b"} or up{c="`:                   `error: "a=b\"} or up{c=\"" is not a list of PromQL matchers such as cluster="a" or namespace=~"b|c", pod!~"test-.*": 1:4: parse error: unexpected identifier "b"`,
		`cluster`:                           `error: "cluster" is not a list of PromQL matchers`,
		``:                                  `error: "" is not a list of PromQL matchers such as cluster="a" or namespace=~"b|c", pod!~"test-.*": it is empty`,
		`="b"`:                              `error: "=\"b\"" is not a list of PromQL matchers`,
		`a="b`:                              `error: "a=\"b" is not a list of PromQL matchers`,
		`{a="b"}`:                           `error: "{a=\"b\"}" is not a list of PromQL matchers`,
		`namespace=~"("`:                    `error: "namespace=~\"(\"" is not a list of PromQL matchers`,
		`__name__="up"`:                     `error: "__name__=\"up\"" chooses a metric: use --history-cpu-metric`,
		`"up"`:                              `error: "\"up\"" chooses a metric`,
		`a="b"} or container_memory{c="d"`:  `error: "a=\"b\"} or container_memory{c=\"d\"" is not a list of PromQL matchers`,
		"cluster=\"a\"\n# and all the rest": `cluster="a"`,
	} {
		m, err := ParseMatchers(text)
		got := m.String()
		if err != nil {
			got = "error: " + err.Error()
		}
		require.Contains(t, got, want, text)
	}
}

func TestMatchersAreInEachQuery(t *testing.T) {
	for name, row := range map[string]struct{ labels, want string }{
		"a selector":         {`up{job="kubernetes-pods"}`, `up{cluster="a",job="kubernetes-pods",zone!="z"}`},
		"a range":            {`kube_pod_labels[8d]`, `kube_pod_labels{cluster="a",zone!="z"}[8d]`},
		"an offset":          {`kube_pod_labels{a="b"}[1d] offset 1h`, `kube_pod_labels{a="b",cluster="a",zone!="z"}[1d] offset 1h`},
		"a subquery":         {`kube_pod_labels[8d:5m]`, `kube_pod_labels{cluster="a",zone!="z"}[8d:5m]`},
		"each of a join":     {`kube_pod_labels * on (pod) group_left () kube_pod_info`, `kube_pod_labels{cluster="a",zone!="z"} * on (pod) group_left () kube_pod_info{cluster="a",zone!="z"}`},
		"one in a function":  {`label_replace(kube_pod_labels, "x", "$1", "y", "(.*)")[8d:1h]`, `label_replace(kube_pod_labels{cluster="a",zone!="z"}, "x", "$1", "y", "(.*)")[8d:1h]`},
		"a name like a dash": {`{"kube.pod.labels"}[8d]`, `{__name__="kube.pod.labels",cluster="a",zone!="z"}[8d]`},
	} {
		t.Run(name, func(t *testing.T) {
			c := parsed(t, "--metric-for-pod-labels="+row.labels, "--prometheus-matchers=cluster=a", `--prometheus-matchers=zone!="z"`)
			require.NoError(t, c.Validate())
			got, _, err := c.podLabels()
			require.NoError(t, err)
			require.Equal(t, row.want, got)
			again, _, err := c.podLabels()
			require.NoError(t, err)
			require.Equal(t, got, again, "matchers are added once")
			const own = `cluster="a", zone!="z"}`
			require.Contains(t, c.cpuQuery(), own)
			require.Contains(t, c.memoryQuery(), own)

			c.Matchers = nil
			plain, _, err := c.podLabels()
			require.NoError(t, err)
			require.Equal(t, row.labels, plain, "what the user wrote stays as it is")
		})
	}
	c := parsed(t, "--metric-for-pod-labels=kube_pod_labels[", "--prometheus-matchers=cluster=a")
	require.ErrorContains(t, c.Validate(), `--metric-for-pod-labels="kube_pod_labels[": --prometheus-matchers cannot be added, as it is not PromQL: `)
	c.Matchers = nil
	require.NoError(t, c.Validate(), "another language than PromQL is the server's to judge")
}

func FuzzParseMatchers(f *testing.F) {
	for _, text := range []string{`a="b"`, `a=~'b'`, "a!=`b`", `a="`, `a='\'`, `="`, `a="b",c!~d`, `a=b`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMatchers(text)
		if err != nil {
			return
		}
		again, err := ParseMatchers(m.String())
		require.NoError(t, err, text)
		require.Equal(t, m.String(), again.String(), text)
		c := Config{Matchers: m, PodLabelsQuery: "a[1h]", MemoryMetric: "b", ContainerNamespaceLabel: "c", ContainerPodLabel: "d", ContainerNameLabel: "e"}
		_, err = promql.ParseExpr(c.checkQuery())
		require.NoError(t, err, "queries stay PromQL")
		_, expr, err := c.podLabels()
		require.NoError(t, err)
		require.NotNil(t, rangeOf(expr), "the matchers do not end the selector")
	})
}
