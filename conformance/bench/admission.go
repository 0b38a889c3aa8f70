package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

var admissionBenchmark = benchmark{
	name: "admission", component: "admission-controller", baseline: none,
	about:    "creating VerticalPodAutoscalers with server-side apply, with celvpa's webhook and without (2 minutes)",
	trials:   []string{"apply"},
	defaults: options{programs: list{none, celvpa}, trials: list{"apply"}, vpas: 1000, containers: 1, rounds: 3, parallel: 10},
	prepare: func(ctx context.Context, l *lab) (measurer, error) {
		a := &admissions{l}
		if err := l.populate(ctx); err != nil {
			return nil, err
		}
		_, err := a.applyAll(ctx) // the first time is slower for everybody
		return a, err
	},
}

type admissions struct{ *lab }

func (a *admissions) title(trial string) string {
	return fmt.Sprintf("admission/%s: %d VPAs, %d requests in flight; medians of %d rounds", trial, a.vpas, a.parallel, a.rounds)
}

func (a *admissions) measure(ctx context.Context, p program, _ string) (out []value, err error) {
	if p.ours {
		end, err := a.startWebhook(ctx, p)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	return a.applyAll(ctx)
}

// applyAll applies all VPAs as `kubectl apply --server-side` does, and deletes them.
func (a *admissions) applyAll(ctx context.Context) ([]value, error) {
	took := make([]time.Duration, a.vpas)
	begin := time.Now()
	err := each(ctx, a.parallel, a.vpas, "VerticalPodAutoscalers", func(ctx context.Context, i int) error {
		o, err := manifest(i, vpav1.UpdateModeInPlaceOrRecreate)
		if err != nil {
			return err
		}
		sent := time.Now()
		err = a.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("kubectl"))
		took[i] = time.Since(sent)
		return err
	})
	out := append([]value{{"total", seconds, time.Since(begin).Seconds()}}, latencies(took, time.Since(begin))...)
	for _, namespace := range a.namespaces() {
		err = errors.Join(err, a.DeleteAllOf(ctx, &vpav1.VerticalPodAutoscaler{}, client.InNamespace(namespace)))
	}
	return out, err
}

// manifest is a VPA as in a file.
func manifest(i int, mode vpav1.UpdateMode) (*unstructured.Unstructured, error) {
	v := policyVPA(i, mode)
	v.SetGroupVersionKind(vpav1.GroupVersion.WithKind("VerticalPodAutoscaler"))
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v)
	if err != nil {
		return nil, fmt.Errorf("writing a VerticalPodAutoscaler: %w", err)
	}
	delete(fields, "status")
	return &unstructured.Unstructured{Object: fields}, nil
}

// startWebhook starts celvpa's admission controller and waits until the API server calls it.
func (a *admissions) startWebhook(ctx context.Context, p program) (end func() error, err error) {
	args, address, err := harness.LocalWebhookArgs("127.0.0.1")
	if err != nil {
		return nil, err
	}
	args = append(append(p.args, "--kubeconfig="+a.kubeconfig), args...)
	one, err := harness.Start(p.path, address, filepath.Join(a.folder, "celvpa.log"), args, nil)
	if err != nil {
		return nil, err
	}
	end = func() error {
		registered := &admissionregistrationv1.MutatingWebhookConfiguration{}
		return errors.Join(a.DeleteAllOf(context.WithoutCancel(ctx), registered), one.Stop())
	}
	if err := one.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, end())
	}
	// The webhook sets the mode of objects that have none.
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		probe := vpa(0)
		probe.Namespace = metav1.NamespaceDefault
		err := a.Create(ctx, probe, client.DryRunAll)
		return err == nil && probe.Spec.UpdatePolicy != nil && probe.Spec.UpdatePolicy.UpdateMode != nil, err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for the API server to call the webhook: %w", err), end())
	}
	return end, nil
}
