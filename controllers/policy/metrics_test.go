package policy

import (
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
)

func TestSlowRulesAreNamedInAMetric(t *testing.T) {
	of := func(overlay string) float64 {
		return testutil.ToFloat64(slowRules.WithLabelValues("slow-set", overlay))
	}
	Report(logr.Discard(), "values unchanged",
		&engine.RuleError{Path: "slow-set/stage/rule", Err: errors.New("too many steps"), Slow: &engine.Payer{RuleSet: "slow-set", Overlay: "theirs"}},
		&engine.RuleError{Path: "slow-set/stage/rule", Err: errors.New("too many steps"), Slow: &engine.Payer{RuleSet: "slow-set"}},
		&engine.RuleError{Path: "slow-set/stage/rule", Err: errors.New("division by zero")}, nil)
	require.Equal(t, []float64{1, 1}, []float64{of("theirs"), of("")})
}
