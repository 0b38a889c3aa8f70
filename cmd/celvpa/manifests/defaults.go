package manifests

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DefaultRequests does what an API server does to a new pod before it asks webhooks: amounts are rounded up to thousandths,
// what has a limit and no request requests its limit, and the LimitRanges of the namespace, which come from the Set, give
// containers and init containers what they lack, in the order of their names. In a cluster that order is left to chance.
//
// Resources of the pod as a whole are left as they are: API servers fill them in after the webhooks, from 1.37 on.
func DefaultRequests(pod *corev1.Pod, ranges []corev1.LimitRange) {
	sorted := slices.Clone(ranges)
	slices.SortStableFunc(sorted, func(a, b corev1.LimitRange) int { return cmp.Compare(a.Name, b.Name) })
	if own := pod.Spec.Resources; own != nil {
		own.Requests, own.Limits = thousandths(own.Requests), thousandths(own.Limits)
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			r := &list[i].Resources
			r.Requests, r.Limits = thousandths(r.Requests), thousandths(r.Limits)
			r.Requests = filledIn(r.Requests, r.Limits)
			for j := range sorted {
				requests, limits := ofContainers(&sorted[j])
				r.Requests, r.Limits = filledIn(r.Requests, requests), filledIn(r.Limits, limits)
			}
		}
	}
}

// ofContainers are the defaults that a LimitRange has for containers. Of several items the last one counts.
func ofContainers(r *corev1.LimitRange) (requests, limits corev1.ResourceList) {
	requests, limits = corev1.ResourceList{}, corev1.ResourceList{}
	for i := range r.Spec.Limits {
		if item := &r.Spec.Limits[i]; item.Type == corev1.LimitTypeContainer {
			maps.Copy(requests, item.DefaultRequest)
			maps.Copy(limits, item.Default)
		}
	}
	return requests, limits
}

// defaultLimitRange fills in what API servers do when a LimitRange is stored: containers get the maximum as their limit, and
// that limit, else the minimum, as their request.
func defaultLimitRange(r *corev1.LimitRange) {
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
