package manifests

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestNamesOfPodsFitTheirWorkload(t *testing.T) {
	long := strings.Repeat("long", 13) // 52 letters
	for name, tt := range map[string]struct {
		kind, workload, pod string
		want                bool
	}{
		"a Deployment's":                       {"Deployment", "shop", "shop-7c5687bd57-659fr", true},
		"of a Deployment that begins alike":    {"Deployment", "shop", "shop-front-7c5687bd57-659fr", false},
		"of a DaemonSet that begins alike":     {"Deployment", "shop", "shop-front-659fr", false},
		"a Deployment's of a long name":        {"Deployment", long, long + "-7c568659fr", true},
		"a Deployment's of a longer name":      {"Deployment", long + "longlong", long + "longlo659fr", true},
		"another's of a long name":             {"Deployment", long, long + "-front659fr", false},
		"a Deployment's without a hash":        {"Deployment", "shop", "shop-659fr", false},
		"a StatefulSet's":                      {"StatefulSet", "shop", "shop-12", true},
		"not a StatefulSet's":                  {"StatefulSet", "shop", "shop-db-12", false},
		"a DaemonSet's":                        {"DaemonSet", "shop", "shop-659fr", true},
		"a DaemonSet's of a long name":         {"DaemonSet", long + "longlong", long + "longlo659fr", true},
		"a word is not an identifier":          {"DaemonSet", "shop", "shop-front", false},
		"a ReplicaSet's":                       {"ReplicaSet", "shop-7c5687bd57", "shop-7c5687bd57-659fr", true},
		"a ReplicationController's":            {"ReplicationController", "shop", "shop-659fr", true},
		"a Job's":                              {"Job", "shop", "shop-659fr", true},
		"an indexed Job's":                     {"Job", "shop", "shop-3-659fr", true},
		"a CronJob's":                          {"CronJob", "shop", "shop-29384756-659fr", true},
		"an indexed CronJob's":                 {"CronJob", "shop", "shop-29384756-0-659fr", true},
		"not a CronJob's":                      {"CronJob", "shop", "shop-659fr", false},
		"of a custom kind, as a Deployment's":  {"Rollout", "shop", "shop-7c5687bd57-659fr", true},
		"of a custom kind, as a StatefulSet's": {"Rollout", "shop", "shop-0", true},
		"the name alone":                       {"Deployment", "shop", "shop", false},
		"nothing":                              {"Deployment", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := Workload{GroupKind: schema.GroupKind{Kind: tt.kind}, Name: tt.workload}
			require.Equal(t, tt.want, w.NamesLike(tt.pod))
		})
	}
	w := Workload{Name: "shop"}
	require.True(t, w.BeginsLike("shop"))
	require.True(t, w.BeginsLike("shop-1"))
	require.False(t, w.BeginsLike("shopping-1"))
}

const workloads = `
{apiVersion: apps/v1, kind: Deployment, metadata: {name: deployment}, spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c}]}}}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: daemonset}, spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c}]}}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: statefulset}, spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c}]}}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: replicaset}, spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c}]}}}}
---
{apiVersion: v1, kind: ReplicationController, metadata: {name: replicationcontroller}, spec: {template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: job}, spec: {template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c}]}}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: cronjob}, spec: {jobTemplate: {spec: {template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c}]}}}}}}
---
{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: rollout}, spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c}]}}}}
---
{apiVersion: example.com/v1, kind: Database, metadata: {name: database}, spec: {template: 7}, status: {selector: app=a}}
`

// Uses the same code as in a cluster. Stand-ins are found like real workloads.
func TestWorkloadsAreLookedUpAsInACluster(t *testing.T) {
	set, err := read(workloads)
	require.NoError(t, err)
	known, err := set.Workloads()
	require.NoError(t, err)
	require.Len(t, known, 7)
	for kind, name := range map[string]string{"Rollout": "rollout", "Database": "database"} {
		group := map[string]string{"Rollout": "argoproj.io", "Database": "example.com"}[kind]
		w, found, err := set.Custom(schema.GroupKind{Group: group, Kind: kind}, "default", name)
		require.NoError(t, err)
		require.True(t, found)
		known = append(known, w)
	}
	_, found, err := set.Custom(schema.GroupKind{Group: "example.com", Kind: "Database"}, "default", "another")
	require.NoError(t, err)
	require.False(t, found)
	var standIns []Workload
	for _, w := range known {
		s, err := StandIn(w.GroupKind, w.Namespace, w.Name, map[string]string{"stands": "in"})
		require.NoError(t, err)
		standIns = append(standIns, s)
	}
	for name, of := range map[string][]Workload{"written": known, "standing in": standIns} {
		r := target.Resolver{Client: (&Set{}).Client(of)}
		for _, w := range of {
			v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}}
			v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: w.Group + "/v1", Kind: w.Kind, Name: w.Name}
			selector, problem := r.Selector(context.Background(), v)
			require.Nil(t, problem, "%s %s", name, w.Kind)
			if w.Kind != "Database" || name == "standing in" {
				require.True(t, selector.Matches(labels.Set(w.Template.Labels)), "%s %s: %s", name, w.Kind, selector)
			}
			require.False(t, selector.Matches(labels.Set{"app": "b"}), "%s %s", name, w.Kind)
			v.Spec.TargetRef.Name = "another"
			_, problem = r.Selector(context.Background(), v)
			require.ErrorContains(t, problem, "does not exist", "%s %s", name, w.Kind)
		}
	}
}

// Other calls return errors and do not panic.
func TestNothingElseIsAnswered(t *testing.T) {
	ctx, api := context.Background(), (&Set{}).Client(nil)
	require.ErrorContains(t, api.SubResource("status").Get(ctx, &corev1.Pod{}, &corev1.Pod{}), "manifests have scales only")
}

func TestPodsAndLimitRangesAreRead(t *testing.T) {
	set, err := read("{apiVersion: v1, kind: Pod, metadata: {name: p}}\n---\n{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: ns}, spec: {limits: [{type: Container, max: {cpu: 2}}]}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: q}, spec: {containers: 7}}")
	require.NoError(t, err)
	pods, err := set.Pods()
	require.ErrorContains(t, err, "standard input:5: Pod default/q cannot be read")
	require.Len(t, pods, 1)
	require.Equal(t, "default/p", pods[0].Namespace+"/"+pods[0].Name)
	ranges, err := set.LimitRanges()
	require.NoError(t, err)
	require.Equal(t, "2", ranges[0].Spec.Limits[0].Max.Cpu().String())
}

// Parsing them takes forever. Strings that merely look alike are ignored.
func TestQuantitiesWithoutEndAreRefused(t *testing.T) {
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {commit: '12e34567'}}, spec: {containers: [{name: c, resources: {requests: {memory: MEMORY}}}]}}"
	for written, want := range map[string]string{
		"1e3": "", `"1e999999999"`: `spec.containers[0].resources.requests.memory is "1e999999999": an exponent has at most three digits`, "1e999999999": "cannot be read",
	} {
		set, err := read(strings.Replace(pod, "MEMORY", written, 1))
		if err == nil {
			_, err = set.Pods()
		}
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
