// Package policy loads the rules and keeps the compiled plan that every component runs. It joins the engine, the
// facts, the shipped rules and the CRD; nothing is decided here.
package policy

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/crds"
	"github.com/celvpa/celvpa/crds/schema"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/rules"
)

const vpaManifest = "autoscaling.k8s.io_verticalpodautoscalers.yaml"

// Options say where the rules come from and what is fixed for them.
type Options struct {
	// Dir is a folder with rule files that replaces the shipped ones; empty = the shipped ones.
	Dir string
	// Pipeline is name or name@version; empty = rules.DefaultPipeline.
	Pipeline string
	// Gates switches feature gates.
	Gates map[string]bool
	// Params overrides rule parameters, keyed "ruleset.param".
	Params map[string]string
}

// Registry returns what the engine knows about vertical pod autoscaling.
func Registry() (*engine.Registry, error) {
	manifests, err := crds.Manifests()
	if err != nil {
		return nil, err
	}
	objects, err := schema.New(manifests[vpaManifest], "v1")
	if err != nil {
		return nil, err
	}
	return facts.NewRegistry(objects), nil
}

// Shipped loads the rules that are part of the program.
func Shipped() (*engine.Library, error) { return engine.Load(rules.FS, rules.Dir) }

func checkDir(dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("--rules-dir %s is not a folder that can be read", dir)
	}
	return nil
}

// Rules are rule files that were read, with all that is needed to compile them.
type Rules struct {
	Library *engine.Library

	registry *engine.Registry
	options  Options
}

// Open reads the rule files. The error lists every fault with its position.
func Open(o Options) (*Rules, error) {
	var files fs.FS = rules.FS
	dir := rules.Dir
	if o.Dir != "" {
		if err := checkDir(o.Dir); err != nil {
			return nil, err
		}
		files, dir = os.DirFS(o.Dir), o.Dir
	}
	library, err := engine.Load(files, dir)
	if err != nil {
		return nil, err
	}
	registry, err := Registry()
	if err != nil {
		return nil, err
	}
	if o.Pipeline == "" {
		o.Pipeline = rules.DefaultPipeline
	}
	return &Rules{Library: library, registry: registry, options: o}, nil
}

// Compile makes the plan. The error lists every fault with its position.
func (r *Rules) Compile() (*engine.Plan, error) {
	o := r.options
	return engine.Compile(r.Library, r.registry, engine.CompileOptions{Pipeline: o.Pipeline, Gates: o.Gates, Params: o.Params})
}

// Load reads and compiles the rules.
func Load(o Options) (*engine.Plan, error) {
	r, err := Open(o)
	if err != nil {
		return nil, err
	}
	return r.Compile()
}
