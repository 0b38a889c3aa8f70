package harness

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// answersInACycle is how many answers of an API server, one after another, a cycle must have time for.
	answersInACycle = 20
	slowestPace     = 20 * time.Second
)

// Pace is the interval for the cycles of a component with a kubeconfig: least, or more where API servers answer late. A cycle ends with
// its interval, so that on a busy machine one of a second would end before anything is answered, and the next one would, too.
func Pace(ctx context.Context, kubeconfig string, least time.Duration) (time.Duration, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return 0, fmt.Errorf("reading kubeconfig %s: %w", kubeconfig, err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, fmt.Errorf("connecting to %s: %w", config.Host, err)
	}
	var slowest time.Duration
	for i := range 5 {
		begin := time.Now()
		_, _ = clients.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx) // which everybody may, and which asks etcd
		if i > 0 {                                                               // the first one opens the connection
			slowest = max(slowest, time.Since(begin))
		}
	}
	return min(max(least, answersInACycle*slowest), max(least, slowestPace)).Round(time.Millisecond), nil
}
