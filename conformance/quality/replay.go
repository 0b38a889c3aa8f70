package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

const namespace = "traces"

// workload is a VM as a container, with what was provisioned as requests and, of memory, as limit. The VPA keeps limits in
// proportion.
const workload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: vm-%[1]s, namespace: ` + namespace + `}
spec:
  replicas: 1
  selector: {matchLabels: {app: vm-%[1]s}}
  template:
    metadata: {labels: {app: vm-%[1]s}}
    spec: {containers: [{name: vm, resources: {requests: {cpu: %[2]dm, memory: %[3]d}, limits: {memory: %[3]d}}}]}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: vm-%[1]s, namespace: ` + namespace + `}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: vm-%[1]s}
  updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1}
---`

// replay runs the policies on VMs. The error lists what failed; the report has the rest, and is nil if there is nothing.
func replay(ctx context.Context, vms []vm, candidates []backtest.Candidate, watch func(done, of int64)) (*backtest.Report, []string, error) {
	defer backtest.Tune()()
	store := history.NewStore(history.DefaultMemory, "", nil)
	defer store.Close()
	var objects strings.Builder
	for i := range vms {
		v := &vms[i]
		fmt.Fprintf(&objects, workload, v.id, v.cpu, v.memory)
		pod := model.PodID{Namespace: namespace, Name: "vm-" + v.id + "-7d9f8b6c5d-bbbbb"}
		for _, kind := range []usagefile.Kind{usagefile.CPU, usagefile.Memory} {
			points := make([]history.Point, len(v.samples))
			for j, s := range v.samples {
				points[j] = history.Point{At: s.at, Amount: s.cpu}
				if kind == usagefile.Memory {
					points[j].Amount = s.memory
				}
			}
			if err := store.Add(usagefile.Series{Pod: pod, Container: "vm", Kind: kind}, points...); err != nil {
				return nil, nil, err
			}
		}
		v.samples = nil // the store has them, packed
	}
	if err := store.Seal(); err != nil {
		return nil, nil, err
	}
	set, err := manifests.Read([]string{manifests.Stdin}, strings.NewReader(objects.String()))
	if err != nil {
		return nil, nil, err
	}
	cluster, err := simulate.Load(set, candidates[0].Book, simulate.At(time.Time{}))
	if err != nil {
		return nil, nil, err
	}
	return backtest.Run(ctx, cluster, store, candidates, backtest.Options{Interval: backtest.UpstreamInterval, Watch: watch})
}
