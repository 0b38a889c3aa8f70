package facts

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestADecimalIsAnExactFraction(t *testing.T) {
	for _, tt := range []struct {
		number         string
		limit, request int64
		ok             bool
	}{
		{"1.2", 12, 10, true},
		{"4", 4, 1, true},
		{"4.00", 4, 1, true},
		{"1.25e1", 125, 10, true},
		{"1e3", 1000, 1, true},
		{"2.5e-1", 25, 100, true},
		{"0", 0, 1, true},
		{"1.00000000000000001", 100000000000000001, 100000000000000000, true},
		{"1.000000000000000000000001", 100000000000000000, 100000000000000000, true}, // beyond 18 digits
		{"1e18", 1000000000000000000, 1, true},
		{"1e30", math.MaxInt64, 1, true},
		{"1e999999999", math.MaxInt64, 1, true},
		{"1e-999999999", 0, 1, true},
		{"-1e999999999", 0, 0, false},
		{"-1.5", 0, 0, false},
		{"", 0, 0, false},
		{"1/2/3", 0, 0, false},
		{"x", 0, 0, false},
	} {
		f, ok := fractionOf(tt.number)
		require.Equal(t, tt.ok, ok, tt.number)
		if ok {
			require.Equal(t, fraction{tt.limit, tt.request}, f, tt.number)
		}
	}
}

func FuzzFraction(f *testing.F) {
	for _, seed := range []string{"1.2", "1e3", "-1", "9.999999999999999999e5", "1E+05", ".5", "1e-5"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, number string) {
		of, ok := fractionOf(number)
		if !ok {
			return
		}
		require.Positive(t, of.request, number)
		require.GreaterOrEqual(t, of.limit, int64(0), number)
	})
}

// Objects stored before the webhook renamed the field have the AEP's spelling.
func TestEitherSpellingOfTheRatioIsRead(t *testing.T) {
	factor, quantity := vpav1.Decimal("1.2"), resource.MustParse("200Mi")
	asked := &vpav1.RequestToLimitRatio{
		CPU:    &vpav1.ResourceRatio{Type: vpav1.ScaleFactor, Factor: &factor},
		Memory: &vpav1.ResourceRatio{Type: vpav1.ScaleQuantity, Quantity: &quantity},
	}
	want := policyRatiosSchema.New().
		SetRecord("cpu", policyCPURatioSchema.New().SetString("type", "Factor").SetRecord("factor", fractionSchema.New().SetInt("limit", 12).SetInt("request", 10))).
		SetRecord("memory", policyMemoryRatioSchema.New().SetString("type", "Quantity").SetInt("quantity", 200<<20))
	same(t, want, Policy(&vpav1.ContainerResourcePolicy{RequestToLimitRatio: asked}).Field("requestToLimitRatio"))
	same(t, want, Policy(&vpav1.ContainerResourcePolicy{RequestToLimitRatioAEP: asked}).Field("requestToLimitRatio"))
	other := &vpav1.RequestToLimitRatio{}
	same(t, policyRatiosSchema.New(), Policy(&vpav1.ContainerResourcePolicy{RequestToLimitRatio: other, RequestToLimitRatioAEP: asked}).Field("requestToLimitRatio"))
}

// It still replaces the VPA's boost (UPSTREAM.md Appendix B 3).
func TestAnEmptyStartupBoostIsNoBoost(t *testing.T) {
	for _, boost := range []*vpav1.StartupBoost{nil, {}} {
		require.Nil(t, VPA(&vpav1.VerticalPodAutoscaler{Spec: vpav1.VerticalPodAutoscalerSpec{StartupBoost: boost}}).Field("startupBoost"))
	}
	same(t, boostSchema.New(), Policy(&vpav1.ContainerResourcePolicy{StartupBoost: &vpav1.StartupBoost{}}).Field("startupBoost"))

	v := &vpav1.VerticalPodAutoscaler{}
	require.False(t, boosts(v))
	v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{}, {StartupBoost: &vpav1.StartupBoost{}}}}
	require.True(t, boosts(v))
	v.Spec.ResourcePolicy = nil
	v.Spec.StartupBoost = &vpav1.StartupBoost{}
	require.True(t, boosts(v))
}
