package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/crds/quantity"
)

// fitting is a RuleOverlay that is decoded as its fields say: all of it or an error.
type fitting RuleOverlay

// Decode reads a RuleOverlay from JSON and refuses one that does not fit the type. unknown are the fields that the type does not
// have, or that stand twice.
func Decode(data []byte) (o *RuleOverlay, unknown []error, err error) {
	o = &RuleOverlay{}
	unknown, err = quantity.UnmarshalStrict(data, (*fitting)(o))
	return o, unknown, err
}

// UnmarshalJSON reads a stored object as far as it can be read: one that does not fit the type, such as another CRD lets in, would
// otherwise keep the whole list from being read. Of such an object only what identifies it is here, and Unreadable says why.
// Only an object without a readable name is an error.
func (o *RuleOverlay) UnmarshalJSON(data []byte) error {
	*o = RuleOverlay{}
	err := quantity.Unmarshal(data, (*fitting)(o))
	if err == nil {
		return nil
	}
	*o = RuleOverlay{Unreadable: err.Error()}
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
	}
	if fault := quantity.Unmarshal(data, &head); fault != nil || head.Metadata.Name == "" {
		return fmt.Errorf("reading a RuleOverlay: %w", err)
	}
	o.TypeMeta, o.ObjectMeta = head.TypeMeta, head.Metadata
	var status struct {
		Status RuleOverlayStatus `json:"status"`
	}
	if quantity.Unmarshal(data, &status) == nil {
		o.Status = status.Status
	}
	return nil
}
