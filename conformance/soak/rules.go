package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/conformance/harness"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
)

// rulesChurn changes the rules: files of a copy of the shipped ones, and RuleOverlays.
type rulesChurn struct {
	dir     string
	shipped string // the text of the file that changes
	endFile func() // of rulesBroken; nil = the file is valid
	broken  time.Time
	invalid map[string]func()
}

// changedFile has a param whose default changes; 0.15 is shipped.
const (
	changedFile  = "estimate.yaml"
	changedParam = "marginFraction, type: double, default: 0.15"
)

func newRulesChurn(folder string) (*rulesChurn, error) {
	root, err := harness.Root()
	if err != nil {
		return nil, err
	}
	r := &rulesChurn{dir: filepath.Join(folder, "rules"), invalid: map[string]func(){}}
	if err := os.CopyFS(r.dir, os.DirFS(filepath.Join(root, "rules"))); err != nil {
		return nil, fmt.Errorf("copying the shipped rules: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, changedFile))
	if err != nil {
		return nil, err
	}
	if r.shipped = string(text); !strings.Contains(r.shipped, changedParam) {
		return nil, fmt.Errorf("rules/%s has no %q any more: change conformance/soak/rules.go", changedFile, changedParam)
	}
	return r, nil
}

// write replaces the file at once, as a ConfigMap does.
func (r *rulesChurn) write(value string) error {
	text := strings.Replace(r.shipped, changedParam, strings.TrimSuffix(changedParam, "0.15")+value, 1)
	file := filepath.Join(r.dir, changedFile)
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// changeFile makes the file another valid one, or breaks it until the next change.
func (r *rulesChurn) changeFile(c *churn) error {
	if r.endFile == nil && c.random.IntN(2) == 0 {
		r.endFile, r.broken = c.faults.begin(rulesBroken, ""), time.Now()
		return r.write("much")
	}
	if err := r.write(fmt.Sprintf("0.%d", 10+c.random.IntN(20))); err != nil {
		return err
	}
	r.repaired()
	return nil
}

// brokenFor is how long rules stay broken: a component that starts meanwhile ends at once, as it must.
const brokenFor = 15 * time.Second

// repair makes the file a valid one again when it has been broken for long enough.
func (r *rulesChurn) repair() error {
	if r.endFile == nil || time.Since(r.broken) < brokenFor {
		return nil
	}
	defer r.repaired()
	return r.write("0.15")
}

func (r *rulesChurn) repaired() {
	if r.endFile != nil {
		r.endFile()
	}
	r.endFile = nil
}

// overlays are as many as there are at most.
const overlays = 5

// changeOverlay creates, changes or deletes a RuleOverlay. One that is audited would let evictions break all budgets.
func (r *rulesChurn) changeOverlay(ctx context.Context, c *churn) error {
	number := c.random.IntN(overlays)
	name := fmt.Sprintf("soak-%d", number)
	overlay := &rulesv1alpha1.RuleOverlay{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if c.random.IntN(4) == 0 {
		err := c.remove(ctx, overlay)
		r.valid(name)
		return err
	}
	spec := rulesv1alpha1.RuleOverlaySpec{Mode: "Enforce", Priority: int32(number), Match: &rulesv1alpha1.RuleOverlayMatch{Namespaces: []string{namespaces[c.random.IntN(len(namespaces))]}}}
	params := map[string]apiextensionsv1.JSON{}
	valid := true
	switch c.random.IntN(4) {
	case 0:
		spec.Mode = "Audit"
		params["evictionTolerance"] = apiextensionsv1.JSON{Raw: []byte("1.0")}
		params["minReplicas"] = apiextensionsv1.JSON{Raw: []byte("0")}
	case 1:
		valid = false
		params["estimate.marginFraction"] = apiextensionsv1.JSON{Raw: []byte(`"lots"`)}
	default:
		params["estimate.marginFraction"] = apiextensionsv1.JSON{Raw: fmt.Appendf(nil, "0.%d", 10+c.random.IntN(30))}
	}
	spec.Change = []rulesv1alpha1.Change{{Params: params}}
	overlay.Spec = spec
	if !valid && r.invalid[name] == nil {
		r.invalid[name] = c.faults.begin(overlayInvalid, "")
	}
	if err := try(ctx, func(ctx context.Context) error { return c.cluster.Create(ctx, overlay.DeepCopy()) }); err != nil {
		return err
	}
	if err := update(ctx, c, overlay, func(o *rulesv1alpha1.RuleOverlay) { o.Spec = spec }); err != nil {
		return err
	}
	if valid {
		r.valid(name)
	}
	return nil
}

func (r *rulesChurn) valid(name string) {
	if end := r.invalid[name]; end != nil {
		end()
		delete(r.invalid, name)
	}
}

// calm makes all rules those that are shipped.
func (r *rulesChurn) calm(ctx context.Context, c *churn) error {
	if err := r.write("0.15"); err != nil {
		return err
	}
	r.repaired()
	for i := range overlays {
		name := fmt.Sprintf("soak-%d", i)
		if err := c.remove(ctx, &rulesv1alpha1.RuleOverlay{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
		r.valid(name)
	}
	return nil
}
