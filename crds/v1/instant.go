package v1

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Instant is a time to the nanosecond. metav1.Time is written in whole seconds.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:Format=date-time
type Instant struct {
	metav1.Time `json:"-"`
}

// NewInstant is a time; nil for the zero time.
func NewInstant(t time.Time) *Instant {
	if t.IsZero() {
		return nil
	}
	return &Instant{metav1.NewTime(t.UTC())}
}

// At is the time; zero for nil.
func (t *Instant) At() time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time.Time
}

// MarshalJSON writes the fraction of a second only if there is one.
func (t Instant) MarshalJSON() ([]byte, error) { return json.Marshal(t.ToUnstructured()) }

// ToUnstructured is the value of the JSON.
func (t Instant) ToUnstructured() any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}
