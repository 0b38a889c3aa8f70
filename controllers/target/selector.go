package target

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// API servers take selectors of a megabyte, and any number of VPAs may have the same target. Those
// of real workloads have less than ten labels.
const (
	maxSelectorValues = 1000     // labels, and values in expressions
	maxSelectorText   = 16 << 10 // bytes of them
	// A selector with more than fewLabels, or with expressions, is made once for all VPAs with its
	// target. maxShared of them are remembered.
	fewLabels = 8
	maxShared = 2000
)

// tooLarge is the rest of an error about a selector.
const tooLarge = "; select the pods of this controller by a few labels that no others have"

// checkSelector refuses a selector that would take too much memory.
func checkSelector(s *metav1.LabelSelector) error {
	values, text := len(s.MatchLabels), 0
	for i := range s.MatchExpressions {
		values += 1 + len(s.MatchExpressions[i].Values)
	}
	if values > maxSelectorValues { // before it counts their bytes
		return fmt.Errorf("it has %d labels and values, more than %d%s", values, maxSelectorValues, tooLarge)
	}
	for name, value := range s.MatchLabels {
		text += len(name) + len(value)
	}
	for i := range s.MatchExpressions {
		text += len(s.MatchExpressions[i].Key)
		for _, value := range s.MatchExpressions[i].Values {
			text += len(value)
		}
	}
	return checkSelectorText(text)
}

func checkSelectorText(size int) error {
	if size > maxSelectorText {
		return fmt.Errorf("it has %d bytes, more than %d%s", size, maxSelectorText, tooLarge)
	}
	return nil
}

// asSelector is LabelSelectorAsSelector without validating again what the API server has validated:
// that would take longer than the rest of a look-up.
func asSelector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil || len(s.MatchExpressions) > 0 {
		return metav1.LabelSelectorAsSelector(s)
	}
	return labels.SelectorFromValidatedSet(s.MatchLabels), nil
}

// rendered is a selector with its text, so that those who compare the text share it.
type rendered struct {
	labels.Selector
	text string
}

func render(s labels.Selector) labels.Selector { return &rendered{Selector: s, text: s.String()} }

// String returns the text.
func (r *rendered) String() string { return r.text }

// sharedSelectors are the larger selectors, by target. It is safe for concurrent use.
type sharedSelectors struct {
	once sync.Once
	last *lru.Cache // *sharedSelector by Key
}

// sharedSelector is that of one version of an object.
type sharedSelector struct {
	uid      types.UID
	version  string
	selector labels.Selector
}

// of is the selector of a well-known controller. Faults are permanent.
func (s *sharedSelectors) of(k Key, c *controller) (labels.Selector, error) {
	if c.matches == nil || len(c.matches.MatchExpressions) == 0 && len(c.matches.MatchLabels) <= fewLabels {
		return asSelector(c.matches)
	}
	s.once.Do(func() { s.last = lru.New(maxShared) })
	if found, ok := s.last.Get(k); ok && c.version != "" {
		if known := found.(*sharedSelector); known.uid == c.uid && known.version == c.version {
			return known.selector, nil
		}
	}
	if err := checkSelector(c.matches); err != nil {
		return nil, err
	}
	selector, err := asSelector(c.matches)
	if err != nil {
		return nil, err
	}
	selector = render(selector)
	s.last.Add(k, &sharedSelector{uid: c.uid, version: c.version, selector: selector})
	return selector, nil
}
