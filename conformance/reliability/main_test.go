// Package reliability runs celvpa on a control plane that fails, and asserts that nothing is lost and that no pod is
// disrupted that should not be. It brings up a lab of its own; with -short it prints why it does not run.
package reliability

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/celvpa/celvpa/conformance/harness"
)

// Shared by all tests: one lab, one admission controller, and the users of the components.
var (
	lab       *harness.Lab
	cluster   *harness.Cluster
	celvpa    string // the program
	logs      string // folder of the logs of processes
	admission *program
	users     = map[string]*harness.Account{} // by component
)

func TestMain(m *testing.M) {
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	if testing.Short() {
		fmt.Println("reliability: not run with -short, because it needs a lab; use make test-lab")
		os.Exit(0)
	}
	harness.AtLeastParallel(12)
	code, err := withLab(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "reliability:", err)
		code = 1
	}
	os.Exit(code)
}

func withLab(m *testing.M) (code int, err error) {
	ctx := context.Background()
	root, err := harness.Root()
	if err != nil {
		return 1, err
	}
	logs = filepath.Join(root, "bin", "reliability")
	if celvpa, err = harness.Build(ctx); err != nil {
		return 1, err
	}
	name := "reliability"
	if own := os.Getenv("LAB_NAME"); own != "" { // parallel runs need different names
		name = own
	}
	if lab, err = harness.Fresh(ctx, name, os.Stdout, "-nodes", "6", "-metrics-server=false"); err != nil {
		return 1, err
	}
	defer func() {
		if admission != nil {
			_ = admission.Stop()
		}
		if downErr := lab.Down(ctx, os.Stdout); downErr != nil {
			fmt.Fprintln(os.Stderr, "reliability:", downErr)
		}
	}()
	if cluster, err = harness.Connect(lab.Kubeconfig); err != nil {
		return 1, err
	}
	if err := cluster.InstallCRDs(ctx, false); err != nil {
		return 1, err
	}
	pods, err := cluster.NewAnnotated(ctx)
	if err != nil {
		return 1, err
	}
	if err := cluster.ServeUsage(ctx, pods.Usage); err != nil {
		return 1, err
	}
	everything := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}, {NonResourceURLs: []string{"*"}, Verbs: []string{"*"}}}
	for _, component := range []string{"recommender", "updater"} {
		if users[component], err = cluster.NewAccount(ctx, component, "reliability-", everything); err != nil {
			return 1, err
		}
	}
	if err := startAdmission(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// startAdmission starts the admission controller of all tests, which no proxy comes between.
func startAdmission(ctx context.Context) error {
	args, address, err := harness.LocalWebhookArgs("127.0.0.1")
	if err != nil {
		return err
	}
	admission = &program{}
	admission.Celvpa, err = harness.Start(celvpa, address, filepath.Join(logs, "admission-controller.log"), append([]string{"admission-controller", "--kubeconfig=" + lab.Kubeconfig, "--status-lease-update-interval=1s"}, args...), admission.Add)
	if err != nil {
		return err
	}
	return admission.WaitReady(ctx)
}
