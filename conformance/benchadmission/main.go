// Command benchadmission is what `make bench-admission` runs: on a lab of its own it creates VerticalPodAutoscalers as
// `kubectl apply --server-side` does, with celvpa's webhook and without, and tells how long that takes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/webhook"
)

type settings struct {
	lab                     string
	objects, workers, turns int
}

func main() {
	var s settings
	flag.StringVar(&s.lab, "lab", "bench-admission", "name of the lab")
	flag.IntVar(&s.objects, "objects", 1000, "how many objects are created in a turn")
	flag.IntVar(&s.workers, "workers", 10, "how many are created at a time, over one connection")
	flag.IntVar(&s.turns, "turns", 2, "how often it is measured each way, in turns; the best turn of each counts")
	flag.Parse()
	ctrllog.SetLogger(logr.Discard()) // the client library has nothing to say here
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "bench-admission:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) (err error) {
	program, err := harness.Build(ctx)
	if err != nil {
		return err
	}
	lab, err := harness.Up(ctx, s.lab, os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Down(context.WithoutCancel(ctx), os.Stderr)) }()
	cluster, err := harness.ConnectWith(lab.Kubeconfig, func(c *rest.Config) { c.QPS = -1 })
	if err != nil {
		return err
	}
	if err := cluster.InstallCRDs(ctx, false); err != nil {
		return err
	}
	b := &bench{settings: s, Cluster: cluster, program: program, kubeconfig: lab.Kubeconfig}
	if _, err := b.measure(ctx); err != nil { // once to get warm
		return err
	}
	var without, with result
	for range s.turns {
		if without, err = b.better(ctx, "without the webhook", without); err != nil {
			return err
		}
		end, err := b.startWebhook(ctx)
		if err != nil {
			return err
		}
		with, err = b.better(ctx, "with the webhook   ", with)
		if err = errors.Join(err, end()); err != nil {
			return err
		}
	}
	fmt.Printf("with the webhook it takes %.2f times as long\n", with.total.Seconds()/without.total.Seconds())
	return nil
}

type bench struct {
	settings
	*harness.Cluster
	program, kubeconfig string
	turn                int
}

// result is how long one turn took.
type result struct {
	total time.Duration
	each  []time.Duration // sorted
}

// better measures, prints, and returns the better result.
func (b *bench) better(ctx context.Context, what string, before result) (result, error) {
	r, err := b.measure(ctx)
	if err != nil {
		return r, err
	}
	at := func(part float64) time.Duration {
		return r.each[int(part*float64(len(r.each)-1))].Round(100 * time.Microsecond)
	}
	fmt.Printf("%s  %d objects by %d workers in %s: %.0f a second, p50 %s, p99 %s\n", what, b.objects, b.workers,
		r.total.Round(time.Millisecond), float64(b.objects)/r.total.Seconds(), at(0.5), at(0.99))
	if before.total != 0 && before.total < r.total {
		return before, nil
	}
	return r, nil
}

// measure creates all objects in a namespace, and deletes it.
func (b *bench) measure(ctx context.Context) (r result, err error) {
	b.turn++
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("bench-%d", b.turn)}}
	if err := b.Create(ctx, ns); err != nil {
		return r, err
	}
	r.each = make([]time.Duration, b.objects)
	failed := make([]error, b.objects)
	next := make(chan int)
	var workers sync.WaitGroup
	begin := time.Now()
	for range b.workers {
		workers.Go(func() {
			for i := range next {
				one := time.Now()
				failed[i] = b.Apply(ctx, client.ApplyConfigurationFromUnstructured(object(ns.Name, i)), client.FieldOwner("kubectl"))
				r.each[i] = time.Since(one)
			}
		})
	}
	for i := range b.objects {
		next <- i
	}
	close(next)
	workers.Wait()
	r.total = time.Since(begin)
	slices.Sort(r.each)
	return r, errors.Join(errors.Join(failed...), b.Clean(ctx, ns.Name))
}

// object is what people write: two containers with bounds. Each has a target of its own.
func object(namespace string, i int) *unstructured.Unstructured {
	name := fmt.Sprintf("web-%04d", i)
	bounds := func(cpu, memory string) map[string]any { return map[string]any{"cpu": cpu, "memory": memory} }
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
		"metadata": map[string]any{"namespace": namespace, "name": name, "labels": map[string]any{"app": name}},
		"spec": map[string]any{
			"targetRef":    map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
			"updatePolicy": map[string]any{"updateMode": "InPlaceOrRecreate", "minReplicas": int64(2)},
			"resourcePolicy": map[string]any{"containerPolicies": []any{
				map[string]any{"containerName": "app", "minAllowed": bounds("50m", "64Mi"), "maxAllowed": bounds("4", "8Gi"), "controlledResources": []any{"cpu", "memory"}},
				map[string]any{"containerName": "*", "maxAllowed": bounds("500m", "512Mi"), "controlledValues": "RequestsOnly"},
			}},
		},
	}}
}

// startWebhook starts celvpa's admission controller and waits until it is asked.
func (b *bench) startWebhook(ctx context.Context) (end func() error, err error) {
	args, address, err := harness.LocalWebhookArgs("127.0.0.1")
	if err != nil {
		return nil, err
	}
	root, err := harness.Root()
	if err != nil {
		return nil, err
	}
	args = append([]string{"admission-controller", "--kubeconfig=" + b.kubeconfig}, args...)
	one, err := harness.Start(b.program, address, filepath.Join(root, "bin", "bench-admission", "celvpa.log"), args, nil)
	if err != nil {
		return nil, err
	}
	end = func() error {
		config := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhook.ConfigName}}
		err := client.IgnoreNotFound(b.Delete(context.WithoutCancel(ctx), config))
		return errors.Join(one.Stop(20*time.Second), err)
	}
	if err := one.WaitReady(ctx, 30*time.Second); err != nil {
		return nil, errors.Join(err, end())
	}
	// The webhook gives objects without a mode one: that shows that it is asked.
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		probe := object(metav1.NamespaceDefault, 0)
		unstructured.RemoveNestedField(probe.Object, "spec", "updatePolicy")
		if err := b.Create(ctx, probe, client.DryRunAll); err != nil {
			return false, err
		}
		_, found, err := unstructured.NestedString(probe.Object, "spec", "updatePolicy", "updateMode")
		return found, err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for the webhook to be asked: %w", err), end())
	}
	return end, nil
}
