package node

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"

	dto "github.com/prometheus/client_model/go"
)

// kernel is what the kubelet reads from the cgroup of a container or of a pod: what the kernel enforces, whatever the status says.
type kernel struct {
	quota      int64   // container_spec_cpu_quota, microseconds in each 100 ms; 0 = no limit
	shares     int64   // container_spec_cpu_shares, by which a request becomes a share of a busy node
	memory     int64   // container_spec_memory_limit_bytes; 0 = no limit
	periods    float64 // container_cpu_cfs_periods_total, since the container started
	throttled  float64 // container_cpu_cfs_throttled_periods_total
	workingSet int64   // container_memory_working_set_bytes
	used       float64 // container_cpu_usage_seconds_total
}

func (k kernel) String() string {
	return fmt.Sprintf("kernel: container_spec_cpu_quota %d, container_spec_memory_limit_bytes %d, container_spec_cpu_shares %d", k.quota, k.memory, k.shares)
}

// cgroups are the kubelet's cgroup metrics. The tests share what was read: an emulated node has better to do than to print them.
type cgroups struct {
	mutex    sync.Mutex
	at       time.Time
	families map[string]*dto.MetricFamily
}

var shared cgroups

// read returns metrics that were read in the last seconds.
func (c *cgroups) read(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if time.Since(c.at) < 3*time.Second {
		return c.families, nil
	}
	text, err := clients.CoreV1().RESTClient().Get().Resource("nodes").Name(nodeName).SubResource("proxy").Suffix("metrics/cadvisor").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the cgroup metrics of node %s: %w", nodeName, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading the cgroup metrics of node %s: %w", nodeName, err)
	}
	c.families, c.at = families, time.Now()
	return families, nil
}

// kernelOf returns the kubelet's cgroup metrics of a container; an empty name is the pod as a whole. ok is false while there are none.
func kernelOf(ctx context.Context, p *corev1.Pod, container string) (k kernel, ok bool, err error) {
	families, err := shared.read(ctx)
	if err != nil {
		return k, false, err
	}
	cgroup := cgroupOf(p, container)
	value := func(family string) float64 {
		for _, m := range families[family].GetMetric() {
			id := path.Base(strings.ReplaceAll(label(m, "id"), "_", "-"))
			if label(m, "namespace") == p.Namespace && label(m, "pod") == p.Name && cgroup != "" && strings.Contains(id, cgroup) {
				ok = true
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
			}
		}
		return 0
	}
	k = kernel{
		quota: int64(value("container_spec_cpu_quota")), shares: int64(value("container_spec_cpu_shares")), memory: int64(value("container_spec_memory_limit_bytes")),
		periods: value("container_cpu_cfs_periods_total"), throttled: value("container_cpu_cfs_throttled_periods_total"),
		workingSet: int64(value("container_memory_working_set_bytes")), used: value("container_cpu_usage_seconds_total"),
	}
	return k, ok, nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// cgroupOf is what the name of a cgroup contains: the ID of the container that runs now, or the UID of the pod. A container that
// was restarted leaves metrics behind for a while.
func cgroupOf(p *corev1.Pod, container string) string {
	if container == "" {
		return string(p.UID)
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == container {
			_, id, _ := strings.Cut(s.ContainerID, "://")
			return id
		}
	}
	return ""
}

// page is what the kernel rounds memory limits down to.
const page = 4096

// kernelHas waits until the kernel enforces a CPU limit in milli-cores and a memory limit in bytes on a container, or with an empty
// name on a pod; -1 = any. It logs what it saw.
func kernelHas(t *testing.T, p *corev1.Pod, container string, milli, memory int64) kernel {
	t.Helper()
	if memory > 0 {
		memory -= memory % page
	}
	var k kernel
	what := "kernel on " + p.Name + "/" + container
	if container == "" {
		what = "kernel on pod " + p.Name
	}
	until(t, patience, what, func(ctx context.Context) (bool, string) {
		var ok bool
		var err error
		now := get(t, p)
		if k, ok, err = kernelOf(ctx, now, container); err != nil || !ok {
			return false, fmt.Sprintf("no metrics yet (%v)", err)
		}
		infeasible, why := conditionOf(now, corev1.PodResizePending)
		failing, reason := conditionOf(now, corev1.PodResizeInProgress)
		seen := k.String()
		if infeasible+why+failing+reason != "" {
			seen += "; the kubelet says: " + strings.TrimSpace(infeasible+" "+why+" "+failing+" "+reason)
		}
		return (milli < 0 || k.quota == milli*100) && (memory < 0 || k.memory == memory), seen
	})
	return k
}

// throttling is the share of periods in which the kernel throttles a container from now on, between two looks of the kubelet with
// enough of them in between. What the kubelet reports at first may be from before.
func throttling(t *testing.T, p *corev1.Pod, container string) float64 {
	t.Helper()
	var first, last kernel
	looks := 0
	until(t, patience, "throttling of "+p.Name+"/"+container, func(ctx context.Context) (bool, string) {
		k, ok, err := kernelOf(ctx, get(t, p), container)
		if err != nil || !ok {
			return false, fmt.Sprintf("no metrics yet (%v)", err)
		}
		if k.periods != last.periods {
			looks++
		}
		last = k
		if looks <= 3 { // the first two may be from before
			first = k
		}
		return last.periods-first.periods >= 40, fmt.Sprintf("container_cpu_cfs_throttled_periods_total %.0f of %.0f more periods", last.throttled-first.throttled, last.periods-first.periods)
	})
	return (last.throttled - first.throttled) / (last.periods - first.periods)
}
