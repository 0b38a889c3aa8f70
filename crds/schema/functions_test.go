package schema

import (
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/celvpa/celvpa/crds/quantity"
)

func TestMultiplesAreExact(t *testing.T) {
	of := func(text string) apiservercel.Quantity {
		q, err := quantity.Parse(text)
		require.NoError(t, err)
		return apiservercel.Quantity{Quantity: &q}
	}
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"256Mi", "1", true}, {"7", "2", false}, {"-8", "2", true}, {"8", "-2", true}, {"-7", "2", false}, {"0", "5", true}, {"1k", "1Ki", false},
		{"250m", "1m", true}, {"2", "1m", true}, {"1500u", "1m", false}, {"1500m", "1", false}, {"1", "2500m", false}, {"5", "2500m", true},
		{"9223372036854775808", "2", true}, {"9223372036854775809", "2", false}, {"1e30", "1", true}, {"-9223372036854775808", "-1", true},
	} {
		require.Equal(t, types.Bool(tt.want), isMultipleOf(of(tt.a), of(tt.b)), "%s of %s", tt.a, tt.b)
	}
	for _, none := range []string{"0", "0m"} {
		require.True(t, types.IsError(isMultipleOf(of("4"), of(none))), none)
	}
	endless := resource.MustParse("1e999999999") // to write it out takes a GB
	for _, other := range []string{"1", "1m"} {
		require.True(t, types.IsError(isMultipleOf(apiservercel.Quantity{Quantity: &endless}, of(other))), other)
	}
}
