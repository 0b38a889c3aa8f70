package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// live says which cluster a command reads, with kubectl's flags. It reads one if no manifests are named.
type live struct {
	loading   *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	all       bool // namespaces
	flags     *pflag.FlagSet
	kinds     []schema.GroupVersionKind
	optional  []schema.GroupVersionKind       // see manifests.Reader
	watch     func(what string, done, of int) // nil = nobody watches
}

// What a request may ask of the API server, and for how long.
const (
	liveQPS     = 50
	liveBurst   = 100
	liveTimeout = time.Minute
)

func (l *live) add(cmd *cobra.Command, kinds []schema.GroupVersionKind) {
	l.loading, l.kinds = clientcmd.NewDefaultClientConfigLoadingRules(), kinds
	l.flags = pflag.NewFlagSet("cluster", pflag.ContinueOnError)
	l.flags.StringVar(&l.loading.ExplicitPath, "kubeconfig", "", "file that says how to reach a cluster; empty = that of KUBECONFIG or ~/.kube/config")
	l.flags.BoolVarP(&l.all, "all-namespaces", "A", false, "read all namespaces of the cluster")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	auth, context := names.AuthOverrideFlags, names.ContextOverrideFlags
	context.Namespace.ShortName = "n"
	context.Namespace.Description = "namespace to read; of a cluster, empty = that of the context"
	names.CurrentContext.Description = "context of the kubeconfig to use; empty = the current one"
	auth.Impersonate.Description = "user to impersonate"
	auth.ImpersonateGroups.Description = "group to impersonate; can be repeated"
	clientcmd.BindOverrideFlags(&l.overrides, l.flags, clientcmd.ConfigOverrideFlags{
		AuthOverrideFlags:    clientcmd.AuthOverrideFlags{Impersonate: auth.Impersonate, ImpersonateGroups: auth.ImpersonateGroups},
		ContextOverrideFlags: clientcmd.ContextOverrideFlags{Namespace: context.Namespace},
		CurrentContext:       names.CurrentContext,
	})
	cmd.Flags().AddFlagSet(l.flags)
	completes(cmd, "context", l.contexts)
	completes(cmd, "namespace", l.namespaces)
}

// given is a flag of the cluster that was set, besides others; empty = none.
func (l *live) given(others ...string) (name string) {
	l.flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains(others, f.Name) {
			name = f.Name
		}
	})
	return name
}

func (l *live) config() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(l.loading, &l.overrides)
}

// rest says how to reach the cluster.
func (l *live) rest() (*rest.Config, error) {
	l.loading.Warner = func(error) {} // of files that are not there: the error names them
	config, err := l.config().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("there is no cluster to read: none is in %s; give --kubeconfig and --context", strings.Join(l.loading.GetLoadingPrecedence(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("there is no cluster to read: %w; %sgive --kubeconfig and --context", err, faults.Near(l.overrides.CurrentContext, l.contexts("")))
	}
	config.QPS, config.Burst, config.Timeout, config.UserAgent = liveQPS, liveBurst, liveTimeout, userAgent("celvpa")
	return config, nil
}

// connect returns a client and the namespace to read, empty for all.
func (l *live) connect() (client.Client, string, error) {
	config, err := l.rest()
	if err != nil {
		return nil, "", err
	}
	namespace, _, err := l.config().Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("which namespace to read: %w; give -n", err)
	}
	if l.all {
		namespace = ""
	}
	klog.SetLogger(logr.Discard()) // errors say it all
	scheme := clientgoscheme.Scheme
	utilruntime.Must(vpav1.AddToScheme(scheme))
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, "", fmt.Errorf("preparing the client of %s: %w", config.Host, err)
	}
	c, err = discovering(c, config)
	return c, namespace, err
}

// discovering is a client that knows which kinds have a scale subresource.
func discovering(c client.Client, config *rest.Config) (client.Client, error) {
	asks, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the discovery client of %s: %w", config.Host, err)
	}
	return target.NewDiscovering(c, asks.ServerResourcesForGroupVersionWithContext, clock.RealClock{}), nil
}

// read reads the cluster.
func (l *live) read(ctx context.Context) (*manifests.Set, []string, error) {
	c, namespace, err := l.connect()
	if err != nil {
		return &manifests.Set{}, nil, fmt.Errorf("no manifests are named with -f, and %w; or use -f with a file, a folder, or - for standard input", err)
	}
	return l.readFrom(ctx, c, namespace)
}

func (l *live) readFrom(ctx context.Context, c client.Client, namespace string) (*manifests.Set, []string, error) {
	r := manifests.Reader{Client: c, Namespace: namespace, Optional: l.optional, Watch: l.watch}
	return r.Read(ctx, l.kinds...)
}

// readAll reads all namespaces, unless -n names one. Who may not list VPAs in all of them gets those
// of the context's namespace, and a note.
func (l *live) readAll(ctx context.Context) (*manifests.Set, []string, error) {
	c, namespace, err := l.connect()
	if err != nil {
		return &manifests.Set{}, nil, err
	}
	var notes []string
	if !l.all && l.overrides.Context.Namespace == "" {
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(manifests.VPAKind)
		if err := c.List(ctx, page, client.Limit(1)); apierrors.IsForbidden(err) {
			notes = append(notes, fmt.Sprintf("only namespace %s is read, that of the context: %v; grant list on all namespaces, or name one with -n", namespace, err))
		} else {
			namespace, l.all = "", true
		}
	}
	set, more, err := l.readFrom(ctx, c, namespace)
	return set, append(notes, more...), err
}

// String is what was read, for messages.
func (l *live) String() string {
	if l.all {
		return "any namespace of the cluster"
	}
	namespace, _, _ := l.config().Namespace()
	return "namespace " + namespace + " of the cluster"
}
