// Command soak implements `make soak`: it runs celvpa's components for a long time on a lab of their own, each behind a proxy that
// misbehaves, while everything around them changes, and checks that they stay small, break no budget, log no error that a fault
// does not explain, and that each VPA has what it should have in the end.
//
// faults.go says what goes wrong, churn.go what changes, explained.go which errors a fault explains, component.go how much a component
// may grow. Package watcher judges what the updater did. All that is random follows from a seed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/celvpa/celvpa/conformance/faults"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/conformance/soak/watcher"
)

// options are the flags.
type options struct {
	lab      string
	duration time.Duration
	scale    int
	seed     uint64
}

func main() {
	o := options{}
	flag.StringVar(&o.lab, "lab", "soak", "name of the lab to start")
	flag.DurationVar(&o.duration, "duration", 20*time.Minute, "how long to soak, at least 2m; starting and settling come on top")
	flag.IntVar(&o.scale, "scale", 50, "number of workloads, each with a VPA; 50 suit two cores")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of all that is random; 0 = a new one, which is printed")
	flag.Parse()
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000)
	}
	klog.SetLogger(logr.Discard()) // client-go's own log lines would only hide the progress
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := run(ctx, o)
	if report != nil {
		report.write(os.Stdout)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	case !report.pass():
		os.Exit(1)
	}
}

// say prints to standard error how far the soak is.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// pause waits, and returns false if the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// soak is a run.
type soak struct {
	options    options
	lab        *harness.Lab
	cluster    *harness.Cluster // not behind a proxy
	folder     string           // of logs and rules
	components []*component
	faults     *faultLog
	errors     *errorLog
	usage      *usage
	watch      *watch

	group  errgroup.Group
	cancel context.CancelFunc
}

// minimum is the shortest soak in which growth can be judged.
const minimum = 2 * time.Minute

// run soaks, and cleans up in any case.
func run(ctx context.Context, o options) (_ *report, err error) {
	if o.duration < minimum || o.scale < len(namespaces) {
		return nil, fmt.Errorf("-duration is at least %s, and -scale at least %d", minimum, len(namespaces))
	}
	say("soak of %s with %d workloads; -seed %d repeats it", o.duration, o.scale, o.seed)
	program, err := harness.Build(ctx)
	if err != nil {
		return nil, err
	}
	lab, err := harness.Up(ctx, o.lab, os.Stderr, "-metrics-server=false", fmt.Sprintf("-nodes=%d", 2+o.scale/8))
	if err != nil {
		return nil, err
	}
	if !lab.Ours {
		return nil, fmt.Errorf("lab %s is up already: stop it (make lab-down NAME=%s), or use another name (-lab)", o.lab, o.lab)
	}
	defer func() { err = errors.Join(err, lab.Down(context.WithoutCancel(ctx), os.Stderr)) }()
	s := &soak{options: o, lab: lab, faults: &faultLog{}}
	s.errors = newErrorLog(s.faults)
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	return s.soak(ctx, program)
}

// prepare fills the lab with all but celvpa and workloads.
func (s *soak) prepare(ctx context.Context) (err error) {
	if s.cluster, err = harness.ConnectWith(s.lab.Kubeconfig, func(c *rest.Config) { c.QPS = -1 }); err != nil {
		return err
	}
	root, err := harness.Root()
	if err != nil {
		return err
	}
	s.folder = filepath.Join(root, "bin", s.options.lab)
	if err := errors.Join(os.RemoveAll(s.folder), os.MkdirAll(s.folder, 0o755)); err != nil {
		return err
	}
	return install(ctx, s.cluster)
}

// soak runs everything for the duration, waits until all is well again, stops the components and reports.
func (s *soak) soak(ctx context.Context, program string) (_ *report, err error) {
	running, cancel := context.WithCancel(ctx) // what fails first ends all others
	s.cancel = cancel
	var group sync.WaitGroup // of the components
	defer func() {
		cancel()
		group.Wait()
		if failed := s.group.Wait(); failed != nil {
			err = errors.Join(err, failed)
		}
		for _, c := range s.components {
			err = errors.Join(err, c.proxy.Close())
		}
	}()
	if err := s.observe(running); err != nil {
		return nil, err
	}
	rules, err := newRulesChurn(s.folder)
	if err != nil {
		return nil, err
	}
	churn := &churn{soak: s, random: rand.New(rand.NewPCG(s.options.seed, 1)), slots: make([]*workload, s.options.scale), rules: rules, done: map[string]int{}}
	say("creating %d Deployments with VPAs in %d namespaces", s.options.scale, len(namespaces))
	if err := churn.fill(running); err != nil {
		return nil, err
	}
	if err := s.prepareComponents(running, program, rules.dir); err != nil {
		return nil, err
	}
	components, stopComponents := context.WithCancel(running)
	defer stopComponents()
	for _, c := range s.components {
		group.Go(func() { s.fail(c.run(components)) })
	}
	if err := s.waitReady(running); err != nil {
		return nil, err
	}
	started := time.Now()
	s.disturb(running, churn, started)
	if running.Err() != nil {
		return nil, s.stopped(ctx)
	}
	say("faults and churn are over; waiting until all VPAs have what they should")
	late, err := s.settle(running, churn)
	if err != nil {
		return nil, err
	}
	stopComponents()
	group.Wait()
	s.cancel()
	if err := s.group.Wait(); err != nil {
		return nil, err
	}
	return s.report(started, churn, late)
}

// stopped is the error of a run that did not come to its end; the group has that of what failed.
func (s *soak) stopped(ctx context.Context) error {
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return errors.New("the soak did not come to its end")
}

// fail ends the run with an error.
func (s *soak) fail(err error) {
	if err != nil {
		say("failed: %s", err)
		s.group.Go(func() error { return err })
		s.cancel()
	}
}

// observe starts the watcher and serves usage.
func (s *soak) observe(ctx context.Context) error {
	informers, err := cache.New(s.cluster.Config, cache.Options{Scheme: s.cluster.Scheme()})
	if err != nil {
		return err
	}
	history := watcher.NewHistory()
	if err := history.Follow(ctx, informers); err != nil {
		return err
	}
	s.group.Go(func() error { return informers.Start(ctx) })
	if !informers.WaitForCacheSync(ctx) {
		return errors.New("the watcher's caches were not filled")
	}
	s.watch = newWatch(history, s.faults, harness.TailAudit(s.lab.Kubeconfig))
	s.usage = &usage{pods: informers}
	return s.cluster.ServeUsage(ctx, s.usage.of)
}

// prepareComponents makes the components with their proxies and service accounts.
func (s *soak) prepareComponents(ctx context.Context, program, rules string) error {
	if err := os.Setenv("NAMESPACE", system); err != nil { // as the manifests do
		return err
	}
	for i, args := range componentArgs {
		proxy, err := faults.Start(s.cluster.Config, s.options.seed+uint64(i))
		if err != nil {
			return err
		}
		c := &component{name: args.name, program: program, folder: s.folder, proxy: proxy, heard: s.errors.heard}
		s.components = append(s.components, c)
		secret, err := token(ctx, s.cluster, args.name, s.options.duration)
		if err != nil {
			return err
		}
		kubeconfig := filepath.Join(s.folder, args.name+".kubeconfig")
		if err := proxy.WriteKubeconfig(kubeconfig, clientcmdapi.AuthInfo{Token: secret}); err != nil {
			return err
		}
		c.args = append([]string{args.name, "--kubeconfig=" + kubeconfig, "--rules-dir=" + rules}, append(commonArgs, args.args...)...)
		var webhook []string
		if webhook, c.address, err = harness.LocalWebhookArgs("127.0.0.1"); err != nil {
			return err
		}
		if args.name != admission {
			webhook = []string{"--address=" + c.address}
		}
		c.args = append(c.args, webhook...)
	}
	return nil
}

func (s *soak) waitReady(ctx context.Context) error {
	limit := time.Now().Add(5 * time.Minute)
	for _, c := range s.components {
		for {
			err := c.ready(ctx)
			if err == nil {
				break
			}
			if time.Now().After(limit) || !pause(ctx, 300*time.Millisecond) {
				return err
			}
		}
	}
	return nil
}

// disturb churns, lets faults happen and measures for the duration of the soak, or until something fails.
func (s *soak) disturb(ctx context.Context, churn *churn, started time.Time) {
	whole := ctx
	ctx, cancel := context.WithDeadline(ctx, started.Add(s.options.duration))
	defer cancel()
	var group sync.WaitGroup
	plague := &plague{soak: s, random: rand.New(rand.NewPCG(s.options.seed, 2)), started: started}
	group.Go(func() { s.fail(churn.run(ctx)) })
	group.Go(func() { plague.probe(ctx) })
	group.Go(func() { s.fail(plague.run(ctx, whole)) })
	for _, c := range s.components {
		group.Go(func() {
			for pause(ctx, sampleEvery) {
				c.measure(ctx)
			}
		})
	}
	reported := time.Now()
	for pause(ctx, sampleEvery) {
		if err := s.watch.look(time.Now()); err != nil {
			s.fail(err)
		}
		if time.Since(reported) >= time.Minute {
			reported = time.Now()
			s.progress(started)
		}
	}
	group.Wait()
}

// system is the namespace of celvpa in deploy/manifests. The lab's audit log has the requests of its service accounts.
const system = "celvpa-system"

// install applies what deploy/manifests has beside Deployments, Services and what belongs to them: CRDs, service accounts, their
// permissions, and the registration of the webhook, which is empty.
func install(ctx context.Context, cluster *harness.Cluster) error {
	root, err := harness.Root()
	if err != nil {
		return err
	}
	file := filepath.Join(root, "deploy", "manifests", "celvpa.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	objects, err := harness.Decode(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	wanted := []string{"Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "MutatingWebhookConfiguration", "Lease"}
	for _, o := range objects {
		if !slices.Contains(wanted, o.GetKind()) {
			continue
		}
		err := cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("soak"), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if o.GetKind() == "CustomResourceDefinition" {
			if err := cluster.WaitEstablished(ctx, o.GetName()); err != nil {
				return err
			}
		}
	}
	return nil
}

// token is one of a component's service account, which outlives the soak.
func token(ctx context.Context, cluster *harness.Cluster, component string, duration time.Duration) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "celvpa-" + component}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64((duration + time.Hour).Seconds()))}}
	if err := cluster.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("asking for a token of %s: %w", account.Name, err)
	}
	return request.Status.Token, nil
}
