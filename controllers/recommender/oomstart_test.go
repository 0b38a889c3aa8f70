package recommender

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// OOMs reported when a process starts or becomes leader.

// killed has the observer report OOMs of container app of pod a that happened so long ago, once.
func (c *cluster) killed(late bool, ago ...time.Duration) {
	var found []model.OOM
	for _, age := range ago {
		found = append(found, model.OOM{Pod: model.PodID{Namespace: "ns", Name: "a"}, Container: "app", Memory: 2 << 30, At: time.Now().Add(-age), Late: late})
	}
	c.OOMs = func() []model.OOM {
		out := found
		found = nil
		return out
	}
}

// writtenAgo is a checkpoint that was written so long ago.
func writtenAgo(ago time.Duration) *vpav1.VerticalPodAutoscalerCheckpoint {
	c := checkpointOf("a", "app", 1000)
	c.Status.LastUpdateTime = metav1.NewTime(time.Now().Add(-ago))
	return c
}

func (c *cluster) memoryTarget() int64 {
	c.t.Helper()
	r := c.vpa("a").Status.Recommendation.ContainerRecommendations
	require.Len(c.t, r, 1)
	return r[0].Target.Memory().Value()
}

// bumped is what 2Gi times 1.2 come to, used what the 1Gi of cycle do.
const bumped, used = 2_975_900_105, 1_238_659_775

func TestOOMsBeforeTheFirstCycleCountOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		checkpoint time.Duration // written so long ago; 0 = there is none
		late       bool          // the pod was seen after it
		ago        []time.Duration
		want       int64
	}{
		"between the start and the first cycle":                               {ago: []time.Duration{30 * time.Second}, want: bumped},
		"while nobody watched, of a workload without a checkpoint":            {late: true, ago: []time.Duration{5 * time.Minute}, want: bumped},
		"while the process was down":                                          {checkpoint: 3 * time.Hour, late: true, ago: []time.Duration{2 * time.Hour}, want: bumped},
		"reported twice":                                                      {checkpoint: 3 * time.Hour, late: true, ago: []time.Duration{2 * time.Hour, 2 * time.Hour}, want: bumped},
		"just before the process ended: its window is in no checkpoint":       {checkpoint: time.Minute, late: true, ago: []time.Duration{10 * time.Minute}, want: bumped},
		"counted by the process before, long ago":                             {checkpoint: time.Minute, late: true, ago: []time.Duration{2 * time.Hour}, want: used},
		"counted by the one that led, while this one stood by":                {checkpoint: time.Minute, ago: []time.Duration{2 * time.Hour, 70 * time.Minute}, want: used},
		"since the one that led wrote its last checkpoint":                    {checkpoint: time.Minute, ago: []time.Duration{10 * time.Second}, want: bumped},
		"counted by nobody: the clock of the process before was a year ahead": {checkpoint: -365 * 24 * time.Hour, late: true, ago: []time.Duration{30 * time.Minute}, want: bumped},
		"longer ago than a window, of a container that runs well since":       {late: true, ago: []time.Duration{25 * time.Hour}, want: used},
		"long ago, but a checkpoint of before says that nobody was there":     {checkpoint: 20 * time.Hour, late: true, ago: []time.Duration{19 * time.Hour}, want: bumped},
	} {
		t.Run(name, func(t *testing.T) {
			objects := workload("a", "app")
			if tt.checkpoint != 0 {
				objects = append(objects, writtenAgo(tt.checkpoint))
			}
			c := newCluster(t, objects...)
			c.killed(tt.late, tt.ago...)
			c.cycle("a app")
			require.Equal(t, tt.want, c.memoryTarget())
		})
	}
}

// TestOOMsAreNotJudgedBeforeCheckpointsAreKnown: those of before the start wait until it is known
// what was counted.
func TestOOMsAreNotJudgedBeforeCheckpointsAreKnown(t *testing.T) {
	c := newCluster(t, append(workload("a", "app"), writtenAgo(time.Minute))...)
	c.killed(true, 2*time.Hour, 10*time.Second)
	c.fault = func(verb string, _ client.Object) error {
		if verb == "list *unstructured.UnstructuredList" {
			return errors.New("no")
		}
		return nil
	}
	c.cycle("a app")
	require.Empty(t, c.statuses)
	c.fault = nil
	c.cycle("a app")
	require.Equal(t, int64(bumped), c.memoryTarget())
}
