// Package engine runs policy that is declared in files. It knows nothing of pods, autoscaling or the
// Kubernetes API: a host describes its world in a registry.
//
// The way of a rule file leads through the packages below, each of which imports only those before it:
//
//	faults            several errors reported as one
//	source            positions in files, and problems there
//	lang              types and values of the rule language
//	internal/closure  expressions as Go closures
//	registry          what a host declares: units, functions, points, facts
//	document          rule sets, pipelines, overlays and test tables as written
//	internal/resolve  overlays laid over a pipeline
//	engine            plans, and what they do: run stages, decide, validate, trace
//	compile           from documents to plans; the rulebook of all plans
//	ruletest          test tables
//
// A host fills a registry.Registry, loads a document.Library, makes a compile.Rulebook of both, asks it
// for the plan of an object, binds facts, and calls Plan.RunStages, Plan.Decide or Plan.Validate. These
// are pure functions of the facts: no clock, no client, no global state. Rulebooks and plans are safe
// for concurrent use; facts belong to one goroutine.
package engine
