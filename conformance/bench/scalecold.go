package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/celvpa/celvpa/conformance/bench/crowd"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// coldPatience is how long the statuses of a new cluster may take.
const coldPatience = 30 * time.Minute

// cold measures how long a recommender with default flags takes until each VPA of a new cluster has a
// recommendation. Its time is real.
func (s *scaling) cold(ctx context.Context, vpas int) ([]value, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	made, err := crowd.Make(vpas, time.Now().Add(-coldPatience), crowd.New)
	if err != nil {
		return nil, err
	}
	c, _, l, err := s.clockwork(ctx, made)
	if err != nil {
		return nil, err
	}
	one, err := s.component(l, "recommender", 0)
	if err != nil {
		return nil, err
	}
	defer one.end()
	known := 0
	err = wait.PollUntilContextTimeout(ctx, time.Second, coldPatience, false, func(context.Context) (bool, error) {
		if err := one.Alive(); err != nil {
			return false, err
		}
		list, _ := c.List("verticalpodautoscalers")
		without := 0
		for _, o := range list {
			v := o.(*vpav1.VerticalPodAutoscaler)
			// Those that came since wait for a sample.
			if v.Status.Recommendation == nil && v.CreationTimestamp.Time.Before(one.started.Add(-coldPatience)) {
				without++
			}
		}
		if now := len(list) - without; now/1000 > known/1000 {
			progress("cold: %d VPAs have a recommendation", now)
			known = now
		}
		return without == 0, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for recommendations: %w; see %s", err, one.LogFile)
	}
	return coldValues(vpas, time.Since(one.started)), nil
}

func coldValues(vpas int, took time.Duration) []value {
	return []value{{"VPAs", count, float64(vpas)}, {"all have a recommendation after", seconds, took.Seconds()}}
}
