package emit

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/celvpa/celvpa/crds/schema"
)

// API servers limit the estimated cost of each expression, and of all expressions of a CRD together:
// StaticEstimatedCostLimit and StaticEstimatedCRDCostLimit of apiextensions-apiserver.
const (
	maxExpressionCost = 10_000_000
	maxTotalCost      = 100_000_000
)

// Refusal is a reason why an API server would refuse a CRD, e.g. a validation that costs too much.
type Refusal struct {
	CRD     string
	Rule    string // set/validation; empty = not about one rule
	At      string // path in objects; empty = the whole
	Message string
}

// Error implements error.
func (r *Refusal) Error() string {
	about := ""
	if r.Rule != "" {
		about = "rule " + r.Rule + " at " + r.At + ": "
	}
	return fmt.Sprintf("an API server would refuse CRD %s: %s%s", r.CRD, about, r.Message)
}

// Check estimates the cost of the validations in a CRD's schema as an API server of some version does, and lists those that it
// would refuse: they cost too much, do not compile there, or have a message of several lines.
func Check(crd *apiextensionsv1.CustomResourceDefinition, kubernetes *version.Version) ([]*Refusal, error) {
	c := &check{crd: crd.Name, env: environment.MustBaseEnvSet(kubernetes)}
	for i := range crd.Spec.Versions {
		root, _, err := schema.Structural(crd.Spec.Versions[i].Schema)
		if err != nil {
			return nil, fmt.Errorf("the schema of CRD %s: %w", crd.Name, err)
		}
		c.visit("", root, 1)
	}
	if c.total > maxTotalCost {
		c.refuse("", "", fmt.Sprintf("its validations cost %d together, more than %d", c.total, maxTotalCost))
	}
	return c.refusals, c.failed
}

type check struct {
	crd      string
	env      *environment.EnvSet
	total    uint64 // cost of all expressions
	refusals []*Refusal
	failed   error
}

func (c *check) refuse(at, rule, message string) {
	c.refusals = append(c.refusals, &Refusal{CRD: c.crd, At: strings.TrimPrefix(at, "."), Rule: rule, Message: message})
}

var ruleName = regexp.MustCompile(`\(rule ([^)]+)\)$`)

// visit checks a schema and those below it. An object has at most so many instances of it.
func (c *check) visit(at string, s *structural.Structural, instances uint64) {
	compiled, err := schemacel.Compile(s, model.SchemaDeclType(s, at == ""), celconfig.PerCallLimit, c.env, schemacel.NewExpressionsEnvLoader())
	if err != nil {
		c.failed = fmt.Errorf("the validations of CRD %s at %s: %w", c.crd, at, err)
		return
	}
	for i, result := range compiled {
		message := s.XValidations[i].Message
		rule := message
		if name := ruleName.FindStringSubmatch(message); name != nil {
			rule = name[1]
		}
		if strings.ContainsAny(message, "\n\r") {
			c.refuse(at, rule, "its message has line breaks")
		}
		for _, failed := range []*apiservercel.Error{result.Error, result.MessageExpressionError} {
			if failed != nil {
				c.refuse(at, rule, failed.Error())
			}
		}
		c.add(at, rule, "it costs", product(result.MaxCost, instances))
		c.add(at, rule, "its message costs", result.MessageExpressionMaxCost)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if name == "metadata" && at == "" {
			continue // it has no rules, and the schema does not define its type
		}
		field := s.Properties[name]
		c.visit(at+"."+name, &field, instances)
	}
	bounds := s.ValueValidation
	if bounds == nil {
		bounds = &structural.ValueValidation{}
	}
	if s.Items != nil {
		c.visit(at+"[*]", s.Items, times(instances, bounds.MaxItems))
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		c.visit(at+"[*]", s.AdditionalProperties.Structural, times(instances, bounds.MaxProperties))
	}
}

// add counts the cost of an expression.
func (c *check) add(at, rule, what string, cost uint64) {
	total, carry := bits.Add64(c.total, cost, 0)
	if c.total = total; carry > 0 {
		c.total = math.MaxUint64
	}
	if cost > maxExpressionCost {
		c.refuse(at, rule, fmt.Sprintf("%s %d, more than %d: make it simpler, or its lists, maps and texts shorter", what, cost, maxExpressionCost))
	}
}

// times is how many instances there are of the items of a list or map; without a bound it is the largest number.
func times(instances uint64, bound *int64) uint64 {
	if bound == nil {
		return math.MaxUint64
	}
	return product(instances, uint64(max(0, *bound)))
}

// product multiplies, up to the largest number.
func product(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high > 0 {
		return math.MaxUint64
	}
	return low
}
