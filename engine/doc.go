// Package engine runs policy declared in files. It knows nothing of pods, autoscaling or the
// Kubernetes API: a host describes its world in a registry.
//
// A rule file passes through these packages; each imports only packages above it:
//
//	faults            several errors reported as one, and unknown names
//	source            positions and problems in files
//	lang              types and values of the rule language
//	bounds            amounts chosen within bounds
//	internal/closure  expressions as Go closures
//	registry          what a host declares: units, functions, points, facts
//	document          rule sets, pipelines, overlays and test tables as written
//	internal/inline   definitions in place of their calls
//	internal/resolve  overlays applied to a pipeline
//	engine            plans: run stages, decide, validate, trace
//	compile           documents to plans; the rulebook of all plans
//	ruletest          test tables
//
// A host fills a registry.Registry, loads a document.Library, builds a compile.Rulebook from both,
// asks it for an object's plan, binds facts, and calls Plan.RunStages, Plan.Decide or
// Plan.Validate. These are pure functions of the facts: no clock, no client, no global state.
// Rulebooks and plans are safe for concurrent use; facts belong to one goroutine.
package engine
