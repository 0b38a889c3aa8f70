package main

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/crds/quantity"
)

// fraction is a flag's value: an exact decimal of at least 0 and less than 1.
type fraction struct{ value *resource.Quantity }

// String implements pflag.Value.
func (f fraction) String() string {
	q := *f.value
	return q.AsDec().String()
}

// Set implements pflag.Value.
func (f fraction) Set(text string) error {
	q, err := quantity.Parse(text)
	if err != nil || q.Sign() < 0 || q.CmpInt64(1) >= 0 {
		return errors.New("it must be a number of at least 0 and less than 1, such as 0.01")
	}
	*f.value = q
	return nil
}

// Type implements pflag.Value: it is what the help shows as the flag's argument.
func (f fraction) Type() string { return "fraction" }
