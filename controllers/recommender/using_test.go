package recommender

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// TestExplanationsDoNotDisturbCycles is for the race detector: cycles change all there is while
// others ask.
func TestExplanationsDoNotDisturbCycles(t *testing.T) {
	var objects []client.Object
	var used []string
	for i := range 10 {
		name := fmt.Sprint("v", i)
		objects = append(objects, workload(name, "app", "side")...)
		used = append(used, name+" app", name+" side")
	}
	c := newCluster(t, append(objects, checkpointOf("v1", "app", 5))...)
	c.Decisions = answers.NewLog(answers.LogOptions{Component: "recommender", Kept: 20})
	c.OOMs = func() []model.OOM {
		return []model.OOM{{Pod: model.PodID{Namespace: "ns", Name: "v2"}, Container: "app", Memory: 1 << 30, At: time.Now()}}
	}
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	answered := make([]int, 3)
	for worker := range answered {
		asking.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				got, err := c.Explain(ctx, "ns", fmt.Sprint("v", i%11))
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := json.Marshal(got); err != nil {
					t.Error(err)
				}
				if len(got.Containers) == 2 {
					answered[worker]++
				}
			}
		})
	}
	for n := range 20 {
		c.edit("v3", n)
		c.cycle(used...)
	}
	stop()
	asking.Wait()
	for _, n := range answered {
		require.Positive(t, n)
	}
	got, err := c.Explain(t.Context(), "ns", "v2")
	require.NoError(t, err)
	require.NotNil(t, got.LastCycle)
	require.Empty(t, got.Frozen)
	require.Len(t, got.Containers[0].OOMs, maxOOMs)
	require.NotEmpty(t, got.Decisions)
	got, err = c.Explain(t.Context(), "ns", "v10")
	require.NoError(t, err)
	require.False(t, got.Known, "there is no such VPA")
}

// edit changes the labels of a VPA.
func (c *cluster) edit(name string, n int) {
	c.t.Helper()
	v := c.vpa(name)
	v.Labels = map[string]string{"n": fmt.Sprint(n)}
	require.NoError(c.t, c.api.Update(c.t.Context(), v))
}

// TestAnExplanationWaitsForNoWrite: the cycle gives the state back while it writes.
func TestAnExplanationWaitsForNoWrite(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	c.cycle("a app")
	writing, proceed := make(chan string), make(chan struct{})
	c.fault = func(verb string, _ client.Object) error {
		if verb == "status" || verb == "patch" {
			writing <- verb
			<-proceed
		}
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.cycle("a app")
	}()
	for _, want := range []string{"status", "patch"} {
		require.Equal(t, want, <-writing)
		got, err := c.Explain(t.Context(), "ns", "a")
		require.NoError(t, err)
		require.Len(t, got.Containers, 1)
		proceed <- struct{}{}
	}
	<-done
}

func TestABusyRecommenderSaysSo(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.using(func() {
		_, err := c.Explain(ctx, "ns", "a")
		require.EqualError(t, err, "the recommender is busy with a cycle; ask again in a few seconds")
	})
	_, err := c.Explain(t.Context(), "ns", "a")
	require.NoError(t, err)
}

// TestTheStatusStaysUntilUsageIsLoaded: until then an explanation must not show what is not written.
func TestTheStatusStaysUntilUsageIsLoaded(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	c.cycle("a app")
	written := c.vpa("a").Status.Recommendation
	again := newCluster(t, append([]client.Object{c.vpa("a")}, workload("a", "app")[1:]...)...)
	fails := true
	again.fault = func(verb string, _ client.Object) error {
		if fails && verb == "list *unstructured.UnstructuredList" {
			return fmt.Errorf("no checkpoints")
		}
		return nil
	}
	again.fails = fmt.Errorf("no metrics")
	for _, frozen := range []string{
		"usage from before the start of the recommender is not loaded yet",
		"the source of usage has not answered since the start of the recommender",
	} {
		again.cycle()
		got, err := again.Explain(t.Context(), "ns", "a")
		require.NoError(t, err)
		require.Equal(t, frozen, got.Frozen)
		require.Equal(t, written, got.Recommendation)
		fails = false
	}
}

// TestADecisionIsKeptWhenATargetChanges: from, to, and the rules.
func TestADecisionIsKeptWhenATargetChanges(t *testing.T) {
	c := newCluster(t, workload("a", "app", "side")...)
	c.Decisions = answers.NewLog(answers.LogOptions{Component: "recommender", Kept: 20})
	c.cycle("a app")
	c.cycle("a app")
	c.fault = func(verb string, _ client.Object) error {
		if verb == "status" {
			return fmt.Errorf("no disk")
		}
		return nil
	}
	c.cycle("a app", "a side")
	of := types.NamespacedName{Namespace: "ns", Name: "a"}
	require.Len(t, c.Decisions.Of(of), 1, "the bounds change all the time, and what was not written is none")
	c.fault = nil
	c.cycle("a app")
	kept := c.Decisions.Of(of)
	require.Len(t, kept, 2)
	require.Equal(t, "Recommend", kept[0].Action)
	require.Equal(t, []string{
		"container app: target.cpu unset → 1168m by estimate/bounds/add-safety-margin",
		"container app: target.memory unset → 1238659775 by estimate/bounds/add-safety-margin",
	}, kept[0].Changes)
	require.Equal(t, "estimate/bounds/add-safety-margin", kept[0].Rule)
	require.Regexp(t, "^[0-9a-f]{12}$", kept[0].Inputs)
	require.NotEqual(t, kept[0].Inputs, kept[1].Inputs)
	require.Equal(t, c.Rules().Default().Digest(), kept[0].Rules)
	require.Len(t, kept[1].Changes, 2)
	require.Contains(t, kept[1].Changes[0], "container side: target.cpu unset → ")

	v := c.vpa("a")
	require.NoError(t, c.api.Delete(t.Context(), v))
	c.cycle()
	require.Empty(t, c.Decisions.Of(of))
}
