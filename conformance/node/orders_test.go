package node

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// report is what the workload says of itself; see workload/serve.go.
type report struct {
	Milli  int64             `json:"milli"`
	Bytes  int64             `json:"bytes"`
	Cgroup map[string]string `json:"cgroup"`
}

// order tells the workload in container app what to do, through the API server: "burn?milli=200", "hold?bytes=1048576", "exit?code=1".
func order(t *testing.T, p *corev1.Pod, verb, parameter string, value int64) report {
	t.Helper()
	var r report
	until(t, patience, fmt.Sprintf("%s %s to %s=%d", p.Name, verb, parameter, value), func(ctx context.Context) (bool, string) {
		var err error
		r, err = tryOrder(ctx, p, verb, parameter, value)
		if err != nil {
			return false, err.Error()
		}
		return true, fmt.Sprintf("holds %d MiB, burns %dm; memory.max %s, cpu.max %s", r.Bytes>>20, r.Milli, r.Cgroup["memory.max"], r.Cgroup["cpu.max"])
	})
	return r
}

// tryOrder gives up in time: a proxy may not notice that who it asked was killed.
func tryOrder(ctx context.Context, p *corev1.Pod, verb, parameter string, value int64) (r report, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	text, err := clients.CoreV1().RESTClient().Post().Namespace(p.Namespace).Resource("pods").Name(p.Name+":8080").SubResource("proxy").
		Suffix(verb).Param(parameter, fmt.Sprint(value)).DoRaw(ctx)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}
