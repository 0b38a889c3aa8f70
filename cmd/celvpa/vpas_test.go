package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// TestAVPAThatIsThereTwiceIsOne where both mean the same. That with a recommendation counts, and the last of several; what
// counts is shown by the CPU that a pod of its target is given.
func TestAVPAThatIsThereTwiceIsOne(t *testing.T) {
	plain := vpaOf("Deployment", "shop")
	known := recommends("Deployment", "shop")
	more := strings.Replace(known, "500m", "700m", 1)
	spec := func(text, more string) string { return strings.Replace(text, "spec: {", "spec: {"+more+", ", 1) }
	metadata := func(text, more string) string {
		return strings.Replace(text, "namespace: web}", "namespace: web, "+more+"}", 1)
	}
	const bounds = "resourcePolicy: {containerPolicies: [{containerName: app, maxAllowed: {cpu: %s}}]}"
	bounded := func(text, cpu string) string { return spec(text, strings.Replace(bounds, "%s", cpu, 1)) }
	for name, tt := range map[string]struct {
		text, cpu string
		note      string
		fails     string
	}{
		"once":                                       {text: known, cpu: "500m"},
		"recommended first":                          {text: known + plain, cpu: "500m"},
		"recommended last":                           {text: plain + known, cpu: "500m"},
		"recommended in between":                     {text: plain + known + plain, cpu: "500m"},
		"the same recommendation":                    {text: known + known, cpu: "500m"},
		"another recommendation":                     {text: known + more + plain, cpu: "700m", note: "standard input:4: VerticalPodAutoscaler web/shop has another recommendation at standard input:2; the last one counts"},
		"an amount that is written in other ways":    {text: bounded(known, "1000m") + bounded(plain, "1"), cpu: "500m"},
		"what a cluster has by default":              {text: spec(known, "updatePolicy: {updateMode: Recreate}") + plain, cpu: "500m"},
		"a status of conditions only":                {text: known + strings.Replace(plain, "}}}\n", "}}, status: {conditions: []}}\n", 1), cpu: "500m"},
		"what kubectl apply leaves":                  {text: metadata(known, "annotations: {kubectl.kubernetes.io/last-applied-configuration: x}") + plain, cpu: "500m"},
		"labels that only one has":                   {text: known + metadata(plain, "labels: {tier: gold}"), cpu: "500m"},
		"another spec":                               {text: bounded(known, "1") + bounded(plain, "2"), fails: "VerticalPodAutoscaler web/shop has different specs at standard input:2 and standard input:4; keep one of them: none is used"},
		"another mode than that which is by default": {text: known + spec(plain, "updatePolicy: {updateMode: Initial}"), fails: "different specs at standard input:2 and standard input:4"},
		"two of three differ":                        {text: known + bounded(plain, "1") + plain + bounded(plain, "2"), fails: "different specs at standard input:2 and standard input:4 and standard input:8;"},
		"one that cannot be read":                    {text: known + strings.Replace(plain, "spec: {", "spec: {updatePolicy: [], ", 1), cpu: "500m", fails: "standard input:4: VerticalPodAutoscaler web/shop cannot be used: spec.updatePolicy cannot be read"},
		"namesakes in two namespaces":                {text: known + strings.Replace(bounded(plain, "1"), "namespace: web", "namespace: away", 1), cpu: "500m", note: "Deployment away/shop, the target of VerticalPodAutoscaler away/shop, is not in the manifests, and no pod belongs to it; add its manifest with -f"},
	} {
		t.Run(name, func(t *testing.T) {
			report, stderr, err := admittedFrom(t, tt.text+deploymentOf("shop", "app"))
			if tt.fails == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.fails)
			}
			require.Len(t, report.Items, 1)
			object, err := yaml.Marshal(report.Items[0].Object)
			require.NoError(t, err)
			text := string(object)
			if tt.cpu == "" {
				require.NotContains(t, text, "cpu:")
			} else {
				require.Contains(t, text, "cpu: "+tt.cpu)
			}
			notes, _, _ := strings.Cut(stderr, "\npod ")
			require.Equal(t, tt.note, strings.TrimSuffix(strings.TrimPrefix(notes, "celvpa: "), "\n"))
		})
	}
}

// TestWhatRecommendPrintsIsReadBesideItsSource without a word: the object that it was made for is there once more.
func TestWhatRecommendPrintsIsReadBesideItsSource(t *testing.T) {
	t.Chdir(t.TempDir())
	ratio := strings.Replace(vpaOf("Deployment", "shop"), "spec: {", "spec: {resourcePolicy: {containerPolicies: [{containerName: app, maxAllowed: {cpu: 2000m, memory: 1024Mi}, oomMinBumpUp: 100Mi, RequestToLimitRatio: {cpu: {type: Factor, factor: 1.50}}}]}, ", 1)
	require.NoError(t, os.WriteFile("same.yaml", []byte(ratio+deploymentOf("shop", "app")+running("p", "shop", "ReplicaSet", "shop-7c5687bd57")), 0o600))
	const gates = "--feature-gates=AllAlpha=true"
	recommended, err := celvpa(t, "recommend", "-f", "same.yaml", "-o", "yaml", "--recommendation-min-samples=0", gates)
	require.NoError(t, err)
	for _, c := range offlineCommands {
		t.Run(c.name, func(t *testing.T) {
			args := []string{c.name, "-f", "-", "-f", "same.yaml", gates}
			if c.name == "recommend" {
				args = append(args, "--recommendation-min-samples=0") // there is no usage
			}
			args = append(args, historyFor(t, c.name)...)
			out, err := piped(t, recommended, args...)
			require.NoError(t, err, out)
			require.NotContains(t, out, "celvpa: standard input")
			require.NotContains(t, out, "celvpa: same.yaml")
		})
	}
}
