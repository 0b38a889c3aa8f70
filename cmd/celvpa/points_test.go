package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/policy"
)

func TestEveryPointIsCompiledByAComponent(t *testing.T) {
	registry, err := policy.Registry()
	require.NoError(t, err)
	var run []string
	for _, p := range []part{recommenderPart, updaterPart, admissionPart} {
		require.NotEmpty(t, p.points, "none would mean all")
		_, err := load(policy.Options{Points: p.points})
		require.NoError(t, err)
		run = append(run, p.points...)
	}
	for _, point := range registry.Points() {
		require.True(t, slices.Contains(run, point.Name), point.Name)
	}
}
