package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/source"
)

func TestCoverageReportsWhatNoRowReached(t *testing.T) {
	coverage := engine.NewCoverage()
	results := runTable(t, `
  point: order.adjust
  rows: [{name: a, given: {customer: {tier: gold}, count: 1, line: {a: {now: {price: 1}}}}, expect: {total: {price: 10}}}]
---
`+strings.Replace(tableHead, "name: t", "name: u", 1)+`
  point: order.ship
  rows: [{name: a, given: {customer: {tier: tin}}, expect: {do: Hold}}]
---
`+strings.Replace(tableHead, "name: t", "name: v", 1)+`
  point: order.validate
  rows: [{name: a, given: {object: {lines: [{price: 1}]}}, expect: {}}]
`, coverage)
	require.Equal(t, []string{"ok a", "ok a", "ok a"}, shown(results))
	report := coverage.Report()
	require.Equal(t, []engine.SetCoverage{
		{RuleSet: "price@1.0.0", Reached: 5, Total: 8}, {RuleSet: "ship@1.0.0", Reached: 1, Total: 4}, {RuleSet: "valid@1.0.0", Reached: 2, Total: 5},
	}, report.Sets)
	var unreached []string
	for _, u := range report.Unreached {
		unreached = append(unreached, fmt.Sprintf("%s %s %s: %s", u.At, u.Kind, u.Path, u.What))
	}
	require.Equal(t, []string{
		"rules.yaml:12:11 branch price/cap: its condition was never false",
		"rules.yaml:14:14 rule price/cap/most: it never ran",
		"rules.yaml:19:14 rule price/total/voucher: it never ran",
		"rules.yaml:28:23 branch ship/tin: its condition was never false",
		"rules.yaml:29:12 decision ship/light: it was never taken",
		"rules.yaml:29:25 branch ship/light: its condition was never false",
		"rules.yaml:38:12 validation valid/priced: nothing violated it",
		"rules.yaml:38:64 branch valid/priced: its condition was never false",
		"rules.yaml:39:12 validation valid/small: nothing violated it",
	}, unreached)
	require.Empty(t, engine.NewCoverage().Report().Sets, "what did not run is not reported")
}

func TestCoverageIncludesOverlays(t *testing.T) {
	lib, err := document.Loader{}.Load(document.Layer{FS: fstest.MapFS{
		"rules.yaml": {Data: []byte(tableRules)},
		"o.yaml":     {Data: []byte(overlay("more", "  change: [{before: ship/tin, decision: {name: odd, when: customer.tier == 'odd', do: Ask}}]\n"))},
		"t.yaml": {Data: []byte(tableHead + `
  point: order.ship
  overlays: [more]
  given: {lines: []}
  rows: [{name: a, given: {customer: {tier: tin}}, expect: {do: Hold}}, {name: b, given: {customer: {tier: tin}}, gates: {Vouchers: true}, expect: {do: Hold}}]
`)},
	}})
	require.NoError(t, err)
	coverage := engine.NewCoverage()
	require.Equal(t, []string{"ok a", "ok b"}, shown(shopRunner(lib, coverage).Run(lib.Tests)))
	var unreached []string
	for _, u := range coverage.Report().Unreached {
		unreached = append(unreached, u.At.String()+" "+u.Path+": "+u.What)
	}
	require.Equal(t, []string{"o.yaml:6:48 ship/odd: it was never taken", "rules.yaml:28:23 ship/tin: its condition was never false",
		"rules.yaml:29:12 ship/light: it was never taken", "rules.yaml:29:25 ship/light: its condition was never false"}, unreached)
}

func TestFailingValidationIsNotCovered(t *testing.T) {
	coverage := engine.NewCoverage()
	results := runTable(t, `
  point: order.validate
  rows: [{name: a, given: {object: {lines: [{}]}}, expect: {violations: [{message: "the rule failed: no such key: price"}]}}]
`, coverage)
	require.Equal(t, []string{"ok a"}, shown(results))
	require.Contains(t, coverage.Report().Unreached, engine.Unreached{Kind: "validation", Path: "valid/priced", What: "nothing violated it", At: source.Position{File: "rules.yaml", Line: 38, Col: 12}})
}
