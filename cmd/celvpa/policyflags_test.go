package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/faults"
)

// otherValue is a value of a parameter's flag that is not its default.
func otherValue(t *testing.T, kind, usual string) string {
	t.Helper()
	switch kind {
	case "bool":
		return fmt.Sprint(usual != "true")
	case "duration":
		return "7h7m"
	case "cpu":
		return "7"
	case "memory":
		return "7Gi"
	case "int":
		return "7"
	case "double":
		return "0.77"
	}
	require.Fail(t, "a parameter of type "+kind)
	return ""
}

// policyFlagsOf are the flags of policy of an offline command that is given some arguments.
func policyFlagsOf(t *testing.T, name string, args ...string) *policyFlags {
	t.Helper()
	o, cmd := &policyFlags{ruleOptions: ruleOptions{compile: compileOnce}}, &cobra.Command{Use: name}
	o.add(cmd)
	cmd.SetGlobalNormalizationFunc(normalize)
	require.NoError(t, cmd.ParseFlags(args))
	return o
}

// TestEveryFlagOfAnOfflineCommandActs: what a flag sets changes the rules by which the command decides, or is behind a gate.
func TestEveryFlagOfAnOfflineCommandActs(t *testing.T) {
	library, err := policy.Shipped()
	require.NoError(t, err)
	var every []string
	for gate := range facts.Gates {
		every = append(every, gate+"=true")
	}
	usual := map[string]string{} // digests, by gates
	for _, gates := range []string{"", strings.Join(every, ",")} {
		parsed, err := parseGates(gates)
		require.NoError(t, err)
		book, err := load(policy.Options{Gates: parsed})
		require.NoError(t, err)
		usual[gates] = book.Default().Digest()
	}
	acting := map[string]bool{}
	for _, c := range offlineCommands {
		t.Run(c.name, func(t *testing.T) {
			for _, p := range library.Params() {
				flag := p.Param.Flag
				if flag == "" || policyFlagsOf(t, c.name).pflags.Lookup(flag) == nil {
					continue
				}
				for gates, digest := range usual {
					o := policyFlagsOf(t, c.name, "--feature-gates="+gates, "--"+flag+"="+otherValue(t, p.Param.Type.Value, p.Param.Default.Value))
					book, err := o.open()
					if err == nil {
						require.NotEqual(t, digest, book.Default().Digest(), "--%s was taken, and changed no rule that celvpa %s runs", flag, c.name)
						acting[flag] = true
						continue
					}
					require.Empty(t, gates, "%v", err)
					require.ErrorContains(t, err, "--"+flag+" does nothing in celvpa "+c.name+": ")
					require.ErrorContains(t, err, " behind a feature gate; add --feature-gates=")
				}
			}
		})
	}
	for _, p := range library.Params() {
		require.True(t, p.Param.Flag == "" || p.Param.Flag == admissionDown || acting[p.Param.Flag], "--%s acts in no offline command", p.Param.Flag)
	}
}

// TestOfflineCommandsAreDoneByTheirOptions: none has points that no component runs, and each point is run by one.
func TestOfflineCommandsAreDoneByTheirOptions(t *testing.T) {
	for _, c := range offlineCommands {
		cmd, _, err := rootCommand(compileOnce).Find([]string{c.name})
		require.NoError(t, err)
		for _, flag := range []string{"feature-gates", "rules-dir", "pipeline"} {
			require.NotNil(t, cmd.PersistentFlags().Lookup(flag), "celvpa %s --%s", c.name, flag)
		}
		for _, point := range c.points {
			require.True(t, slices.ContainsFunc([]part{recommenderPart, updaterPart, admissionPart}, func(p part) bool { return slices.Contains(p.points, point) }), point)
		}
	}
	for _, p := range []part{recommenderPart, updaterPart, admissionPart} {
		for _, point := range p.points {
			require.True(t, slices.ContainsFunc(offlineCommands, func(c offlineCommand) bool { return slices.Contains(c.points, point) }), "no offline command runs %s", point)
		}
	}
}

// TestFlagsThatCannotActAreRefused, by their names as well as by whose they are.
func TestFlagsThatCannotActAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"admit --target-cpu-percentile 0.5":           "--target-cpu-percentile does nothing in celvpa admit: it is a flag of celvpa recommender; leave it out",
		"recommend --max_allowed_cpu_boost 1":         "--max-allowed-cpu-boost does nothing in celvpa recommend: it is a flag of celvpa admission-controller and celvpa updater; leave it out",
		"plan --in-place-without-admission=false":     "--in-place-without-admission does nothing in celvpa plan: it is a flag of celvpa updater; leave it out",
		"validate --cpu-histogram-decay-half-life=1h": "--cpu-histogram-decay-half-life does nothing in celvpa validate: it is a flag of celvpa recommender; leave it out",
		"admit --max-allowed-cpu-boost=1": "--max-allowed-cpu-boost does nothing in celvpa admit: it is for rule sets cpu-startup-boost and end-startup-boost, which are behind a feature gate; " +
			"add --feature-gates=CPUStartupBoost=true, or leave it out",
		"plan --kube_api_burst=1": "--kube-api-burst does nothing in celvpa plan: it is a flag of celvpa admission-controller, celvpa recommender and celvpa updater; leave it out",
		"plan --update-nothing":   "unknown flag: --update-nothing; celvpa plan --help lists the flags",
	} {
		t.Run(args, func(t *testing.T) {
			out, err := celvpa(t, append(strings.Fields(args), "-f", "missing.yaml")...)
			require.EqualError(t, err, want)
			require.Empty(t, out)
		})
	}
}

// TestErrorsArePrintedOneByOne, and what stands around several stays with them.
func TestErrorsArePrintedOneByOne(t *testing.T) {
	var stderr bytes.Buffer
	a, b := errors.New("a"), errors.New("b")
	printErrors(&stderr, faults.Join(a, faults.Join(b, fmt.Errorf("c: %w", faults.Join(a, b)))))
	require.Equal(t, "celvpa: a\ncelvpa: b\ncelvpa: c: a\nb\n", stderr.String())
}

// behindGates are VPAs that use what is behind a gate.
var behindGates = map[string]struct{ spec, field string }{
	"InPlace":             {"updatePolicy: {updateMode: InPlace}", "spec.updatePolicy.updateMode"},
	"PerVPAConfig":        {"updatePolicy: {updateMode: Recreate, evictAfterOOMSeconds: 600}", "spec.updatePolicy.evictAfterOOMSeconds"},
	"CPUStartupBoost":     {"startupBoost: {cpu: {type: Factor, factor: 2}}", "spec.startupBoost"},
	"MemoryPerCPURatio":   {"resourcePolicy: {containerPolicies: [{containerName: app, memoryPerCPU: 4Gi}, {containerName: '*', memoryPerCPU: 2Gi}]}", "spec.resourcePolicy.containerPolicies[0].memoryPerCPU"},
	"RequestToLimitRatio": {"resourcePolicy: {containerPolicies: [{containerName: app, requestToLimitRatio: {cpu: {type: Factor, factor: 2}}}]}", "spec.resourcePolicy.containerPolicies[0].requestToLimitRatio"},
	"PodLevelResources":   {"resourcePolicy: {podPolicies: {maxAllowed: {cpu: 1}}}", "spec.resourcePolicy.podPolicies"},
}

// TestEveryGateActsOffline: with a gate off, each command names what it leaves out, once for a VPA; with it on, none does.
func TestEveryGateActsOffline(t *testing.T) {
	require.Len(t, behindGates, len(facts.Gates))
	for gate, uses := range behindGates {
		text := strings.Replace(recommends("Deployment", "shop"), "spec: {", "spec: {"+uses.spec+", ", 1) + deploymentOf("shop", "app", "side") +
			running("p", "shop", "ReplicaSet", "shop-7c5687bd57") + running("q", "shop", "ReplicaSet", "shop-7c5687bd57")
		for _, c := range offlineCommands {
			t.Run(gate+" in "+c.name, func(t *testing.T) {
				_, known := facts.Gates[gate]
				require.True(t, known)
				args := []string{c.name, "-f", "-"}
				if c.name == "recommend" {
					args = append(args, "--recommendation-min-samples=0") // there is no usage
				}
				args = append(args, historyFor(t, c.name)...)
				off, err := piped(t, text, args...)
				if !errors.Is(err, errNo) {
					require.NoError(t, err, off)
				}
				require.Equal(t, 1, strings.Count(off, uses.field), off)
				require.Contains(t, off, "--feature-gates="+gate+"=true")
				on, err := piped(t, text, append(args, "--feature-gates="+gate+"=true")...)
				require.NoError(t, err, on)
				require.NotContains(t, on, uses.field)
				require.NotContains(t, ofUpstream.ReplaceAllString(on, ""), "feature-gates")
			})
		}
	}
}

// TestGatesOfAnyRuleAreReported, whatever its rule set is called.
func TestGatesOfAnyRuleAreReported(t *testing.T) {
	const own = `---
{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: own}, spec: {mode: Enforce, change: [
  {disable: vpa-gates/startup-boost},
  {after: vpa-object, validation: {name: boost, at: spec.startupBoost, expression: gates.CPUStartupBoost, message: boosts are off here}},
  {after: vpa-object, validation: {name: factor, at: spec.startupBoost.cpu, when: '!gates.CPUStartupBoost', expression: self.factor > 2, message: too little}}]}}
`
	text := strings.Replace(recommends("Deployment", "shop"), "spec: {", "spec: {"+behindGates["CPUStartupBoost"].spec+", ", 1) + deploymentOf("shop", "app", "side") + own
	_, notes, err := plannedFrom(t, false, text)
	require.NoError(t, err)
	require.Contains(t, notes, "standard input:2: VerticalPodAutoscaler web/shop: spec.startupBoost: boosts are off here")
	require.NotContains(t, strings.Join(notes, "\n"), "too little", "that is about no gate")
}

// ofUpstream is what a backtest reports about its policy upstream, which has upstream's gates whatever is given.
var ofUpstream = regexp.MustCompile(`(?s)By upstream, no pod of .*?\n\n`)

// TestHelpOfOfflineCommandsNamesTheGates, as it does all flags.
func TestHelpOfOfflineCommandsNamesTheGates(t *testing.T) {
	for _, c := range offlineCommands {
		out, err := celvpa(t, c.name, "--help")
		require.NoError(t, err)
		for gate := range facts.Gates {
			require.Contains(t, out, gate+" (alpha, off)")
		}
	}
}
