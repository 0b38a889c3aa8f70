package recommender

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// restarted is a cluster whose recommender starts anew now and then, by a clock that the test moves.
type restarted struct {
	*cluster
	clock *clocktesting.FakeClock
	ooms  []model.OOM // of the next cycle
}

func newRestarted(t *testing.T, objects ...client.Object) *restarted {
	c := &restarted{cluster: newCluster(t, objects...), clock: clocktesting.NewFakeClock(start)}
	c.Clock, c.Targets.Clock = c.clock, c.clock
	c.restart()
	return c
}

// restart is what a process knows that was killed and starts again: what is in the cluster.
func (c *restarted) restart() {
	o := c.Options
	checkpoints := Checkpoints{Timeout: time.Minute, Interval: time.Hour}
	o.Checkpoints = &checkpoints
	o.OOMs = func() []model.OOM {
		out := c.ooms
		c.ooms = nil
		return out
	}
	c.Recommender = New(o)
}

// recommendations are those of all VPAs.
func (c *restarted) recommendations() string {
	list := &vpav1.VerticalPodAutoscalerList{}
	require.NoError(c.t, c.api.List(c.t.Context(), list))
	out := map[string]any{}
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].Status.Recommendation
	}
	text, err := json.Marshal(out)
	require.NoError(c.t, err)
	return string(text)
}

// scene is a random history of pods: when they come and go, what they use, and how they end.
type scene struct {
	*rand.Rand
	both []*restarted
	now  time.Time
	pods map[string]*acting
}

// acting is a pod of a scene.
type acting struct {
	pod     *corev1.Pod
	every   int // cycles between two readings of its usage
	phase   time.Duration
	samples []model.Sample
	killed  map[string]model.OOM // the last OOM, by container
}

func (s *scene) each(do func(*restarted)) {
	for _, c := range s.both {
		do(c)
	}
}

// churn starts, ends and replaces pods.
func (s *scene) churn(most int) {
	for i := range most {
		name := fmt.Sprint("p-", i)
		switch known := s.pods[name]; {
		case known == nil && s.IntN(8) == 0:
			p := podNamed(name, "a", "app", "side")
			p.Labels["version"] = fmt.Sprint(s.IntN(3))
			p.CreationTimestamp = metav1.NewTime(s.now)
			s.pods[name] = &acting{pod: p, every: 1 + s.IntN(3), phase: time.Duration(s.IntN(50)) * time.Second, killed: map[string]model.OOM{}}
			s.each(func(c *restarted) { require.NoError(c.t, c.api.Create(c.t.Context(), p.DeepCopy())) })
		case known != nil && s.IntN(60) == 0:
			delete(s.pods, name)
			s.each(func(c *restarted) { require.NoError(c.t, c.api.Delete(c.t.Context(), known.pod.DeepCopy())) })
		}
	}
}

// use reads the usage of the pods: of some not in each cycle, so that the same is read again.
func (s *scene) use(cycle int) (all []model.Sample) {
	for _, name := range sortedNames(s.pods) {
		p := s.pods[name]
		if p.samples == nil || cycle%p.every == 0 {
			p.samples = nil
			at := s.now.Add(-p.phase)
			for _, container := range []string{"app", "side"} {
				id := model.PodID{Namespace: "ns", Name: name}
				p.samples = append(p.samples,
					model.Sample{Pod: id, Container: container, Resource: model.CPU, Amount: 50 + s.Int64N(2000), At: at},
					model.Sample{Pod: id, Container: container, Resource: model.Memory, Amount: s.Int64N(8) * s.Int64N(1<<30), At: at})
			}
		}
		all = append(all, p.samples...)
	}
	return all
}

// killing lets containers run out of memory.
func (s *scene) killing() (all []model.OOM) {
	for _, name := range sortedNames(s.pods) {
		if s.IntN(30) == 0 {
			o := model.OOM{Pod: model.PodID{Namespace: "ns", Name: name}, Container: []string{"app", "side"}[s.IntN(2)],
				Memory: s.Int64N(12 << 30), At: s.now.Add(-time.Duration(s.IntN(100)) * time.Second)}
			if !o.At.After(s.pods[name].killed[o.Container].At) {
				continue
			}
			s.pods[name].killed[o.Container] = o
			all = append(all, o)
		}
	}
	return all
}

// seenAgain are the OOMs that a new process finds in the statuses of pods. Pods may request more by
// now.
func (s *scene) seenAgain() (all []model.OOM) {
	for _, name := range sortedNames(s.pods) {
		for _, container := range []string{"app", "side"} {
			if o, ok := s.pods[name].killed[container]; ok {
				o.Late, o.Memory = true, o.Memory*2
				all = append(all, o)
			}
		}
	}
	return all
}

func sortedNames(pods map[string]*acting) (out []string) {
	for i := range 1000 {
		if name := fmt.Sprint("p-", i); pods[name] != nil {
			out = append(out, name)
		}
	}
	return out
}

// TestARestartChangesNoRecommendation: a recommender that is killed at random moments between two
// cycles recommends what one does that runs on, to the byte, for as long as the history of both
// lasts, and writes no checkpoint that the other does not write.
func TestARestartChangesNoRecommendation(t *testing.T) {
	restarts, killed, changes, seeds := 0, 0, 0, cases(10)
	for seed := range uint64(seeds) {
		a, b := workload("a"), workload("b")
		objects := []client.Object{a[0], a[2]} // its pods come later
		if seed%2 == 0 {                       // another VPA selects the same pods
			b[0].(*vpav1.VerticalPodAutoscaler).Spec.TargetRef.Name = "a"
			objects = append(objects, b[0])
		}
		s := &scene{Rand: rand.New(rand.NewPCG(seed, 20)), now: start, pods: map[string]*acting{}}
		for range 2 {
			s.both = append(s.both, newRestarted(t, clone(objects)...))
		}
		runsOn, starts := s.both[0], s.both[1]
		last := ""
		for cycle := range 220 {
			s.now = s.now.Add(time.Duration(600+s.IntN(900)) * time.Second)
			s.churn(6)
			if s.IntN(25) == 0 {
				starts.restart()
				starts.ooms = s.seenAgain()
				restarts++
			}
			usage, ooms := s.use(cycle), s.killing()
			killed += len(ooms)
			s.each(func(c *restarted) { c.ooms = append(c.ooms, ooms...) })
			s.each(func(c *restarted) {
				c.clock.SetTime(s.now)
				c.cluster.usage = usage
				c.RunOnce(t.Context())
			})
			want := runsOn.recommendations()
			require.Equal(t, want, starts.recommendations(), "seed %d, cycle %d", seed, cycle)
			require.Equal(t, runsOn.stored, starts.stored, "checkpoints written, seed %d, cycle %d", seed, cycle)
			if want != last {
				changes++
			}
			last = want
		}
	}
	require.Greater(t, restarts, 5*seeds)
	require.Greater(t, killed, 20*seeds)
	require.Greater(t, changes, 80*seeds)
}

func clone(objects []client.Object) (out []client.Object) {
	for _, o := range objects {
		out = append(out, o.DeepCopyObject().(client.Object))
	}
	return out
}

// TestAFaultyFieldOfACheckpointIsIgnoredAlone: anybody who may write checkpoints may write it. The
// log says so once, and the histograms count.
func TestAFaultyFieldOfACheckpointIsIgnoredAlone(t *testing.T) {
	faulty := checkpointOf("a", "app", 1000)
	faulty.Status.LastUpdateTime = metav1.NewTime(start.Add(-time.Minute))
	faulty.Status.Resume = &vpav1.CheckpointResume{WrittenAt: faulty.Status.LastUpdateTime, Pods: []vpav1.CheckpointPod{{Name: "a", WindowEnd: vpav1.NewInstant(start.AddDate(9, 0, 0))}}}
	faulty.Status.FirstSampleStart, faulty.Status.LastSampleStart = metav1.NewTime(start.AddDate(0, 0, -8)), metav1.NewTime(start.Add(-time.Hour))
	faulty.Status.CPUHistogram.ReferenceTimestamp = metav1.NewTime(start)
	c := newRestarted(t, append(workload("a", "app"), faulty)...)
	c.RunOnce(t.Context())
	require.Equal(t, 1, c.count(`status.resume.pods[0].windowEnd 2035`))
	require.Equal(t, 1, c.count(`"loaded"=1 "unused"=0 "unreadable"=0`))
	require.Greater(t, c.vpa("a").Status.Recommendation.ContainerRecommendations[0].Target.Cpu().MilliValue(), int64(4000))

	for _, resume := range []any{"text", int64(7), []any{}, map[string]any{"writtenAt": "yesterday"}, map[string]any{"pods": map[string]any{}}, map[string]any{"cpuWeights": "%"}} {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(checkpointOf("a", "app", 7))
		require.NoError(t, err)
		require.NoError(t, unstructured.SetNestedField(object, resume, "status", "resume"))
		text, err := json.Marshal(object)
		require.NoError(t, err)
		read, ignored, err := decodeCheckpoint(newListed(text))
		require.NoError(t, err)
		require.ErrorContains(t, ignored, "status.resume: decoding it")
		require.Equal(t, 7, read.Status.TotalSamplesCount)
		require.Nil(t, read.Status.Resume)
	}
}
