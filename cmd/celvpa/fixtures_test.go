package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// vpaOf is a VPA in namespace web whose target is a workload of some kind.
func vpaOf(kind, name string) string {
	return fmt.Sprintf("---\n{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: %s, namespace: web}, spec: {targetRef: {apiVersion: apps/v1, kind: %s, name: %s}}}\n", name, kind, name)
}

// ofOperator is the owner of a workload, an object of a custom kind.
const ofOperator = ", ownerReferences: [{apiVersion: example.com/v1, kind: Operator, name: all, controller: true}]"

// deploymentOf is a Deployment in namespace web with pods of these containers.
func deploymentOf(name string, containers ...string) string {
	return workloadOf("Deployment", "", name, containers...)
}

func workloadOf(kind, owner, name string, containers ...string) string {
	var list []string
	for _, c := range containers {
		list = append(list, "{name: "+c+"}")
	}
	return fmt.Sprintf("---\n{apiVersion: apps/v1, kind: %s, metadata: {name: %s, namespace: web%[3]s}, spec: {selector: {matchLabels: {app: %[2]s}}, template: {metadata: {labels: {app: %[2]s}}, spec: {containers: [%[4]s]}}}}\n",
		kind, name, owner, strings.Join(list, ", "))
}

// minutes are rows of usage, one a minute from 2026-01-01 on, with cores and bytes where they are not empty.
func minutes(n int, pod, container string, cpu, memory func(i int) string) string {
	var out strings.Builder
	for i := range n {
		at := 1767225600 + 60*i
		if cpu != nil {
			fmt.Fprintf(&out, "%d,web,%s,%s,cpu,%s\n", at, pod, container, cpu(i))
		}
		if memory != nil {
			fmt.Fprintf(&out, "%d,web,%s,%s,memory,%s\n", at, pod, container, memory(i))
		}
	}
	return out.String()
}

func is(text string) func(int) string { return func(int) string { return text } }

// hour is an hour of 0.1 cores and 200Mi.
func hour(pod, container string) string {
	return minutes(60, pod, container, is("0.1"), is("209715200"))
}

// recommends is a VPA in namespace web with a recommendation for container app.
func recommends(kind, name string) string {
	return strings.Replace(vpaOf(kind, name), "}}}\n", "}}, status: {recommendation: {containerRecommendations: [{containerName: app, target: {cpu: 500m, memory: 1Gi}}]}}}\n", 1)
}

// ownedPod is a pod in namespace web with container app.
func ownedPod(name, label, ownerKind, owner string) string {
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: web, labels: {app: %s}, ownerReferences: [{apiVersion: apps/v1, kind: %s, name: %s, controller: true}]}, spec: {containers: [{name: app}]}}\n",
		name, label, ownerKind, owner)
}

// running is a pod in namespace web with container app, which requests 100m and 128Mi, on a node. more is put into its metadata, its spec
// and its status, in this order.
func running(name, label, ownerKind, owner string, more ...string) string {
	more = append(more, "", "", "")
	return fmt.Sprintf(`---
{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: web, labels: {app: %s}, ownerReferences: [{apiVersion: apps/v1, kind: %s, name: %s, controller: true}]%s},
 spec: {nodeName: node, containers: [{name: app, resources: {requests: {cpu: 100m, memory: 128Mi}}}]%s}, status: {phase: Running, startTime: '2026-01-31T11:00:00Z'%s}}
`, name, label, ownerKind, owner, more[0], more[1], more[2])
}

// sized is a workload in namespace web that asks for so many pods.
func sized(kind, owner, name string, replicas int) string {
	return strings.Replace(workloadOf(kind, owner, name, "app"), "spec: {selector", fmt.Sprintf("spec: {replicas: %d, selector", replicas), 1)
}

// farOff is recommends with a lower bound, which is far above what running pods have.
func farOff(kind, name string) string {
	return strings.Replace(recommends(kind, name), "target: {", "lowerBound: {cpu: 200m, memory: 256Mi}, target: {", 1)
}

// inMode is farOff in an update mode.
func inMode(mode, kind, name string) string {
	return strings.Replace(farOff(kind, name), "spec: {", "spec: {updatePolicy: {updateMode: '"+mode+"'}, ", 1)
}

// historyFor are the flags without which celvpa backtest has nothing to replay: usage of pod p. Other commands need none.
func historyFor(t *testing.T, command string) []string {
	if command != "backtest" {
		return nil
	}
	file := filepath.Join(t.TempDir(), "usage.csv")
	require.NoError(t, os.WriteFile(file, []byte("2026-01-31T12:00:00Z,web,p,app,cpu,0.1\n2026-01-31T12:05:00Z,web,p,app,cpu,0.2\n"), 0o600))
	return []string{"--history", file}
}
