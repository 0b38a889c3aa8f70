// Package engine is a generic policy engine: it loads rule sets, pipelines and overlays written in YAML and CEL,
// type-checks and compiles them into immutable Plans, and runs those over facts.
//
// The flow is Loader.Load (layers of files to a Library), NewRulebook (a Library and a Registry of points to all the plans
// that pipelines and overlays make possible), Rulebook.For (the plan of an object), then Plan.RunStages, Plan.Decide and
// Plan.Validate, which are pure functions of the facts they are given: no clock, no client and no global state. Rulebooks
// and plans are safe for concurrent use; Facts are not. A Runner runs a Library's test tables through the same
// functions.
//
// CEL parses and type-checks expressions. In between, axes are taken out of them: a stage is compiled once for each value
// (axis.go, axisrewrite.go). Expressions then become trees of Go closures over unboxed values (code.go), with what is known
// beforehand folded in; Plan.Specialize folds more. Expressions with constructs that have no code of their own, such as
// maps, are evaluated by CEL. Either way they give the same: Plan.Interpreted is the reference.
//
// What may not live here: anything about pods, containers, autoscaling or the Kubernetes API. A host
// describes its world through a Registry: units, types, functions, and the points at which rules plug in.
package engine
