package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLintNamesWhatAPipelineWithoutSharedParamsLacks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "set.yaml", `apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: rounding}
spec:
  version: 1.0.0
  point: container.recommend
  stages:
  - {name: up, each: bound, rules: [{name: up, when: params.nothing > 1, set: {now.cpu: now.cpu}}]}
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: Pipeline
metadata: {name: default}
spec: {version: 1.0.0, points: {container.recommend: [rounding@1.0.0]}}
`)
	out, err := celvpa(t, "rules", "lint", dir)
	require.ErrorIs(t, err, errNo)
	require.Contains(t, out, "undeclared reference to 'params': neither the rule set nor the pipeline it runs in declares params; a pipeline of your own declares in spec.params what its rule sets share")
}

func TestLintNamesWhatAPipelineWithoutDefinitionsLacks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "pipeline.yaml", `apiVersion: rules.celvpa.dev/v1alpha1
kind: Pipeline
metadata: {name: default}
spec: {version: 1.0.0, points: {vpa.validate: [memory-per-cpu@1.0.0]}}
`)
	out, err := celvpa(t, "rules", "lint", dir)
	require.ErrorIs(t, err, errNo)
	require.Contains(t, out, "undeclared reference to 'isSafeQuantity': neither a function nor a definition of Pipeline default@1.0.0; a pipeline of your own defines in spec.definitions what its rule sets call")
}
