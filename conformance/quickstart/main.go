// Command quickstart is what `make run` runs: it brings up a lab (or uses $KUBECONFIG), installs the CRDs, starts
// celvpa, applies examples/quickstart and tells in plain words what happens, read from the API and celvpa's log.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
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
	flag.BoolVar(&s.once, "once", false, "stop with 0 as soon as all three milestones were seen, with 1 when the deadline passes first")
	flag.DurationVar(&s.deadline, "deadline", 3*time.Minute, "how long -once waits for the milestones")
	flag.StringVar(&s.labName, "lab", "celvpa", "name of the lab to use or start when KUBECONFIG is not set")
	flag.StringVar(&s.webhookAddress, "webhook-address", "127.0.0.1", "host by which the API server reaches this machine")
	flag.StringVar(&s.rulesDir, "rules-dir", "", "folder with rule files to use instead of the shipped ones")
	flag.Parse()
	ctrllog.SetLogger(logr.Discard()) // the client library has nothing to say here

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

// errMissed says that a milestone was not seen in time.
var errMissed = errors.New("not everything was seen in time")

func run(ctx context.Context, s settings) (err error) {
	say("building        celvpa from this working tree")
	program, err := harness.Build(ctx)
	if err != nil {
		return err
	}
	kubeconfig, down, err := apiServer(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, down()) }()
	cluster, err := harness.Connect(kubeconfig)
	if err != nil {
		return err
	}
	say("installing      the CRDs of autoscaling.k8s.io/v1")
	if err := cluster.InstallCRDs(ctx); err != nil {
		return err
	}
	root, err := harness.Root()
	if err != nil {
		return err
	}
	example := filepath.Join(root, "examples", "quickstart")
	story := newStory(cluster, filepath.Join(example, "vpa.yaml"))
	celvpa, err := startCelvpa(ctx, s, program, kubeconfig, story)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := celvpa.Stop(20 * time.Second); stopErr != nil {
			err = errors.Join(err, fmt.Errorf("stopping celvpa: %w", stopErr))
		} else {
			say("stopped         celvpa")
		}
	}()
	say("applying        examples/quickstart/deployment.yaml: 2 pods of 2 containers whose usage rises and falls every minute")
	say("waiting         for metrics-server to see their usage, about 20 s")
	if err := cluster.ApplyFiles(ctx, filepath.Join(example, "namespace.yaml"), filepath.Join(example, "deployment.yaml")); err != nil {
		return err
	}
	return follow(ctx, s, story, celvpa)
}

// apiServer finds or starts a control plane; down undoes what was started.
func apiServer(ctx context.Context, s settings) (kubeconfig string, down func() error, err error) {
	background := context.WithoutCancel(ctx)
	if path := os.Getenv("KUBECONFIG"); path != "" {
		kubeconfig = strings.Split(path, string(os.PathListSeparator))[0]
		say("using the cluster of KUBECONFIG=%s; celvpa serves namespace %s only", kubeconfig, namespace)
		return kubeconfig, func() error { return clean(background, kubeconfig) }, nil
	}
	lab, err := harness.Up(ctx, s.labName, os.Stdout)
	if err != nil {
		return "", nil, err
	}
	if lab.Ours {
		return lab.Kubeconfig, func() error { return lab.Down(background, os.Stdout) }, nil
	}
	say("lab %s was up before and stays up", s.labName)
	return lab.Kubeconfig, func() error { return clean(background, lab.Kubeconfig) }, nil
}

func clean(ctx context.Context, kubeconfig string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cluster, err := harness.Connect(kubeconfig)
	if err != nil {
		return err
	}
	say("deleting        namespace %s and the webhook registration; the CRDs stay", namespace)
	return cluster.Clean(ctx, namespace)
}

func startCelvpa(ctx context.Context, s settings, program, kubeconfig string, story *story) (*harness.Celvpa, error) {
	root, err := harness.Root()
	if err != nil {
		return nil, err
	}
	args, address, err := harness.LocalWebhookArgs(s.webhookAddress)
	if err != nil {
		return nil, err
	}
	args = append([]string{"run", "--kubeconfig=" + kubeconfig, "--vpa-object-namespace=" + namespace,
		"--recommender-interval=5s", "--updater-interval=5s"}, args...)
	if s.rulesDir != "" {
		args = append(args, "--rules-dir="+s.rulesDir)
	}
	say("starting        celvpa %s", strings.Join(args, " "))
	logFile := filepath.Join(root, "bin", "quickstart", "celvpa.log")
	celvpa, err := harness.Start(program, address, logFile, args, story.heard)
	if err != nil {
		return nil, err
	}
	if err := celvpa.WaitReady(ctx, 30*time.Second); err != nil {
		return nil, errors.Join(err, celvpa.Stop(5*time.Second))
	}
	say("ready           celvpa: metrics at http://%s/metrics, log in %s", address, logFile)
	return celvpa, nil
}

// follow tells the story until the user, the milestones or the deadline end it.
func follow(ctx context.Context, s settings, story *story, celvpa *harness.Celvpa) error {
	deadline := time.After(s.deadline)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			say("stopping        as asked")
			return nil
		case <-celvpa.Exited():
			return fmt.Errorf("celvpa stopped by itself; see %s", celvpa.LogFile)
		case <-deadline:
			if s.once {
				return fmt.Errorf("%w (%s): %s; celvpa's log is %s", errMissed, s.deadline, story.missing(), celvpa.LogFile)
			}
		case <-tick.C:
			if err := story.look(ctx); err != nil && ctx.Err() == nil {
				return err
			}
			if s.once && story.missing() == "" {
				say("seen            a recommendation written, a new pod changed at admission, a running pod resized in place and acknowledged by its node")
				return nil
			}
		}
	}
}

var begin = time.Now()

func say(format string, args ...any) {
	fmt.Printf("[%5.1fs] %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
}
