// Package poddefaults fills in the resources of pods and LimitRanges as API servers of Kubernetes
// 1.37 do, for commands that have manifests and no cluster. conformance/lab/judge compares the two.
package poddefaults

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Create does to a new pod all that an API server does before it stores it, except webhooks. The
// LimitRanges are those of its namespace, completed by LimitRange.
func Create(pod *corev1.Pod, ranges []corev1.LimitRange) {
	BeforeWebhooks(pod, ranges)
	PodLevel(&pod.Spec)
}

// Running completes a running pod as an API server does, except from LimitRanges, which may be
// younger than the pod. A pod from an API server has complete pod-level resources; one written by
// hand is completed.
func Running(pod *corev1.Pod) {
	BeforeWebhooks(pod, nil)
	if stored := pod.UID != "" || pod.ResourceVersion != ""; !stored {
		PodLevel(&pod.Spec)
	}
}

// BeforeWebhooks does what an API server does to a new pod before it asks webhooks: amounts are
// rounded up to thousandths, what has a limit and no request requests its limit, and the
// LimitRanges of the namespace give containers and init containers what they lack, in the order of
// their names. In a cluster that order is left to chance.
//
// Pod-level resources stay unchanged: API servers complete them after the webhooks, from 1.37 on.
func BeforeWebhooks(pod *corev1.Pod, ranges []corev1.LimitRange) {
	requests, limits := OfContainers(ranges)
	if own := pod.Spec.Resources; own != nil {
		own.Requests, own.Limits = thousandths(own.Requests), thousandths(own.Limits)
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			r := &list[i].Resources
			r.Requests, r.Limits = thousandths(r.Requests), thousandths(r.Limits)
			r.Requests = filledIn(r.Requests, r.Limits)
			r.Requests, r.Limits = filledIn(r.Requests, requests), filledIn(r.Limits, limits)
		}
	}
}

// OfContainers are the defaults that LimitRanges have for containers: those of the first by name
// that has one. Of several items of one the last counts.
func OfContainers(ranges []corev1.LimitRange) (requests, limits corev1.ResourceList) {
	sorted := slices.Clone(ranges)
	slices.SortStableFunc(sorted, func(a, b corev1.LimitRange) int { return cmp.Compare(a.Name, b.Name) })
	for i := range sorted {
		ofRequests, ofLimits := corev1.ResourceList{}, corev1.ResourceList{}
		for j := range sorted[i].Spec.Limits {
			if item := &sorted[i].Spec.Limits[j]; item.Type == corev1.LimitTypeContainer {
				maps.Copy(ofRequests, item.DefaultRequest)
				maps.Copy(ofLimits, item.Default)
			}
		}
		requests, limits = filledIn(requests, ofRequests), filledIn(limits, ofLimits)
	}
	return requests, limits
}

// LimitRange adds the defaults that API servers add to a stored LimitRange: containers get the
// maximum as their limit, and that limit, else the minimum, as their request.
func LimitRange(r *corev1.LimitRange) {
	for i := range r.Spec.Limits {
		item := &r.Spec.Limits[i]
		for _, list := range []*corev1.ResourceList{&item.Min, &item.Max, &item.Default, &item.DefaultRequest, &item.MaxLimitRequestRatio} {
			*list = thousandths(*list)
		}
		if item.Type == corev1.LimitTypeContainer {
			item.Default = filledIn(item.Default, item.Max)
			item.DefaultRequest = filledIn(filledIn(item.DefaultRequest, item.Default), item.Min)
		}
	}
}

// filledIn is a list with what it lacks of another one. Neither is changed.
func filledIn(list, others corev1.ResourceList) corev1.ResourceList {
	out := list
	for name, q := range others {
		if _, there := list[name]; there {
			continue
		}
		if len(out) == len(list) {
			if out = maps.Clone(list); out == nil {
				out = corev1.ResourceList{}
			}
		}
		out[name] = q.DeepCopy()
	}
	return out
}

// thousandths is a list with its amounts as API servers store them: nothing is finer.
func thousandths(list corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(list)
	for name, q := range out {
		if q = q.DeepCopy(); !q.RoundUp(resource.Milli) {
			out[name] = q
		}
	}
	return out
}
