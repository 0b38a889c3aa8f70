package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// plain is a valid object.
const plain = "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: plain}\nspec: {targetRef: {kind: Deployment, name: plain}}\n"

const gateOff = "  in-place.yaml:6:18: spec.updatePolicy.updateMode: update mode InPlace is behind a feature gate: start celvpa with --feature-gates=InPlace=true, or use InPlaceOrRecreate (rule vpa-gates/in-place)\n"

// TestManifestsAreJudged: a case is given by its error, none, errNo or what could not be done, and by what is printed.
func TestManifestsAreJudged(t *testing.T) {
	t.Chdir("testdata/validate")
	for name, tt := range map[string]struct {
		args, stdin, out string
		no               bool   // the answer is no
		fails            string // part of why it could not run
	}{
		"a valid object among others": {args: "-f shop.yaml", out: "web/shop: allowed (shop.yaml:7)\n"},
		"mistakes, all at once": {args: "-f mistakes.yaml", no: true, out: `web/types: refused (mistakes.yaml:4)
  mistakes.yaml:13:22: spec.resourcePolicy.containerPolicies[0].minAllowed.cpu: Invalid value: "2 cores": this is not a quantity; write it like 500m, 2 or 1Gi (rule schema)
  mistakes.yaml:9:37: spec.updatePolicy.minReplicas: Invalid value: "string": spec.updatePolicy.minReplicas in body must be of type integer: "string" (rule schema)
  mistakes.yaml:9:20: spec.updatePolicy.updateMode: Invalid value: "boolean": spec.updatePolicy.updateMode in body must be of type string: "boolean"; write the value in quotes (rule schema)
  mistakes.yaml:12:9: spec.resourcePolicy.containerPolicies[0].containerName: name the container that this policy is for, or use '*' for all others (rule vpa-object/container-name-required)
web/words: refused (mistakes.yaml:15)
  mistakes.yaml:20:43: spec.updatePolicy.minReplica: unknown field: kubectl refuses it, and an API server drops it without a word; check how it is spelled and where it stands (rule schema)
  mistakes.yaml:20:20: spec.updatePolicy.updateMode: update mode Sometimes is not known: use Off, Initial, Recreate, InPlaceOrRecreate or InPlace (rule vpa-object/update-mode-known)
default/old-mode: allowed (mistakes.yaml:21)
  mistakes.yaml:26:20: warning: spec.updatePolicy.updateMode: update mode Auto is deprecated: use Recreate, which does the same, or InPlaceOrRecreate (rule vpa-object/auto-is-deprecated)
`},
		"a number that its field cannot hold": {args: "-f -", stdin: strings.Replace(plain, "spec: {", "spec: {updatePolicy: {updateMode: Initial, minReplicas: 3000000000}, ", 1), no: true, out: `default/plain: refused (standard input:1)
  standard input:4:44: spec.updatePolicy.minReplicas: Invalid value: 3000000000: must be a whole number from -2147483648 to 2147483647 (rule schema)
`},
		"standard input": {args: "-f -", stdin: plain, out: "default/plain: allowed (standard input:1)\n"},
		"several paths":  {args: "-f in-place.yaml -f -", stdin: plain, no: true, out: "web/shop: refused (in-place.yaml:1)\n" + gateOff + "default/plain: allowed (standard input:1)\n"},

		"a gate that is off":                 {args: "-f in-place.yaml", no: true, out: "web/shop: refused (in-place.yaml:1)\n" + gateOff},
		"a gate that is on":                  {args: "-f in-place.yaml --feature-gates InPlace=true", out: "web/shop: allowed (in-place.yaml:1)\n"},
		"an update keeps what it had":        {args: "-f in-place.yaml --old in-place-before.json", out: "web/shop: allowed (in-place.yaml:1)\n"},
		"an update of another object":        {args: "-f in-place.yaml --old shop.yaml", no: true, out: "web/shop: refused (in-place.yaml:1)\n" + gateOff},
		"an object that was not there":       {args: "-f in-place.yaml --old mistakes.yaml", no: true, out: "web/shop: refused (in-place.yaml:1)\n" + gateOff},
		"the old objects on standard input":  {args: "-f shop.yaml --old -", stdin: plain, out: "web/shop: allowed (shop.yaml:7)\n"},
		"rules that are not loaded":          {args: "-f pinned.yaml", no: true, out: "web/shop: refused (pinned.yaml:1)\n  pinned.yaml:6:17: metadata.annotations[rules.celvpa.dev/pipeline]: pipeline \"default@9.0.0\" is not loaded; write it as name@version, there is default@1.0.0; --pipelines and --rules-dir load others (rule pipeline)\n"},
		"rules that were not loaded before":  {args: "-f pinned.yaml --old pinned.yaml", out: "web/shop: allowed (pinned.yaml:1)\n"},
		"overlays, enforced and warned with": {args: "-f overlays", no: true, out: "web/shop: allowed (overlays/vpas.yaml:1)\n  overlays/vpas.yaml:6:40: warning: spec.updatePolicy.minReplicas: RuleOverlay two-soon (Warn) would refuse this: one pod is not enough here (rule vpa-object/two-replicas)\npayments/shop: refused (overlays/vpas.yaml:8)\n  overlays/vpas.yaml:13:40: spec.updatePolicy.minReplicas: one pod is not enough here (rule vpa-object/two-replicas)\nelsewhere/shop: allowed (overlays/vpas.yaml:15)\n"},

		"documents that cannot be read":        {args: "-f unreadable.yaml", out: "default/first: allowed (unreadable.yaml:1)\ndefault/last: allowed (unreadable.yaml:15)\n", fails: "unreadable.yaml:11:3: key \"name\" is already set on line 10; keep one of them\nunreadable.yaml:13:1: not valid YAML: did not find expected node content"},
		"old objects that cannot be read":      {args: "-f shop.yaml --old unreadable.yaml", out: "web/shop: allowed (shop.yaml:7)\n", fails: "unreadable.yaml:11:3: key \"name\" is already set"},
		"a refusal does not hide a failure":    {args: "-f in-place.yaml -f missing.yaml", out: "web/shop: refused (in-place.yaml:1)\n" + gateOff, fails: "cannot read missing.yaml: no such file or directory"},
		"an overlay that cannot be used":       {args: "-f shop.yaml -f overlay-at-fault.yaml", out: "web/shop: allowed (shop.yaml:7)\n", fails: "RuleOverlay nowhere cannot be used: "},
		"one object for two clusters":          {args: "-f shop.yaml -f in-place.yaml", no: true, out: "web/shop: allowed (shop.yaml:7)\nweb/shop: refused (in-place.yaml:1)\n" + gateOff},
		"two old objects for one":              {args: "-f shop.yaml --old shop.yaml --old in-place.yaml", out: "web/shop: allowed (shop.yaml:7)\n", fails: "in-place.yaml:1: VerticalPodAutoscaler web/shop is already defined at shop.yaml:7; keep one of them"},
		"nothing to judge":                     {args: "-f overlays/rules.yaml", fails: "there is no VerticalPodAutoscaler in overlays/rules.yaml: nothing was judged"},
		"nothing on standard input":            {args: "-f -", fails: "there is no VerticalPodAutoscaler in -: nothing was judged"},
		"no path":                              {fails: "no manifests are named with -f, and there is no cluster to read: "},
		"a path without -f":                    {args: "shop.yaml", fails: "files are named with -f: celvpa validate -f shop.yaml"},
		"standard input for two things":        {args: "-f - --old -", fails: "-f and --old cannot both be standard input"},
		"an output that there is not":          {args: "-f shop.yaml -o xml", fails: `--output is "xml"; use table, json, yaml, junit or github`},
		"a gate that there is not":             {args: "-f shop.yaml --feature-gates Nothing=true", fails: `there is no gate "Nothing"`},
		"a pipeline that there is not":         {args: "-f shop.yaml --pipeline nothing", fails: `pipeline "nothing"`},
		"rules that there are not":             {args: "-f shop.yaml --rules-dir missing", fails: "cannot read missing"},
		"a version of the API that is no more": {args: "-f -", stdin: strings.Replace(plain, "/v1", "/v1beta2", 1), fails: "standard input:1: VerticalPodAutoscaler default/plain has apiVersion autoscaling.k8s.io/v1beta2; write autoscaling.k8s.io/v1"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := piped(t, tt.stdin, append([]string{"validate"}, strings.Fields(tt.args)...)...)
			require.Equal(t, tt.out, out)
			requireEnd(t, err, tt.fails, tt.no)
		})
	}
}

// TestTheJSONOfValidateIsAContract: scripts depend on its names, and on lists that are there when they are empty.
func TestTheJSONOfValidateIsAContract(t *testing.T) {
	t.Chdir("testdata/validate")
	out, err := celvpa(t, "validate", "-f", "in-place.yaml", "-o", "json")
	require.ErrorIs(t, err, errNo)
	require.Equal(t, `{
  "items": [
    {
      "object": "web/shop",
      "source": "in-place.yaml:1",
      "allowed": false,
      "causes": [
        {
          "rule": "vpa-gates/in-place",
          "field": "spec.updatePolicy.updateMode",
          "reason": "FieldValueForbidden",
          "message": "update mode InPlace is behind a feature gate: start celvpa with --feature-gates=InPlace=true, or use InPlaceOrRecreate"
        }
      ],
      "warnings": []
    }
  ]
}
`, out)
	out, err = celvpa(t, "validate", "-f", "shop.yaml", "-o", "json")
	require.NoError(t, err)
	require.JSONEq(t, `{"items":[{"object":"web/shop","source":"shop.yaml:7","allowed":true,"causes":[],"warnings":[]}]}`, out)
	out, err = celvpa(t, "validate", "-f", "overlays/rules.yaml", "-o", "json")
	require.Error(t, err)
	require.JSONEq(t, `{"items":[]}`, out)
}

func TestRulesOfOnesOwnJudge(t *testing.T) {
	dir := ownRules(t, "vpa-object.yaml", "expression: self > 0", "expression: self > 4")
	file := filepath.Join(t.TempDir(), "vpa.yaml")
	require.NoError(t, os.WriteFile(file, []byte(plain+"  # no more\n---\n"+strings.NewReplacer("name: plain", "name: few", "spec: {", "spec: {updatePolicy: {updateMode: Initial, minReplicas: 4}, ").Replace(plain)), 0o600))
	out, err := celvpa(t, "validate", "-f", file)
	require.NoError(t, err, out)
	out, err = celvpa(t, "validate", "-f", file, "--rules-dir", dir)
	require.ErrorIs(t, err, errNo)
	require.Contains(t, out, "default/plain: allowed")
	require.Contains(t, out, "default/few: refused")
	require.Contains(t, out, "(rule vpa-object/min-replicas-positive)")
}

// TestAURLIsNoFileOfTheRepository: annotations and reports name it, and CI systems do not look for it.
func TestAURLIsNoFileOfTheRepository(t *testing.T) {
	server := httptest.NewServer(http.FileServer(http.Dir("testdata/validate")))
	defer server.Close()
	out, _, err := run("", "validate", "-f", server.URL+"/in-place.yaml", "-o", "github")
	require.ErrorIs(t, err, errNo)
	require.Regexp(t, `^::error title=vpa-gates/in-place::web/shop: `, out)
	out, _, err = run("", "validate", "-f", server.URL+"/in-place.yaml", "-o", "junit")
	require.ErrorIs(t, err, errNo)
	require.Contains(t, out, `<testsuite name="`+server.URL+`/in-place.yaml" tests=`)
	_, _, err = run("", "list", "-f", server.URL+"/none.yaml")
	require.EqualError(t, err, "cannot read "+server.URL+"/none.yaml: the server answers 404 Not Found")
}
