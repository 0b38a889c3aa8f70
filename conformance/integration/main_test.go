// Package integration runs celvpa against a real Kubernetes control plane and asserts on what the API server holds
// afterwards. It brings up a lab of its own; with -short it prints why it does not run.
package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/celvpa/celvpa/conformance/harness"
)

// Shared by all tests: one lab, and one celvpa for those that serve.
var (
	cluster    *harness.Cluster
	kubeconfig string
	program    string
	celvpa     *harness.Celvpa

	usageOfPods   *harness.Annotated
	metricsServer map[string]any // the Service of the lab's metrics-server, whose place usageOfPods takes
)

// labName is the lab of these tests; parallel runs need different names.
func labName() string {
	if name := os.Getenv("LAB_NAME"); name != "" {
		return name
	}
	return "integration"
}

func TestMain(m *testing.M) {
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	if testing.Short() {
		fmt.Println("integration: not run with -short, because it needs a lab; use make test-lab")
		os.Exit(0)
	}
	harness.AtLeastParallel(12)
	code, err := withLab(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		code = 1
	}
	os.Exit(code)
}

func withLab(m *testing.M) (code int, err error) {
	ctx := context.Background()
	if program, err = harness.Build(ctx); err != nil {
		return 1, err
	}
	lab, err := harness.Fresh(ctx, labName(), os.Stdout)
	if err != nil {
		return 1, err
	}
	kubeconfig = lab.Kubeconfig
	defer func() {
		if celvpa != nil {
			_ = celvpa.Stop()
		}
		if downErr := lab.Down(ctx, os.Stdout); downErr != nil {
			fmt.Fprintln(os.Stderr, "integration:", downErr)
		}
	}()
	if cluster, err = harness.Connect(kubeconfig); err != nil {
		return 1, err
	}
	// Only before the CRDs are installed can a test see what celvpa reports without them.
	if withoutCRDs = runToEnd("run", "--kubeconfig="+kubeconfig); withoutCRDs.err != nil {
		return 1, withoutCRDs.err
	}
	if err := cluster.InstallCRDs(ctx, false); err != nil {
		return 1, err
	}
	if usageOfPods, err = cluster.NewAnnotated(ctx); err != nil {
		return 1, err
	}
	api := &unstructured.Unstructured{}
	api.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	if err := cluster.Get(ctx, client.ObjectKey{Name: "v1beta1.metrics.k8s.io"}, api); err != nil {
		return 1, err
	}
	if metricsServer, _, err = unstructured.NestedMap(api.Object, "spec", "service"); err != nil {
		return 1, err
	}
	if err := cluster.ServeUsage(ctx, usageOfPods.Usage); err != nil {
		return 1, err
	}
	if code = m.Run(); code != 0 && celvpa != nil {
		fmt.Fprintln(os.Stderr, "integration: the log of the shared celvpa is", celvpa.LogFile)
	}
	return code, nil
}

// leading are flags of a process that leads until it is stopped, and then gives the lead back: a busy machine costs it no lead.
var leading = []string{"--leader-elect=true", "--leader-elect-lease-duration=10m", "--leader-elect-renew-deadline=5m"}

// serve runs the shared celvpa, unless it does already, until a test stops it.
func serve(t *testing.T) {
	t.Helper()
	if celvpa != nil && celvpa.Alive() == nil {
		return
	}
	require.NoError(t, startCelvpa(t.Context(), t.Name()+".log"))
}

// startCelvpa starts `celvpa run` with short intervals and leader election, for namespaces that
// begin with "it-". Its log goes to a file of that name in bin/integration.
func startCelvpa(ctx context.Context, log string) error {
	args, address, err := harness.LocalWebhookArgs("127.0.0.1")
	if err != nil {
		return err
	}
	root, err := harness.Root()
	if err != nil {
		return err
	}
	interval, err := harness.Pace(ctx, kubeconfig, 4*time.Second)
	if err != nil {
		return err
	}
	args = append(append(leading, args...), "run", "--kubeconfig="+kubeconfig, "--recommender-interval=2s", "--updater-interval="+interval.String(),
		"--admission-controller-status-lease-timeout=10m", "--leader-elect-resource-name=celvpa-integration", "--ignored-vpa-object-namespaces="+strings.Join(append(ownRecommender, "it-ignored", "it-live"), ","))
	celvpa, err = harness.Start(program, address, filepath.Join(root, "bin", "integration", log), args, nil)
	if err != nil {
		return err
	}
	return celvpa.WaitReady(ctx)
}
