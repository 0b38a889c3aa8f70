// Command quickstart implements `make run`: it starts a lab (or uses $KUBECONFIG), installs the
// CRDs, starts celvpa, applies examples/quickstart and narrates what happens.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/webhook"
)

const namespace = "celvpa-quickstart"

type settings struct {
	once           bool
	deadline       time.Duration
	labName        string
	webhookAddress string
	rulesDir       string
}

func main() {
	var s settings
	flag.BoolVar(&s.once, "once", false, "stop with 0 as soon as all three milestones were seen, with 1 when nothing happens until the deadline")
	flag.DurationVar(&s.deadline, "deadline", 5*time.Minute, "how long -once waits for the next step; a slow machine takes its time for each")
	flag.StringVar(&s.labName, "lab", "celvpa", "name of the lab to use or start when KUBECONFIG is not set")
	flag.StringVar(&s.webhookAddress, "webhook-address", "127.0.0.1", "host by which the API server reaches this machine")
	flag.StringVar(&s.rulesDir, "rules-dir", "", "folder with rule files to use instead of the shipped ones")
	flag.Parse()
	ctrllog.SetLogger(logr.Discard()) // silence the client library

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, s)
	switch {
	case err == nil:
	case errors.Is(err, errMissed):
		fmt.Println(err)
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(2)
	}
}

// errMissed: nothing happened until the deadline.
var errMissed = errors.New("nothing has happened any more, and not everything was seen")

func run(ctx context.Context, s settings) (err error) {
	say("building        celvpa from this working tree")
	program, err := harness.Build(ctx)
	if err != nil {
		return err
	}
	api, err := findAPIServer(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.down()) }()
	cluster, err := harness.Connect(api.kubeconfig)
	if err != nil {
		return err
	}
	if err := refuseToReplace(ctx, cluster); err != nil {
		return err
	}
	say("installing      the CRDs of autoscaling.k8s.io/v1")
	if err := cluster.InstallCRDs(ctx, api.foreign); err != nil {
		return err
	}
	root, err := harness.Root()
	if err != nil {
		return err
	}
	example := filepath.Join(root, "examples", "quickstart")
	story := newStory(cluster, filepath.Join(example, "vpa.yaml"))
	api.started = true
	address, err := explainAddress(api.foreign)
	if err != nil {
		return err
	}
	celvpa, err := startCelvpa(ctx, s, program, api.kubeconfig, address, story)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := celvpa.Stop(); stopErr != nil {
			err = errors.Join(err, fmt.Errorf("stopping celvpa: %w", stopErr))
		} else {
			say("stopped         celvpa")
		}
	}()
	say("applying        examples/quickstart/deployment.yaml: 2 pods of 2 containers whose usage rises and falls every minute")
	say("waiting         for metrics-server to see their usage, about 30 s")
	if err := cluster.ApplyFiles(ctx, filepath.Join(example, "namespace.yaml"), filepath.Join(example, "deployment.yaml")); err != nil {
		return err
	}
	if address != "" {
		if err := publish(ctx, cluster, address); err != nil {
			return err
		}
	}
	return follow(ctx, s, story, celvpa, func() error { return showWhy(ctx, program, api.kubeconfig) })
}

type apiServer struct {
	kubeconfig string
	foreign    bool         // the user's own cluster
	lab        *harness.Lab // nil unless we started it
	started    bool         // celvpa was started, so clean up
}

// findAPIServer uses the cluster of KUBECONFIG, or finds or starts the lab.
func findAPIServer(ctx context.Context, s settings) (*apiServer, error) {
	if path := os.Getenv("KUBECONFIG"); path != "" {
		api := &apiServer{kubeconfig: filepath.SplitList(path)[0], foreign: true}
		say("using           the cluster of KUBECONFIG=%s; celvpa serves namespace %s only", api.kubeconfig, namespace)
		return api, nil
	}
	lab, err := harness.Up(ctx, s.labName, os.Stdout)
	if err != nil {
		return nil, err
	}
	api := &apiServer{kubeconfig: lab.Kubeconfig}
	if lab.Ours {
		api.lab = lab
	} else {
		say("using           lab %s, which was up before and stays up", s.labName)
	}
	return api, nil
}

// down stops the lab, or deletes our objects from a foreign cluster.
func (a *apiServer) down() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if a.lab != nil {
		return a.lab.Down(ctx, os.Stdout)
	}
	if !a.started {
		return nil
	}
	cluster, err := harness.Connect(a.kubeconfig)
	if err != nil {
		return err
	}
	say("deleting        namespace %s, the webhook registration and the status lease; the CRDs stay", namespace)
	return cluster.Clean(ctx, namespace,
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhook.ConfigName}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: namespace}})
}

// ownLabel marks this command's webhook registration.
const ownLabel = "celvpa-quickstart"

// refuseToReplace protects the webhook registration of another VPA in the cluster.
func refuseToReplace(ctx context.Context, cluster *harness.Cluster) error {
	var config admissionregistrationv1.MutatingWebhookConfiguration
	err := cluster.Get(ctx, client.ObjectKey{Name: webhook.ConfigName}, &config)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("looking for another VPA in the cluster: %w", err)
	case config.Labels[ownLabel] == "":
		return fmt.Errorf("the cluster has a VPA already: MutatingWebhookConfiguration %s exists and is not of this command; "+
			"use a lab (unset KUBECONFIG) or another cluster", webhook.ConfigName)
	}
	return nil
}

func startCelvpa(ctx context.Context, s settings, program, kubeconfig, explain string, story *story) (*harness.Celvpa, error) {
	root, err := harness.Root()
	if err != nil {
		return nil, err
	}
	args, address, err := harness.LocalWebhookArgs(s.webhookAddress)
	if err != nil {
		return nil, err
	}
	args = append([]string{"run", "--kubeconfig=" + kubeconfig, "--vpa-object-namespace=" + namespace,
		"--recommender-interval=5s", "--updater-interval=5s", "--webhook-labels=" + ownLabel + ":true",
		"--status-lease-name=" + namespace, "--admission-controller-status-lease-name=" + namespace}, args...)
	if explain != "" {
		args = append(args, "--explain-address="+explain)
	}
	if s.rulesDir != "" {
		args = append(args, "--rules-dir="+s.rulesDir)
	}
	say("starting        celvpa %s", strings.Join(args, " "))
	logFile := filepath.Join(root, "bin", "quickstart", "celvpa.log")
	celvpa, err := harness.Start(program, address, logFile, args, story.heard)
	if err != nil {
		return nil, err
	}
	if err := celvpa.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, celvpa.Stop())
	}
	say("ready           celvpa: metrics at http://%s/metrics, log in %s", address, logFile)
	return celvpa, nil
}

// follow narrates until Ctrl-C, the last milestone, or the deadline after the last step. After the last milestone it asks why, once.
func follow(ctx context.Context, s settings, story *story, celvpa *harness.Celvpa, why func() error) error {
	trouble, asked := "", false
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			say("stopping        as asked")
			return nil
		case <-celvpa.Exited():
			return fmt.Errorf("celvpa stopped by itself; see %s", celvpa.LogFile)
		case <-tick.C:
		}
		if err := story.look(ctx); err != nil && ctx.Err() == nil && err.Error() != trouble {
			trouble = err.Error()
			say("trouble         %s; trying again", trouble)
		}
		if missing := story.missing(); missing != "" {
			if s.once && time.Since(begin)-time.Duration(said.Load()) > s.deadline {
				return fmt.Errorf("%w (%s): %s; last trouble: %s; celvpa's log is %s", errMissed, s.deadline, missing, cmp.Or(trouble, "none"), celvpa.LogFile)
			}
			continue
		}
		if !asked {
			asked = true
			if err := why(); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if s.once {
			say("seen            a recommendation written, a new pod changed at admission, a running pod resized in place and acknowledged by its node")
			return nil
		}
	}
}

var (
	begin = time.Now()
	said  atomic.Int64 // time since begin of the last step
)

// say narrates a step.
func say(format string, args ...any) {
	said.Store(int64(time.Since(begin)))
	fmt.Printf("[%5.1fs] %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
}
