package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/celvpa/celvpa/controllers/freshness"
	"github.com/celvpa/celvpa/controllers/inspect"
	"github.com/celvpa/celvpa/controllers/listener"
	"github.com/celvpa/celvpa/controllers/ondemand"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/oom"
	"github.com/celvpa/celvpa/controllers/slim"
	"github.com/celvpa/celvpa/controllers/target"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/webhook"
)

// process is what the components of one process share: caches, client, endpoints and the lead.
type process struct {
	*health
	manager  manager.Manager
	pods     slim.Pods        // of the cache
	resolver *target.Resolver // of all components: what one has asked for, the others know
	watches  *freshness.Watches
	lead     *freshness.Lead // nil = without leader election
	explains inspect.Sources
	objects  *ondemand.Objects

	namespace string          // the only one that is served; empty = all
	kinds     []client.Object // that are watched
}

// newProcess connects to the API server and prepares the caches: of VPAs, of the controllers of pods and of what else is read,
// of which a kind may be named more than once. kept is what the caches keep of them.
func newProcess(ctx context.Context, o *options, reads []client.Object, kept map[client.Object]cache.ByObject) (*process, error) {
	p := &process{health: newHealth(clock.RealClock{}), namespace: o.namespace}
	config, err := restConfig(o)
	if err != nil {
		return nil, err
	}
	if err := preflight(ctx, config); err != nil {
		return nil, err
	}
	p.watches = &freshness.Watches{Clock: clock.RealClock{}}
	config.Wrap(p.watches.Wrap)
	if l := o.leader; l.elect {
		p.lead = &freshness.Lead{Clock: clock.RealClock{}, Lease: types.NamespacedName{Namespace: l.resourceNamespace, Name: l.resourceName}, Valid: l.renewDeadline}
		config.Wrap(p.lead.Wrap)
	}
	scheme := clientgoscheme.Scheme // a copy would take half a megabyte
	utilruntime.Must(vpav1.AddToScheme(scheme))
	utilruntime.Must(rulesv1alpha1.AddToScheme(scheme))

	cached := cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: kept, NewInformer: p.pods.Informer}
	cached.ByObject[&corev1.Event{}] = oom.Events()
	if o.namespace != "" {
		cached.DefaultNamespaces = map[string]cache.Config{o.namespace: {}}
	}
	p.manager, err = ctrl.NewManager(config, manager.Options{
		Scheme:                        scheme,
		Cache:                         cached,
		Metrics:                       metricsserver.Options{BindAddress: "0"}, // see serveMetrics
		LeaderElection:                o.leader.elect,
		LeaderElectionID:              o.leader.resourceName,
		LeaderElectionNamespace:       o.leader.resourceNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.leader.leaseDuration,
		RenewDeadline:                 &o.leader.renewDeadline,
		RetryPeriod:                   &o.leader.retryPeriod,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing: %w", err)
	}
	if err := p.serveMetrics(o); err != nil {
		return nil, taken(err)
	}
	discovers, err := discovering(p.manager.GetClient(), config)
	if err != nil {
		return nil, err
	}
	scales := target.NewScales(discovers, clock.RealClock{}, nil)
	p.resolver = &target.Resolver{Client: discovers, Scales: scales}
	if err := p.manager.Add(scales); err != nil {
		return nil, fmt.Errorf("preparing the look-up of custom controllers: %w", err)
	}
	p.kinds = append(target.WatchedKinds(), &vpav1.VerticalPodAutoscaler{})
	p.kinds = append(p.kinds, reads...)
	for _, kind := range p.kinds {
		if _, err := p.manager.GetCache().GetInformer(ctx, kind); err != nil {
			return nil, fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	p.objects = ondemand.New(p.manager.GetCache(), clock.RealClock{}, ctrl.Log.WithName("cache"))
	unreadable := &freshness.Unreadable{Kind: "VerticalPodAutoscaler", Log: ctrl.Log.WithName("cache"),
		Reason: func(o client.Object) string { return o.(*vpav1.VerticalPodAutoscaler).Unreadable() }}
	if err := unreadable.Follow(ctx, p.manager.GetCache(), &vpav1.VerticalPodAutoscaler{}); err != nil {
		return nil, err
	}
	return p, p.manager.Add(afterSync{p.health})
}

// restConfig finds the API server the way kubectl does.
func restConfig(o *options) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no Kubernetes API to talk to: %w; give --kubeconfig, set KUBECONFIG or run in a pod", err)
	}
	config.QPS, config.Burst = o.qps, o.burst
	config.UserAgent = userAgent(o.program)
	return config, nil
}

// preflight fails within seconds where clients would retry endlessly.
func preflight(ctx context.Context, config *rest.Config) error {
	short := rest.CopyConfig(config)
	short.Timeout = 10 * time.Second
	client, err := discovery.NewDiscoveryClientForConfig(short)
	if err != nil {
		return fmt.Errorf("preparing the API client: %w", err)
	}
	if _, err := client.ServerVersion(); err != nil {
		return fmt.Errorf("the Kubernetes API at %s does not answer: %w; check --kubeconfig or KUBECONFIG", config.Host, err)
	}
	resources, err := client.ServerResourcesForGroupVersion(vpav1.GroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("asking %s for %s: %w", config.Host, vpav1.GroupVersion, err)
	}
	found := map[string]bool{}
	if resources != nil {
		for _, r := range resources.APIResources {
			found[r.Name] = true
		}
	}
	for _, name := range []string{"verticalpodautoscalers", "verticalpodautoscalercheckpoints"} {
		if !found[name] {
			return fmt.Errorf("the cluster at %s does not know %s.%s: install the CRDs with `celvpa crd | kubectl apply --server-side -f -`",
				config.Host, name, vpav1.GroupVersion.Group)
		}
	}
	return ctx.Err()
}

// followOverlays makes the rules follow the RuleOverlay objects of the cluster. Where the cluster does not know them, or
// does not let this process read them, as with the permissions that upstream VPA is installed with, the rules are those
// of the files.
func (p *process) followOverlays(ctx context.Context, source *policy.Source, log logr.Logger) (followed bool, err error) {
	list := func(reader client.Reader) policy.ClusterOverlays {
		return func(ctx context.Context) ([]rulesv1alpha1.RuleOverlay, error) {
			var found rulesv1alpha1.RuleOverlayList
			err := reader.List(ctx, &found)
			return found.Items, err
		}
	}
	if followed, err = p.watched(ctx, &rulesv1alpha1.RuleOverlayList{}, &rulesv1alpha1.RuleOverlay{}, log,
		"the cluster has no RuleOverlays: install the CRD with `celvpa crd` to use them",
		"RuleOverlays are not read: allow this process to list and watch ruleoverlays.rules.celvpa.dev to use them"); !followed {
		return false, err
	}
	unreadable := &freshness.Unreadable{Kind: "RuleOverlay", Log: log, Reason: func(o client.Object) string { return o.(*rulesv1alpha1.RuleOverlay).Unreadable }}
	if err := unreadable.Follow(ctx, p.manager.GetCache(), &rulesv1alpha1.RuleOverlay{}); err != nil {
		return false, err
	}
	return true, source.Follow(ctx, list(p.manager.GetAPIReader()), list(p.manager.GetClient()))
}

// watched watches a kind that celvpa can do without. It logs that the cluster does not have the kind, or does not let this
// process read it.
func (p *process) watched(ctx context.Context, list client.ObjectList, object client.Object, log logr.Logger, unknown, forbidden string) (bool, error) {
	err := p.manager.GetAPIReader().List(ctx, list, client.Limit(1), client.InNamespace(p.namespace))
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		log.Info(unknown)
		return false, nil
	case apierrors.IsForbidden(err):
		log.Info(forbidden, "reason", err.Error())
		return false, nil
	case err != nil:
		return false, fmt.Errorf("listing %T: %w", list, err)
	}
	// What may be listed and not watched would never be known, and nothing would start.
	mapping, err := apiutil.GVKForObject(object, p.manager.GetScheme())
	if err != nil {
		return false, err
	}
	resource, err := p.manager.GetRESTMapper().RESTMapping(mapping.GroupKind(), mapping.Version)
	if err != nil {
		return false, fmt.Errorf("finding the resource of %T: %w", object, err)
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: p.namespace, Verb: "watch", Group: resource.Resource.Group, Resource: resource.Resource.Resource,
	}}}
	if err := p.manager.GetClient().Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking whether %s may be watched: %w", resource.Resource.GroupResource(), err)
	}
	if !review.Status.Allowed {
		log.Info(forbidden, "reason", "it may not be watched")
		return false, nil
	}
	if _, err := p.manager.GetCache().GetInformer(ctx, object); err != nil {
		return false, fmt.Errorf("watching %T: %w", object, err)
	}
	p.kinds = append(p.kinds, object)
	return true, nil
}

// outdated says why this process may not evict or resize pods now: it may not lead any more, or not know what there is.
func (p *process) outdated() string {
	if p.lead != nil {
		if lost := p.lead.Lost(); lost != "" {
			return lost
		}
	}
	return p.watches.Behind("pods", "verticalpodautoscalers")
}

// webhookServer adds an HTTPS server.
func (p *process) webhookServer(host string, port int, config *tls.Config, handler http.Handler, log logr.Logger) (*listener.Server, error) {
	server := &listener.Server{Name: "webhook", Address: net.JoinHostPort(host, strconv.Itoa(port)), TLS: config, Handler: handler, Log: log,
		MaxConnections: webhook.MaxConnections, Stopping: p.stopping.Load}
	return server, p.manager.Add(server)
}

// taken names the flags in an error about an address that is taken; other errors stay as they are.
func taken(err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return fmt.Errorf("a port is taken: %w; choose another with --address, --secure-metrics-address, --explain-address or --port", err)
}

// unsyncedAfter is how long caches may take to sync before those that have not are logged.
const unsyncedAfter = 30 * time.Second

// start runs until the context ends and a delay after it, then stops everything in order. While the caches are not filled there
// is nothing to stop in order, and the manager would wait for them.
func (p *process) start(ctx context.Context, delay time.Duration) error {
	running, stop := p.outlive(ctx, delay)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- p.manager.Start(running) }()
	wait := time.NewTicker(unsyncedAfter)
	defer wait.Stop()
	for {
		select {
		case err := <-done:
			return taken(err)
		case <-ctx.Done():
			if p.synced.Load() {
				return <-done
			}
			return nil
		case <-wait.C:
			if p.synced.Load() {
				wait.Stop()
			} else if kinds := p.unsynced(ctx); len(kinds) > 0 {
				ctrl.Log.Error(nil, "waiting for caches to sync: allow this process to list and watch these kinds, or find out why the API server does not answer", "unsynced", kinds)
			}
		}
	}
}

// unsynced lists the kinds whose cache has not synced.
func (p *process) unsynced(ctx context.Context) []string {
	var out []string
	for _, kind := range p.kinds {
		informer, err := p.manager.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil || !informer.HasSynced() {
			out = append(out, reflect.TypeOf(kind).Elem().Name())
		}
	}
	return out
}
