package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	upstreampod "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/patch"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/recommendation"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/limitrange"
	upstreamapi "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
	"k8s.io/client-go/informers"
	informersofcore "k8s.io/client-go/informers/core"
	informersv1 "k8s.io/client-go/informers/core/v1"
	listersv1 "k8s.io/client-go/listers/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/webhook/podreview"
)

// podAnswer is what one side does with a new pod.
type podAnswer struct {
	Patch    []byte      // nil = none
	Pod      *corev1.Pod // after the patch
	Failed   string      // why there is no patch, or why it does not apply
	Panicked string      // in place of an answer
}

const (
	annotationUpdates  = "vpaUpdates"
	annotationObserved = "vpaObservedContainers"
	annotationBoost    = "vpaCpuStartupBoost/"
)

// updates are the items of vpaUpdates by container index, sorted; nil without the annotation.
func (a *podAnswer) updates() map[int][]string {
	text, ok := a.Pod.Annotations[annotationUpdates]
	if !ok {
		return nil
	}
	out := map[int][]string{}
	_, text, _ = strings.Cut(text, "Pod resources updated by v: ")
	for _, chunk := range strings.Split(strings.ReplaceAll(text, "; container ", "\ncontainer "), "\n") {
		name, items, _ := strings.Cut(chunk, ": ")
		i, err := strconv.Atoi(strings.TrimPrefix(name, "container "))
		if err != nil { // of the pod as a whole
			i, items = -1, chunk
		}
		out[i] = []string{}
		if items != "" {
			out[i] = strings.Split(items, ", ")
			slices.Sort(out[i])
		}
	}
	return out
}

func (a *podAnswer) String() string {
	var out strings.Builder
	switch {
	case a.Panicked != "":
		return "panics: " + a.Panicked + "\n"
	case a.Failed != "":
		fmt.Fprintln(&out, "leaves it as it is: "+a.Failed)
	case a.Patch == nil:
		fmt.Fprintln(&out, "leaves it as it is")
	default:
		fmt.Fprintln(&out, "changes it")
	}
	for i := range a.Pod.Spec.Containers {
		fmt.Fprintf(&out, "  container %d: %s\n", i, mustJSON(a.Pod.Spec.Containers[i].Resources))
	}
	for _, key := range slices.Sorted(mapKeys(a.Pod.Annotations)) {
		fmt.Fprintf(&out, "  %s: %s\n", key, a.Pod.Annotations[key])
	}
	return out.String()
}

func mapKeys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// apply applies a patch to a pod, and rounds quantities like API servers.
func (a *podAnswer) apply(pod *corev1.Pod) {
	a.Pod = pod
	if a.Patch == nil {
		return
	}
	operations, err := jsonpatch.DecodePatch(a.Patch)
	if err != nil {
		a.Failed = err.Error()
		return
	}
	after, err := operations.Apply(mustJSON(pod))
	if err != nil {
		a.Failed = err.Error()
		return
	}
	changed := &corev1.Pod{}
	if err := json.Unmarshal(after, changed); err != nil {
		a.Failed = err.Error()
		return
	}
	roundAmounts(changed)
	a.Pod = changed
}

// Upstream's LimitRange calculator takes them from an informer factory, of which it uses only this;
// it folds them itself. Its own lister is unordered, this one keeps the order of a list.
type (
	limitRangeFactory struct {
		informers.SharedInformerFactory
		list limitRangeList
	}
	limitRangeCore struct {
		informersofcore.Interface
		list limitRangeList
	}
	limitRangeV1 struct {
		informersv1.Interface
		list limitRangeList
	}
	limitRangeInformer struct {
		informersv1.TypedLimitRangeInformer
		list limitRangeList
	}
	limitRangeLister struct {
		listersv1.LimitRangeLister
		list limitRangeList
	}
	limitRangeOfNamespace struct {
		listersv1.LimitRangeNamespaceLister
		list limitRangeList
	}
	limitRangeList []*corev1.LimitRange
)

func (f limitRangeFactory) Core() informersofcore.Interface { return limitRangeCore{list: f.list} }
func (c limitRangeCore) V1() informersv1.Interface          { return limitRangeV1{list: c.list} }
func (v limitRangeV1) LimitRanges() informersv1.TypedLimitRangeInformer {
	return limitRangeInformer{list: v.list}
}
func (i limitRangeInformer) Lister() listersv1.LimitRangeLister {
	return limitRangeLister{list: i.list}
}
func (l limitRangeLister) LimitRanges(string) listersv1.LimitRangeNamespaceLister {
	return limitRangeOfNamespace{list: l.list}
}
func (n limitRangeOfNamespace) List(labels.Selector) ([]*corev1.LimitRange, error) {
	return n.list, nil
}

// upstreamCalculators are the patch calculators of upstream's admission controller, in its order.
func upstreamCalculators(list []corev1.LimitRange, maxBoost resource.Quantity) ([]patch.Calculator, error) {
	var factory limitRangeFactory
	for i := range list {
		factory.list = append(factory.list, &list[i])
	}
	slices.SortFunc(factory.list, func(a, b *corev1.LimitRange) int { return strings.Compare(a.Name, b.Name) })
	limits, err := limitrange.NewLimitsRangeCalculator(factory)
	if err != nil {
		return nil, err
	}
	provider := recommendation.NewProvider(limits, upstreamapi.NewCappingRecommendationProcessor(limits))
	return []patch.Calculator{
		patch.NewResourceUpdatesCalculator(provider, resource.QuantityValue{Quantity: maxBoost}),
		patch.NewObservedContainersCalculator(),
	}, nil
}

// oneVPA replaces upstream's matcher. The VPA selects the pod, except in update mode Off without a
// boost.
type oneVPA struct {
	v *upstreamv1.VerticalPodAutoscaler
}

func (m oneVPA) GetMatchingVPA(context.Context, *corev1.Pod) *upstreamv1.VerticalPodAutoscaler {
	if upstreamapi.GetUpdateMode(m.v) == upstreamv1.UpdateModeOff && !upstreamapi.HasStartupBoost(m.v) {
		return nil
	}
	return m.v
}

func maxBoostOf(in *podInput) (resource.Quantity, error) {
	if in.MaxBoost == "" {
		return resource.Quantity{}, nil
	}
	return resource.ParseQuantity(in.MaxBoost)
}

func podByUpstream(c testCase) (out podAnswer, err error) {
	if err := setUpstreamGates(c.Gates); err != nil {
		return out, fmt.Errorf("setting upstream's gates: %w", err)
	}
	in, err := readPod(c)
	if err != nil {
		return out, err
	}
	v, err := in.upstreamVPA()
	if err != nil {
		return out, err
	}
	maxBoost, err := maxBoostOf(&in)
	if err != nil {
		return out, fmt.Errorf("reading the highest boost: %w", err)
	}
	calculators, err := upstreamCalculators(in.LimitRanges, maxBoost)
	if err != nil {
		return out, err
	}
	handler := upstreampod.NewResourceHandler(upstreampod.NewDefaultPreProcessor(), oneVPA{v}, calculators)
	request := &admissionv1.AdmissionRequest{Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespace: in.Pod.Namespace}
	request.Object.Raw = mustJSON(in.Pod)
	func() {
		defer func() {
			if p := recover(); p != nil {
				out.Panicked = fmt.Sprint(p)
			}
		}()
		patches, _, errs := handler.GetPatches(context.Background(), request)
		if len(errs) > 0 {
			out.Failed = errs.ToAggregate().Error()
		} else if len(patches) > 0 {
			out.Patch = mustJSON(patches)
		}
	}()
	out.apply(in.Pod)
	return out, nil
}

var podBooks = map[string]*compile.Rulebook{}

// podRules are the shipped rules, compiled once for each set of flags.
func podRules(g gates, maxBoost string) (*compile.Rulebook, error) {
	if maxBoost == "" {
		return shippedRules(g)
	}
	booksMutex.Lock()
	defer booksMutex.Unlock()
	key := fmt.Sprint(g, maxBoost)
	if book, ok := podBooks[key]; ok {
		return book, nil
	}
	book, err := policy.Load(policy.Options{Gates: g.asMap(), Params: map[string]string{"maxBoostedCPU": maxBoost}})
	if err != nil {
		return nil, fmt.Errorf("loading celvpa's rules: %w", err)
	}
	podBooks[key] = book
	return book, nil
}

func podByCelvpa(c testCase) (out podAnswer, err error) {
	in, err := readPod(c)
	if err != nil {
		return out, err
	}
	v, err := in.celvpaVPA()
	if err != nil {
		return out, err
	}
	book, err := podRules(c.Gates, in.MaxBoost)
	if err != nil {
		return out, err
	}
	plan := book.Default()
	before := in.Pod.DeepCopy()
	func() {
		defer func() {
			if p := recover(); p != nil {
				out.Panicked = fmt.Sprint(p)
			}
		}()
		if verdict := matcher.Ask(plan, matcher.Admission, v, nil); verdict.Err != nil || verdict.Do != facts.DoApply {
			return
		}
		review := podreview.Review(plan, podreview.Request{Pod: in.Pod, VPA: v, Limits: facts.FoldLimitRanges(in.LimitRanges)}, nil)
		if len(review.Failed)+len(review.Unjudged)+len(review.Causes) > 0 {
			out.Failed = fmt.Sprint(review.Failed, review.Unjudged, review.Causes)
		} else if len(review.Patch) > 0 {
			out.Patch = mustJSON(review.Patch)
		}
	}()
	out.apply(before)
	return out, nil
}
