package engine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

// TestAnOverlayChoosesThePipeline of objects that pin none, with the other changes that are meant for it.
func TestAnOverlayChoosesThePipeline(t *testing.T) {
	const (
		in   = "  match: {namespaces: [a]}\n"
		two  = "  change: [{use: p@2.0.0}]\n"
		with = "  change: [{use: p@2.0.0}, {params: {markup.fee: 50}}]\n"
	)
	tests := []struct {
		name     string
		overlays []string
		object   document.Subject
		pipeline string
		applied  []string
		shadows  map[string]string // pipeline by overlay
	}{
		{"an object that matches", []string{overlay("two", in+two)}, document.Subject{Namespace: "a"}, "p@2.0.0", []string{"two"}, nil},
		{"one that does not", []string{overlay("two", in+two)}, document.Subject{Namespace: "b"}, "p@1.0.0", nil, nil},
		{"one that pins another", []string{overlay("two", two)}, document.Subject{Pipeline: "p@1.0.0"}, "p@1.0.0", nil, nil},
		{"one that pins the same has the other changes, too", []string{overlay("two", with)}, document.Subject{Pipeline: "p@2.0.0"}, "p@2.0.0", []string{"two"}, nil},
		{"a bare name is the highest version", []string{overlay("newest", "  change: [{use: p}]\n")}, document.Subject{}, "p@2.0.0", []string{"newest"}, nil},
		{
			"overlays of either pipeline",
			[]string{overlay("of-one", "  pipeline: p@1.0.0\n  change: [{params: {markup.fee: 1}}]\n"), overlay("of-two", "  pipeline: p@2.0.0\n  change: [{params: {markup.fee: 2}}]\n"), overlay("use", "  priority: 1\n"+two)},
			document.Subject{},
			"p@2.0.0", []string{"of-two", "use"},
			nil,
		},
		{
			"the highest priority wins",
			[]string{overlay("back", "  priority: 2\n"+in+"  change: [{use: p@1.0.0}]\n"), overlay("two", two)},
			document.Subject{Namespace: "a"},
			"p@1.0.0", []string{"back"},
			nil,
		},
		{
			"two that choose the same one both apply",
			[]string{overlay("fee", "  priority: 1\n"+with), overlay("two", two)},
			document.Subject{},
			"p@2.0.0", []string{"two", "fee"},
			nil,
		},
		{
			"one in Audit is tried on its pipeline",
			[]string{overlay("tried", "  mode: Audit\n"+two), overlay("fee", "  change: [{params: {markup.fee: 1}}]\n")},
			document.Subject{},
			"p@1.0.0", []string{"fee"},
			map[string]string{"tried": "p@2.0.0"},
		},
		{
			"one in Audit below one that wins is not",
			[]string{overlay("tried", "  mode: Audit\n"+two), overlay("back", "  priority: 2\n  change: [{use: p@1.0.0}]\n")},
			document.Subject{},
			"p@1.0.0", []string{"back"},
			nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := mustRulebook(t, tt.overlays...).For(tt.object)
			require.NoError(t, got.Err)
			require.NoError(t, got.Unknown)
			require.Empty(t, got.Unevaluated)
			require.Equal(t, tt.pipeline, got.Plan.Pipeline())
			require.Equal(t, tt.applied, got.Plan.Overlays())
			var shadows map[string]string
			for _, s := range got.Shadows {
				if shadows == nil {
					shadows = map[string]string{}
				}
				shadows[s.Overlay] = s.Plan.Pipeline()
			}
			require.Equal(t, tt.shadows, shadows)
		})
	}
}

func TestFaultsOfOverlaysThatChooseAPipeline(t *testing.T) {
	for name, tt := range map[string]struct {
		overlays []string
		want     string
	}{
		"not loaded":          {[]string{overlay("x", "  change: [{use: q@1.0.0}]\n")}, `o.yaml:6:18: RuleOverlay x: pipeline "q@1.0.0" is not loaded; there is p@1.0.0, p@2.0.0; --pipelines and --rules-dir load others`},
		"twice":               {[]string{overlay("x", "  change: [{use: p@2.0.0}, {use: p@1.0.0}]\n")}, "o.yaml:6:34: RuleOverlay x: an overlay can use one pipeline; write another overlay for other objects"},
		"and names one":       {[]string{overlay("x", "  pipeline: p\n  change: [{use: p@2.0.0}]\n")}, "o.yaml:6:13: RuleOverlay x: an overlay that uses a pipeline changes that one; leave pipeline out"},
		"with another verb":   {[]string{overlay("x", "  change: [{use: p@2.0.0, disable: markup}]\n")}, "o.yaml:6:12: RuleOverlay x: a change has exactly one of use, params, disable, replace, before, after and add"},
		"with a digest":       {[]string{overlay("x", "  change: [{use: p@2.0.0, digest: abc}]\n")}, "o.yaml:6:35: RuleOverlay x: digest belongs to disable, replace, before and after"},
		"another at the same": {[]string{overlay("x", "  change: [{use: p@2.0.0}]\n"), overlay("y", "  change: [{use: p@1.0.0}]\n")}, "o.yaml:12:18: RuleOverlay y: it uses pipeline p@1.0.0, and RuleOverlay x at o.yaml:6:18 uses p@2.0.0, for objects that both may match: give them different priorities (the higher one wins), or match different objects"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rulebook(tt.overlays...)
			require.Error(t, err)
			first, _, _ := strings.Cut(err.Error(), "\n")
			require.Equal(t, tt.want, first)
		})
	}
}

// TestATableNamesAnOverlayThatChoosesAPipeline, and runs on it.
func TestATableNamesAnOverlayThatChoosesAPipeline(t *testing.T) {
	lib, err := shopLibrary(overlay("two", "  change: [{use: p@2.0.0}]\n"))
	require.NoError(t, err)
	plan, err := compile.Compile(lib, shop(), compile.Options{Pipeline: "p@1.0.0"}, "two")
	require.NoError(t, err)
	require.Equal(t, "p@2.0.0", plan.Pipeline())
}

// TestEffectsOfAChosenPipeline are all that it decides otherwise than the default one.
func TestEffectsOfAChosenPipeline(t *testing.T) {
	effects := mustRulebook(t, overlay("two", "  change: [{use: p@2.0.0}]\n")).Effects()
	require.Len(t, effects, 1)
	require.Equal(t, "p@2.0.0", effects[0].Pipeline)
	require.Contains(t, effects[0].Changes, "pipeline p@1.0.0 → p@2.0.0")
	require.Greater(t, len(effects[0].Changes), 1)
}
