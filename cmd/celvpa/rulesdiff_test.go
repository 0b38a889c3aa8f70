package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnswersAreComparedLineByLine(t *testing.T) {
	for name, c := range map[string]struct{ before, after, want []string }{
		"nothing changes":                       {[]string{"a = 1", "b = 2"}, []string{"a = 1", "b = 2"}, nil},
		"two lines of one field stay":           {[]string{"a = 1", "a = 2"}, []string{"a = 1", "a = 2"}, nil},
		"one of two lines of one field changes": {[]string{"a = 1", "a = 2"}, []string{"a = 1", "a = 3"}, []string{"  a = 2 → 3"}},
		"one of two lines of one field goes":    {[]string{"a = 1", "a = 2"}, []string{"a = 2"}, []string{"  a = 1 → unset"}},
		"a field is new":                        {[]string{"a = 1"}, []string{"a = 1", "b = 2"}, []string{"  b = 2 is new"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, changedLines(c.before, c.after))
		})
	}
}

// Regression: one VPA that could not be used hid the answers about all others.
func TestAVPAThatCannotBeUsedLeavesTheAnswersAboutOthers(t *testing.T) {
	const huge = "---\napiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: huge}\nspec: {targetRef: {kind: Deployment, name: huge}, updatePolicy: {minReplicas: 3000000000}}\n"
	const cannotRead = "standard input:6: VerticalPodAutoscaler default/huge cannot be used: spec.updatePolicy.minReplicas cannot be read: it is 3000000000: must be a whole number of at most 2147483647"
	const pinned = "---\napiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: pinned, annotations: {rules.celvpa.dev/pipeline: other@1.0.0}}\nspec: {targetRef: {kind: Deployment, name: pinned}}\n"
	const notLoaded = `VerticalPodAutoscaler default/pinned: pipeline "other@1.0.0" is not loaded; write it as name@version, there is default@1.0.0`
	diff, render := []string{"rules", "diff", "shipped", "shipped"}, []string{"rules", "render"}
	for name, tt := range map[string]struct {
		args      []string
		file      string
		out, fail string
	}{
		"diff: one is of another type":        {diff, plain + huge, "VerticalPodAutoscaler default/plain: nothing changes\n", cannotRead},
		"diff: one is no YAML":                {diff, plain + "---\na: b: c\n", "VerticalPodAutoscaler default/plain: nothing changes\n", "standard input:6:4: not valid YAML: mapping values are not allowed in this context"},
		"diff: one is unreadable, one pinned": {diff, plain + huge + pinned, "VerticalPodAutoscaler default/plain: nothing changes\n", cannotRead + "\n" + notLoaded},
		"diff: none can be used":              {diff, huge[len("---\n"):], "", "standard input:1: VerticalPodAutoscaler default/huge cannot be used"},
		"diff: none can be used, as JSON":     {append(diff, "-o", "json"), huge[len("---\n"):], "{\n  \"changes\": []\n}\n", "standard input:1: VerticalPodAutoscaler default/huge cannot be used"},
		"render: one is of another type":      {render, plain + huge, "# the rules for VerticalPodAutoscaler default/plain\n", cannotRead},
		"render: one unreadable, one pinned":  {render, plain + huge + pinned, "# the rules for VerticalPodAutoscaler default/plain\n", cannotRead + "\n" + notLoaded},
		"render: none can be used":            {render, huge[len("---\n"):], "", "standard input:1: VerticalPodAutoscaler default/huge cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := piped(t, tt.file, append(tt.args, "--vpa", "-")...)
			require.ErrorContains(t, err, tt.fail)
			require.NotErrorIs(t, err, errNo)
			if tt.out == "" || tt.args[1] == "diff" {
				require.Equal(t, tt.out, out)
				return
			}
			require.Contains(t, out, tt.out)
			require.Contains(t, out, "kind: Pipeline\n")
		})
	}
}
