package facts

import (
	"strings"

	autoscaling "k8s.io/api/autoscaling/v1"

	"github.com/celvpa/celvpa/engine/lang"
)

// Target is what is known of the target of a VPA besides the targetRef. The zero Target is one of
// which nothing is known, as in the webhook.
type Target struct {
	APIVersion     string   // of its manifest; empty = unknown
	Containers     []string // of its pod template; nil = unknown
	InitContainers []string
	Unlabelled     bool     // its pod template has no labels
	Unselected     bool     // it has no selector, which API servers require, and is no patch
	BackoffLimit   *int32   // of a Job, or of the Jobs of a CronJob
	Owner          string   // that controls it, e.g. Deployment web; empty = none, or unknown
	OwnerScales    *bool    // the owner is well known or has a scale subresource; nil = unknown
	Scales         *bool    // its kind is well known or has a scale subresource; nil = unknown
	Elsewhere      []string // other namespaces with an object of its kind and name, if its own has none
}

// builtIn are the kinds of targets that need no scale subresource, with their apiVersion.
var builtIn = map[string]string{
	"CronJob": "batch/v1", "DaemonSet": "apps/v1", "Deployment": "apps/v1", "Job": "batch/v1", "ReplicaSet": "apps/v1",
	"ReplicationController": "v1", "StatefulSet": "apps/v1",
}

// builtInKind is the kind of Kubernetes' own that a targetRef means, in any case or in the plural.
func builtInKind(written string) (kind string, ok bool) {
	if builtIn[written] != "" {
		return written, true
	}
	for kind := range builtIn {
		if strings.EqualFold(written, kind) || strings.EqualFold(written, kind+"s") {
			return kind, true
		}
	}
	return "", false
}

// namedTarget is a targetRef with what is known of the object.
type namedTarget struct {
	*autoscaling.CrossVersionObjectReference
	known    Target
	policies []*lang.Record // of its containers
}

var targetSchema = lang.Bind("Target",
	lang.TextIf("kind", "the kind of Kubernetes' own that targetRef.kind means, in any case or in the plural; unset for other kinds",
		func(t namedTarget) (string, bool) { return builtInKind(t.Kind) }),
	lang.TextIf("apiVersion", "the apiVersion of that kind", func(t namedTarget) (string, bool) {
		kind, ok := builtInKind(t.Kind)
		return builtIn[kind], ok
	}),
	lang.TextIf("writtenAs", "the apiVersion of its manifest", func(t namedTarget) (string, bool) { return t.known.APIVersion, t.known.APIVersion != "" }),
	lang.TextsFrom("containers", "of its pod template, without those that webhooks inject", func(t namedTarget) []string { return t.known.Containers }),
	lang.TextsFrom("initContainers", "of its pod template, sidecars among them; set with containers", func(t namedTarget) []string {
		if t.known.Containers == nil {
			return nil
		}
		return append([]string{}, t.known.InitContainers...)
	}),
	lang.RecordsFrom("policies", scopeSchema.Schema, "what the policies of its containers let the VPA set, in the order of containers",
		func(t namedTarget) []*lang.Record { return t.policies }),
	lang.BoolFrom("unlabelled", "its pod template has no labels", func(t namedTarget) bool { return t.known.Unlabelled }),
	lang.BoolFrom("unselected", "it has no selector, which API servers require", func(t namedTarget) bool { return t.known.Unselected }),
	lang.IntIf("backoffLimit", lang.Int, "of a Job, or of the Jobs of a CronJob", func(t namedTarget) (int32, bool) { return given(t.known.BackoffLimit) }),
	lang.TextIf("owner", "what controls it, e.g. Deployment web", func(t namedTarget) (string, bool) { return t.known.Owner, t.known.Owner != "" }),
	lang.BoolIf("ownerScales", "the owner is of a kind of Kubernetes' own, or has a scale subresource", func(t namedTarget) (bool, bool) { return given(t.known.OwnerScales) }),
	lang.BoolIf("scales", "it is of a kind of Kubernetes' own, or its kind has a scale subresource", func(t namedTarget) (bool, bool) { return given(t.known.Scales) }),
	lang.TextsFrom("elsewhere", "other namespaces that have an object of its kind and name, if its own has none",
		func(t namedTarget) []string { return t.known.Elsewhere }))

// targetOf binds a targetRef, which may be nil.
func targetOf(ref *autoscaling.CrossVersionObjectReference, known Target, policies []*lang.Record) *lang.Record {
	if ref == nil {
		ref = &autoscaling.CrossVersionObjectReference{}
	}
	return targetSchema.Of(namedTarget{ref, known, policies})
}
