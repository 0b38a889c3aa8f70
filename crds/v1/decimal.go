package v1

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Decimal is a JSON number kept as it was written, so that it can be scaled exactly: 1.2 stays 1.2.
//
// +kubebuilder:validation:Type=number
type Decimal string

// MarshalJSON writes the number as it was read.
func (d Decimal) MarshalJSON() ([]byte, error) {
	if d == "" {
		return []byte("0"), nil
	}
	return []byte(d), nil
}

// UnmarshalJSON accepts only JSON numbers.
func (d *Decimal) UnmarshalJSON(data []byte) error {
	var n json.Number
	if err := json.Unmarshal(data, &n); err != nil || strings.HasPrefix(string(data), `"`) {
		return fmt.Errorf("%s is not a number", data)
	}
	*d = Decimal(n)
	return nil
}
