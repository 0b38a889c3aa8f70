package v1alpha1

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/crds/quantity"
)

// fitting decodes strictly: all or an error.
type fitting RuleOverlay

// Decode refuses type mismatches. unknown are unknown or duplicate fields.
func Decode(data []byte) (o *RuleOverlay, unknown []error, err error) {
	o = &RuleOverlay{}
	unknown, err = quantity.UnmarshalStrict(data, (*fitting)(o))
	return o, unknown, said(data, err)
}

// UnmarshalJSON tolerates type mismatches, which other CRDs admit, so one bad object cannot fail a
// whole list: it keeps the metadata and sets Unreadable. Only an unreadable name is an error.
func (o *RuleOverlay) UnmarshalJSON(data []byte) error {
	*o = RuleOverlay{}
	err := quantity.Unmarshal(data, (*fitting)(o))
	if err == nil {
		return nil
	}
	*o = RuleOverlay{Unreadable: said(data, err).Error()}
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

// said names the field of an error of Unmarshal, if it can.
func said(data []byte, err error) error {
	if err == nil {
		return nil
	}
	return cmp.Or(quantity.MismatchIn(data, &fitting{}), err)
}
