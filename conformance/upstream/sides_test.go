package upstream

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/vpa"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/features"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// answer is what one side answers to a case.
type answer struct {
	Denied    []issue  // why the object is refused; none = it is allowed
	Warned    []issue  // what is tolerated; only celvpa says where
	Notices   []string // the warnings that both sides know, in one wording
	Defaulted []byte   // the object with its defaults, where it is allowed
	Unpatched string   // why the defaults could not be applied
}

// issue is one finding about an object.
type issue struct {
	Path   string
	Reason metav1.CauseType
	Text   string // for people, not compared
}

func (a answer) allowed() bool { return len(a.Denied) == 0 }

// names reports whether the refusal includes the issue.
func (a answer) names(x issue) bool {
	return slices.ContainsFunc(a.Denied, func(y issue) bool { return y.Path == x.Path && y.Reason == x.Reason })
}

// tolerates reports whether the answer has a warning at a path.
func (a answer) tolerates(path string) bool {
	return slices.ContainsFunc(a.Warned, func(y issue) bool { return y.Path == path })
}

func (a answer) String() string {
	var out strings.Builder
	verdict := "allows it"
	if !a.allowed() {
		verdict = "refuses it"
	}
	fmt.Fprintln(&out, verdict)
	for _, x := range a.Denied {
		fmt.Fprintf(&out, "  %s: %s: %s\n", x.Path, x.Reason, x.Text)
	}
	for _, x := range a.Warned {
		fmt.Fprintf(&out, "  warning: %s: %s: %s\n", x.Path, x.Reason, x.Text)
	}
	for _, n := range a.Notices {
		fmt.Fprintf(&out, "  notice: %s\n", n)
	}
	if a.Unpatched != "" {
		fmt.Fprintf(&out, "  defaults: %s\n", a.Unpatched)
	}
	return out.String()
}

var upstreamHandler = vpa.NewResourceHandler(vpa.NewDefaultPreProcessor())

// upstreamGates are the last values of upstream's gates, which are global.
var upstreamGates gates

func setUpstreamGates(g gates) error {
	if g == upstreamGates {
		return nil
	}
	upstreamGates = g
	return features.MutableFeatureGate.SetFromMap(g.asMap())
}

func askUpstream(c testCase) (answer, error) {
	if err := setUpstreamGates(c.Gates); err != nil {
		return answer{}, fmt.Errorf("setting upstream's gates: %w", err)
	}
	request := &admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: c.objectJSON()}}
	if c.Old != nil {
		request.Operation, request.OldObject.Raw = admissionv1.Update, c.oldJSON()
	}
	patches, warnings, errs := upstreamHandler.GetPatches(context.Background(), request)
	var out answer
	for _, e := range errs {
		out.Denied = append(out.Denied, issue{Path: e.Field, Reason: metav1.CauseType(e.Type), Text: e.ErrorBody()})
	}
	for _, text := range warnings {
		out.Notices = append(out.Notices, upstreamNotice(text))
	}
	slices.Sort(out.Notices)
	if out.allowed() {
		out.Defaulted, out.Unpatched = patched(c, mustJSON(patches))
	}
	return out, nil
}

// Both sides report these two; the wording is the test's own.
const noticeAuto = "mode Auto is deprecated"

func noticeUncontrolled(path string) string { return "tolerated though not supported: " + path }

var (
	uncontrolledPath   = regexp.MustCompile(`^spec\.resourcePolicy\.containerPolicies\[\d+\]\.controlledResources\[\d+\]$`)
	upstreamWarnedPath = regexp.MustCompile(`spec\.resourcePolicy\.containerPolicies\[\d+\]\.controlledResources\[\d+\]`)
)

// upstreamNotice classifies upstream's warnings by their text, which is all they have. An unknown
// text stays as it is, so that a new warning of upstream shows as a difference.
func upstreamNotice(text string) string {
	if strings.Contains(text, "updatePolicy") && strings.Contains(text, `"Auto"`) {
		return noticeAuto
	}
	if path := upstreamWarnedPath.FindString(text); path != "" {
		return noticeUncontrolled(path)
	}
	return text
}

var (
	booksMutex sync.Mutex
	books      = map[gates]*compile.Rulebook{}
)

// shippedRules are compiled once for each set of gates.
func shippedRules(g gates) (*compile.Rulebook, error) {
	booksMutex.Lock()
	defer booksMutex.Unlock()
	if book, ok := books[g]; ok {
		return book, nil
	}
	book, err := policy.Load(policy.Options{Gates: g.asMap()})
	if err != nil {
		return nil, fmt.Errorf("loading celvpa's rules: %w", err)
	}
	books[g] = book
	return book, nil
}

func askCelvpa(c testCase) (answer, error) {
	book, err := shippedRules(c.Gates)
	if err != nil {
		return answer{}, err
	}
	review := vpareview.Review(book.Default(), vpareview.Read(c.objectJSON(), c.oldJSON(), ""))
	var out answer
	for _, x := range review.Causes {
		out.Denied = append(out.Denied, issue{Path: x.Field, Reason: x.Reason, Text: x.String()})
	}
	for _, x := range review.Warnings {
		out.Warned = append(out.Warned, issue{Path: x.Field, Reason: x.Reason, Text: x.String()})
		switch {
		case x.Field == pathMode && get(c.Object, pathMode) == "Auto":
			out.Notices = append(out.Notices, noticeAuto)
		case uncontrolledPath.MatchString(x.Field):
			out.Notices = append(out.Notices, noticeUncontrolled(x.Field))
		}
	}
	slices.Sort(out.Notices)
	if out.allowed() {
		out.Defaulted, out.Unpatched = patched(c, mustJSON(review.Patch))
	}
	return out, nil
}

// patched applies a JSON patch to the object of a case.
func patched(c testCase, operations []byte) (object []byte, failed string) {
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		return nil, err.Error()
	}
	object, err = patch.Apply(c.objectJSON())
	if err != nil {
		return nil, err.Error()
	}
	return object, ""
}
