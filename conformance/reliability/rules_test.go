package reliability

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/rules"
)

// ruleFiles are shipped ones that the folder of a test holds, in two versions that differ in a description or a default that the
// scene does not depend on.
var ruleFiles = []string{"clock-skew.yaml", "memory-window.yaml", "oom-bump.yaml", "replacements.yaml", "vpa-object.yaml", "estimate.yaml"}

// ruleFile is a rule file in a version.
func ruleFile(t *testing.T, name string, version int) string {
	t.Helper()
	text, err := rules.FS.ReadFile(name)
	require.NoError(t, err)
	switch out := string(text); name {
	case "clock-skew.yaml":
		return strings.Replace(out, "default: 1h", fmt.Sprintf("default: %dh", version), 1)
	case "replacements.yaml":
		return strings.Replace(out, "default: 10m", fmt.Sprintf("default: %dm", 10+version), 1)
	case "estimate.yaml":
		return strings.Replace(out, "lowConfidence, type: double, default: 1", fmt.Sprintf("lowConfidence, type: double, default: 0.%d", version), 1)
	default:
		return fmt.Sprintf("# version %d\n%s", version, out)
	}
}

// together is one rule folder for all components.
type together struct {
	t        *testing.T
	programs map[string]*program
}

var digestInForce = regexp.MustCompile(`celvpa_rules_info\{digest="([0-9a-f]+)",pipeline="default"`)

// digests are those that the components have in force.
func (r *together) digests() (out map[string]bool, err error) {
	out = map[string]bool{}
	for component, p := range r.programs {
		text, err := harness.Get(context.Background(), "http://"+p.Address+"/metrics")
		found := digestInForce.FindAllStringSubmatch(text, -1)
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("%s has %d digests in force: %w", component, len(found), err)
		}
		out[found[0][1]] = true
	}
	return out, nil
}

// all is the one digest that all components have in force.
func (r *together) all(but string) (digest string) {
	r.t.Helper()
	hang.Eventually(r.t, "one digest in force in all components", func(context.Context) (bool, error) {
		found, err := r.digests()
		for digest = range found {
		}
		return len(found) == 1 && digest != but, err
	})
	return digest
}

// TestRulesThatAreSwappedHalfWay under all components: each has the rules of before or those of after, whole, whatever the files
// are like meanwhile.
func TestRulesThatAreSwappedHalfWay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "rules")
	put := func(into string, version int) {
		require.NoError(t, os.MkdirAll(into, 0o755))
		for _, name := range ruleFiles {
			require.NoError(t, os.WriteFile(filepath.Join(into, name), []byte(ruleFile(t, name, version)), 0o644))
		}
	}
	link := func(to string) {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, "next")))
		require.NoError(t, os.Rename(filepath.Join(dir, "next"), folder))
	}
	first := func(name string) { // a folder with version 1, which takes the place of the one before at once
		put(filepath.Join(dir, name), 1)
		link(name)
	}
	first("one")

	s := newStage(t, "rel-rules", nil)
	flags := []string{"--rules-dir=" + folder, "--rules-reload-interval=1s"}
	s.recommender, s.updater = s.start("recommender", flags...), s.start("updater", flags...)
	r := &together{t, map[string]*program{"recommender": s.recommender, "updater": s.updater, "admission-controller": s.unregistered(flags...)}}
	s.haveRecommendations("web", "inplace", "off", "fitting")
	one := r.all("")

	// Every digest that a component ever has in force.
	seen := map[string]bool{}
	var faults []error
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			found, err := r.digests()
			maps.Copy(seen, found)
			if err != nil {
				faults = append(faults, err)
			}
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	s.begin()

	put(filepath.Join(dir, "two"), 2)
	link("two")
	two := r.all(one)
	// Back to version 1, file by file. Some file is cut off until the last is whole, so that no reading is of a valid mix, however
	// long a write may take here; TestFilesThatAreReplacedOneByOneAreNeverMixed has those.
	for _, part := range []func(text string) string{func(text string) string { return text[:len(text)/2] + "\n- {" }, strings.Clone} {
		for _, name := range ruleFiles {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(part(ruleFile(t, name, 1))), 0o644))
			goesOn(t, 25*time.Millisecond)
		}
	}
	require.Equal(t, one, r.all(two))

	for name, spoiled := range map[string]struct {
		spoil func(file string)
		says  string
	}{
		"cut off": {func(file string) { require.NoError(t, os.Truncate(file, 333)) }, folder + "/estimate.yaml:"},
		"empty":   {func(file string) { require.NoError(t, os.Truncate(file, 0)) }, folder + "/estimate.yaml:1:1: the file is empty"},
		"not readable": {func(file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Symlink("nowhere", file))
		}, folder + "/estimate.yaml:1:1: the file cannot be read"},
		"a missing folder": {func(string) { require.NoError(t, os.Remove(folder)) }, "cannot read " + folder + ": no such file or directory"},
	} {
		spoiled.spoil(filepath.Join(folder, "estimate.yaml"))
		for component, p := range r.programs {
			hang.Eventually(t, component+" to say what is wrong: "+name, func(context.Context) (bool, error) {
				return p.Says("the last good ones stay in force", spoiled.says), nil
			})
			require.Positive(t, harness.Metric(p.Address, `celvpa_rules_reload_total{result="error"}`))
		}
		found, err := r.digests()
		require.NoError(t, err, name)
		require.Equal(t, map[string]bool{one: true}, found, name)
		first("after " + name)
	}
	put(filepath.Join(dir, "three"), 2)
	link("three")
	require.Equal(t, two, r.all(one))
	close(done)
	<-stopped
	require.Empty(t, faults)
	require.Equal(t, map[string]bool{one: true, two: true}, seen, "never a mix")
	s.ends()
	s.losesNothing()
}

// unregistered runs an admission controller that API servers do not know.
func (s *scene) unregistered(flags ...string) *program {
	s.t.Helper()
	args, address, err := harness.LocalWebhookArgs("127.0.0.1")
	require.NoError(s.t, err)
	p := &program{}
	p.Celvpa, err = harness.Start(celvpa, address, logOf(s.t, s.ns+"-admission-controller"), append(append([]string{"admission-controller", "--kubeconfig=" + lab.Kubeconfig, "--register-webhook=false",
		"--vpa-object-namespace=" + s.ns, "--status-lease-name=" + s.ns}, args...), flags...), p.Add)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = p.Stop() })
	require.NoError(s.t, p.WaitReady(s.t.Context()))
	return p
}
