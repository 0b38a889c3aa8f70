package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/celvpa/celvpa/simulate"
	"github.com/stretchr/testify/require"
)

// TestFeaturesBehindGatesWorkOnFiles: pod-level recommendations (AEP-7571), memory per CPU with the examples of AEP-8459, and
// bumps after OOMs by the VPA (AEP-8026). Without its gate, each does nothing. Most have no usage, and so the minimums.
func TestFeaturesBehindGatesWorkOnFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o600)) }
	vpa := func(policy string) string {
		return strings.Replace(vpaOf("Deployment", "shop"), "spec: {", "spec: {resourcePolicy: {"+policy+"}, ", 1)
	}
	pod := strings.Replace(deploymentOf("shop", "app", "proxy"), "containers:", "resources: {requests: {cpu: 100m}}, containers:", 1)
	write("pod.yaml", vpa("podPolicies: {maxAllowed: {cpu: 15m, memory: 100Mi}}")+pod)
	write("free.yaml", vpaOf("Deployment", "shop")+pod)
	limited := func(name string) string {
		return vpaOf("Deployment", "shop") + strings.Replace(pod, "{requests: {cpu: 100m}}", "{limits: {"+name+": 4}}", 1)
	}
	write("limited.yaml", limited("cpu"))
	write("pages.yaml", limited("hugepages-2Mi"))
	write("limitedpod.yaml", vpaOf("Deployment", "shop")+deploymentOf("shop", "app", "proxy")+"---\n{apiVersion: v1, kind: Pod, metadata: {name: shop-7c5687bd57-659fr, namespace: web, labels: {app: shop}}, spec: {resources: {limits: {cpu: 1}}, containers: [{name: app}, {name: proxy}]}, status: {phase: Running}}\n")
	write("limitrange.yaml", limited("hugepages-2Mi")+"---\n{apiVersion: v1, kind: LimitRange, metadata: {name: few, namespace: web}, spec: {limits: [{type: Container, defaultRequest: {memory: 100Mi}}]}}\n")
	write("ratio.yaml", vpa("containerPolicies: [{containerName: app, memoryPerCPU: 4Gi}]")+deploymentOf("shop", "app"))
	write("capped.yaml", vpa("containerPolicies: [{containerName: app, memoryPerCPU: 4Gi, maxAllowed: {memory: 6Gi}}]")+deploymentOf("shop", "app"))
	write("oom.yaml", vpa("containerPolicies: [{containerName: app, oomBumpUpRatio: 1.5}]")+deploymentOf("shop", "app"))
	write("oom.csv", minutes(2, "shop-7c5687bd57-659fr", "app", is("0.1"), is("838860800"))+"1767225700,web,shop-7c5687bd57-659fr,app,oom,1000000000\n")
	const least = "app 12m 125Mi 12m 125Mi, proxy 12m 125Mi 12m 125Mi"
	for name, tt := range map[string]struct{ args, rows string }{ // container, target, uncapped target
		"a pod held by its policy":              {"-f pod.yaml --feature-gates=PodLevelResources=true", "app 7m 50Mi 12m 125Mi, proxy 7m 50Mi 12m 125Mi, (pod) 15m 100Mi 24m 250Mi"},
		"a pod without its gate":                {"-f pod.yaml", least},
		"a pod without bounds":                  {"-f free.yaml --feature-gates=PodLevelResources=true", least + ", (pod) 24m 250Mi 24m 250Mi"},
		"a pod with a limit only":               {"-f limited.yaml --feature-gates=PodLevelResources=true", least + ", (pod) 24m 250Mi 24m 250Mi"},
		"a running pod with a limit only":       {"-f limitedpod.yaml --feature-gates=PodLevelResources=true", least + ", (pod) 24m 250Mi 24m 250Mi"},
		"a pod with a limit of something else":  {"-f pages.yaml --feature-gates=PodLevelResources=true", least},
		"and a LimitRange's requests":           {"-f limitrange.yaml --feature-gates=PodLevelResources=true", least + ", (pod) 24m 250Mi 24m 250Mi"},
		"a pod held by a flag":                  {"-f free.yaml --feature-gates=PodLevelResources=true --pod-recommendation-max-allowed-cpu=20m", "app 10m 125Mi 12m 125Mi, proxy 10m 125Mi 12m 125Mi, (pod) 20m 250Mi 24m 250Mi"},
		"AEP-8459, example 1":                   {"-f ratio.yaml --feature-gates=MemoryPerCPURatio=true --pod-recommendation-min-cpu-millicores=1000 --pod-recommendation-min-memory-mb=8192", "app 2 8Gi 2 8Gi"},
		"AEP-8459, example 2":                   {"-f ratio.yaml --feature-gates=MemoryPerCPURatio=true --pod-recommendation-min-cpu-millicores=2000 --pod-recommendation-min-memory-mb=4096", "app 2 8Gi 2 8Gi"},
		"AEP-8459, example 3, by a flag":        {"-f ratio.yaml --feature-gates=MemoryPerCPURatio=true --pod-recommendation-min-cpu-millicores=2000 --pod-recommendation-min-memory-mb=4096 --container-recommendation-max-allowed-memory=7Gi", "app 2 7Gi 2 8Gi"},
		"AEP-8459, example 3, by the VPA":       {"-f capped.yaml --feature-gates=MemoryPerCPURatio=true --pod-recommendation-min-cpu-millicores=2000 --pod-recommendation-min-memory-mb=4096", "app 2 6Gi 2 8Gi"},
		"AEP-8459, example 2, without its gate": {"-f ratio.yaml --pod-recommendation-min-cpu-millicores=2000 --pod-recommendation-min-memory-mb=4096", "app 2 4Gi 2 4Gi"},
		"an OOM, half as much more":             {"-f oom.yaml --usage oom.csv --feature-gates=PerVPAConfig=true", "app 126m 1738144563 126m 1738144563"}, // the upper end of the bucket of 1.5e9, and 15%
		"an OOM without the gate":               {"-f oom.yaml --usage oom.csv", "app 126m 1389197403 126m 1389197403"},                                   // that of 1.2e9
	} {
		t.Run(name, func(t *testing.T) {
			out, err := celvpa(t, append([]string{"recommend", "-o", "wide", "--recommendation-min-samples=0"}, strings.Fields(tt.args)...)...)
			require.NoError(t, err)
			var rows []string
			for line := range strings.Lines(out) {
				if f := strings.Fields(line); len(f) == 13 && f[0] == "web" {
					rows = append(rows, strings.Join([]string{f[2], f[3], f[4], f[9], f[10]}, " "))
				}
			}
			require.Equal(t, tt.rows, strings.Join(rows, ", "), out)
		})
	}
	out, err := celvpa(t, "recommend", "-f", "pod.yaml", "--recommendation-min-samples=0", "--feature-gates=PodLevelResources=true", "--explain")
	require.NoError(t, err)
	_, trace, found := strings.Cut(out, "\nweb/shop, the pod\n")
	require.True(t, found, out)
	require.NotContains(t, trace, "web/shop, ", "that of the pod is the last")
	require.Regexp(t, `target +now\.cpu +24m +15m +pod-bounds/target/max `, trace)
	require.Regexp(t, `proxy +target\.cpu +12m +7m +pod-shares/apply/target `, trace)
	out, err = celvpa(t, "recommend", "-f", "pod.yaml", "--recommendation-min-samples=0", "--explain")
	require.NoError(t, err)
	require.NotContains(t, out, "web/shop, the pod", "no rule runs for it with the gate off")

	out, err = celvpa(t, "recommend", "-f", "pod.yaml", "--recommendation-min-samples=0", "--feature-gates=PodLevelResources=true", "--explain", "-o", "json")
	require.NoError(t, err)
	var report simulate.Recommendations
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Equal(t, "15m", report.Items[0].Status.Recommendation.PodRecommendation.Target.Cpu().String())
	require.Len(t, report.Traces, 3)
	require.Empty(t, report.Traces[2].Container)
}
