package recommender

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestThePastIsTheLast24Hours(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 30, 0, 0, time.UTC)
	p := &past{begun: begin}
	at := func(after time.Duration, cpu int64) facts.Past {
		p.note(facts.Amounts{CPU: cpu, Memory: 1}, begin.Add(after))
		return p.facts(begin.Add(after))
	}
	only := func(lowest, highest int64, known, unchanged time.Duration) facts.Past {
		return facts.Past{Known: known, Lowest: facts.Amounts{CPU: lowest, Memory: 1}, Highest: facts.Amounts{CPU: highest, Memory: 1}, Unchanged: unchanged}
	}
	const h = time.Hour
	require.Equal(t, only(100, 100, 0, 0), at(0, 100))
	require.Equal(t, only(100, 100, h, 0), at(h, 100))
	require.Equal(t, only(100, 500, 2*h, 0), at(2*h, 500))
	require.Equal(t, only(100, 500, 5*h, 3*h), at(5*h, 500))
	require.Equal(t, only(100, 500, 6*h, 0), at(6*h, 300))
	require.Equal(t, only(100, 500, 24*h, 0), at(25*h, 400), "100 was in force until 24 hours ago, to the hour")
	require.Equal(t, only(300, 500, 24*h, 0), at(28*h, 401))
	require.Equal(t, only(401, 900, 24*h, 0), at(100*h, 900), "what was in force at the begin of the 24 hours counts")
	require.Equal(t, only(900, 900, 24*h, 50*h), at(150*h, 900))
	require.Equal(t, only(700, 900, 24*h, 0), at(149*h, 700), "a clock that goes back")
	for i := range 100 {
		at(time.Duration(200+i)*h, int64(i+1))
	}
	require.LessOrEqual(t, len(p.hours), 25)
	require.Equal(t, facts.Past{Known: 24 * h, Lowest: p.hours[0].lowest, Highest: facts.Amounts{CPU: 100, Memory: 1}}, p.facts(begin.Add(299*h)))
}

// daily is a VPA under the rules of the recipe of that name, and a pod whose usage the test sets.
type daily struct {
	*State
	w   *Workload
	v   *vpav1.VerticalPodAutoscaler
	pod *corev1.Pod
}

func newDaily(t *testing.T, v *vpav1.VerticalPodAutoscaler, rules string) *daily {
	book, err := policy.Load(policy.Options{Path: rules})
	require.NoError(t, err)
	d := &daily{State: NewState(model.UnusedGrace, logr.Discard(), nil), v: v}
	d.UseRules(book)
	d.w = d.SetVPA(d.v, target.Answer{Selector: labels.Everything()})
	d.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: "web-1"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	return d
}

// use lets the pod use so much CPU for some hours, and returns the target at their end.
func (d *daily) use(cpu int64, from time.Time, hours int) (milli int64, status *vpav1.VerticalPodAutoscalerStatus) {
	d.SetPod(d.pod, false, from)
	for i := range hours * 12 {
		now := from.Add(time.Duration(i+1) * 5 * time.Minute)
		d.Add([]model.Sample{{Pod: model.PodID{Namespace: d.pod.Namespace, Name: d.pod.Name}, Container: "app", Resource: model.CPU, Amount: cpu, At: now}}, now)
		status = d.Status(d.w, now)
		next := d.v.DeepCopy()
		next.Status = *status
		d.v = next
		d.w = d.SetVPA(d.v, target.Answer{Selector: labels.Everything()})
	}
	q := status.Recommendation.ContainerRecommendations[0].Target[corev1.ResourceCPU]
	return q.MilliValue(), status
}

func TestATargetRisesByHalfADayAndARestartDoesNotForget(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := newDaily(t, aVPA(), "../../examples/cookbook/daily.yaml")
	before, _ := d.use(100, begin, 30)
	require.InDelta(t, 126, before, 1)
	now := begin.Add(30 * time.Hour)
	risen, _ := d.use(4000, now, 6)
	require.EqualValues(t, before*3/2, risen)
	now = now.Add(6 * time.Hour)

	checkpoint, _, ok := d.w.model.Checkpoint("app", now)
	require.True(t, ok)
	d.w.storePast("app", &checkpoint)
	require.NotNil(t, checkpoint.Resume.Past)
	object := &vpav1.VerticalPodAutoscalerCheckpoint{ObjectMeta: metav1.ObjectMeta{Namespace: d.v.Namespace},
		Spec: vpav1.VerticalPodAutoscalerCheckpointSpec{VPAObjectName: d.v.Name, ContainerName: "app"}, Status: checkpoint}
	again := newDaily(t, d.v, "../../examples/cookbook/daily.yaml")
	known, err := again.Restore(object, now)
	require.True(t, known)
	require.NoError(t, err)
	require.Equal(t, d.w.past, again.w.past)
	risen, _ = again.use(4000, now, 6)
	require.EqualValues(t, before*3/2, risen, "a restart is no new day")
	risen, _ = again.use(4000, now.Add(6*time.Hour), 20)
	require.Greater(t, risen, before*3/2, "the next day is")

	for _, broken := range []func(*vpav1.CheckpointPast){
		func(p *vpav1.CheckpointPast) { p.Hours = append(p.Hours, p.Hours...) },
		func(p *vpav1.CheckpointPast) { p.Begun = *vpav1.NewInstant(now.Add(time.Minute)) },
		func(p *vpav1.CheckpointPast) { p.Hours = make([]vpav1.CheckpointHour, 26) },
	} {
		faulty := object.DeepCopy()
		broken(faulty.Status.Resume.Past)
		other := newDaily(t, d.v, "../../examples/cookbook/daily.yaml")
		_, err := other.Restore(faulty, now)
		require.NoError(t, err, "its histograms count all the same")
		require.Empty(t, other.w.past)
	}
}

func TestThePastIsKeptOnlyWhereRulesReadIt(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := newDaily(t, aVPA(), "")
	d.use(100, begin, 1)
	require.Empty(t, d.w.past)

	text, err := os.ReadFile("../../examples/cookbook/daily.yaml")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "audited.yaml")
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), "spec:\n  change:", "spec:\n  mode: Audit\n  change:", 1)), 0o600))
	audited := newDaily(t, aVPA(), path)
	audited.use(100, begin, 2)
	require.Equal(t, time.Hour+55*time.Minute, audited.view(audited.w, begin.Add(2*time.Hour)).Containers[0].Input.Past.Known, "an overlay that is only tried sees it, too")
}

// wider is an overlay whose rule changes one bound.
const wider = `
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: wider}
spec:
  change:
  - before: container-caps
    stage:
      name: wider
      each: [bound, resource]
      rules:
      - name: change
        when: bound == 'BOUND' && resource in now && (resource in requests || resource == 'cpu')
        set: {"now[resource]": "scale(now[resource], FACTOR)"}
`

func TestBoundsThatAnOverlayPutsOnTheWrongSideOfTheTarget(t *testing.T) {
	for bound, tt := range map[string]struct {
		factor, says string
		of           func(vpav1.RecommendedContainerResources) corev1.ResourceList
	}{
		"lowerBound": {"9.0", "lowerBound.cpu is above the target, so it is set to the target", func(r vpav1.RecommendedContainerResources) corev1.ResourceList { return r.LowerBound }},
		"upperBound": {"0.1", "upperBound.cpu is below the target, so", func(r vpav1.RecommendedContainerResources) corev1.ResourceList { return r.UpperBound }},
	} {
		t.Run(bound, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "wider.yaml")
			require.NoError(t, os.WriteFile(path, []byte(strings.NewReplacer("BOUND", bound, "FACTOR", tt.factor).Replace(wider)), 0o600))
			d := newDaily(t, aVPA(), path)
			_, status := d.use(100, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 30)
			r := status.Recommendation.ContainerRecommendations[0]
			require.Equal(t, r.Target[corev1.ResourceCPU], tt.of(r)[corev1.ResourceCPU])
			var message string
			for _, c := range status.Conditions {
				if c.Type == vpav1.RulesApplied {
					message = c.Message
				}
			}
			require.Contains(t, message, "container-caps/wider/change")
			require.Contains(t, message, tt.says)
		})
	}
}

func TestRulesSeeTheLargestRequestsOfPods(t *testing.T) {
	d := newDaily(t, aVPA(), "../../examples/cookbook/daily.yaml")
	for name, request := range map[string]string{"web-1": "1", "web-2": "3", "web-3": "2"} {
		pod := d.pod.DeepCopy()
		pod.Name = name
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(request)}
		d.SetPod(pod, false, start)
	}
	requests, limits := d.w.model.Largest("app")
	require.Equal(t, facts.Amounts{CPU: 3000}, requests)
	require.Zero(t, limits)
}
