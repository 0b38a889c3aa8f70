// Package node has the tests of celvpa on a real node: a kubelet that resizes, a kernel that throttles and kills, metrics that
// lag. celvpa runs there in pods, from its own image and chart. make test-node runs them on a node of the lab's, or on the cluster
// of KUBECONFIG; nothing here knows which.
package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/harness"
)

// given is the user's cluster. It is a flag, so that nobody installs celvpa into a cluster because a variable was set.
var given = flag.String("cluster", "", "kubeconfig of a cluster with a real node, instead of a node of the lab's; images are loaded by the command in $LOAD_IMAGE")

// built saves the minutes that compiling takes on a busy machine.
var built = flag.Bool("built", false, "take the programs and images in bin/ that an earlier run has built")

// installed saves more of them, for who works on a test.
var installed = flag.Bool("installed", false, "celvpa and the images are on the cluster of -cluster, where a run with -keep has left them")

// beside makes do with less of a slow node: emulated, celvpa's pods use more of it than all workloads.
var beside = flag.Bool("beside", false, "run celvpa as a process on this machine, for all tests but those of the pods of celvpa; on a node of the lab's only")

// keep leaves all as it is, to look at.
var keep = flag.Bool("keep", false, "leave the cluster up at the end")

// What the tests share.
var (
	lab        *harness.Lab // nil on the user's cluster
	kubeconfig string
	cluster    *harness.Cluster
	clients    *kubernetes.Clientset
	program    string // celvpa, for commands on this machine
	tools      string // folder with helm
	logs       string // folder for the logs of celvpa after a failure
	made       images
)

func TestMain(m *testing.M) {
	flag.DurationVar(&patience, "patience", patience, "how long to wait for each step of a test")
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	if testing.Short() {
		fmt.Println("node: not run with -short, because it needs a real node; use make test-node")
		os.Exit(0)
	}
	harness.AtLeastParallel(24)
	code, err := withNode(m)
	if missing := (*harness.MissingError)(nil); errors.As(err, &missing) {
		fmt.Println("node: SKIPPED:", err)
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		code = 1
	}
	os.Exit(code)
}

// withNode runs the tests with celvpa installed on a real node.
func withNode(m *testing.M) (code int, err error) {
	ctx, begin := context.Background(), time.Now()
	if err := prepare(ctx); err != nil {
		return 1, err
	}
	say(begin, "celvpa, helm and the images are built")
	if kubeconfig = *given; kubeconfig == "" {
		down, err := up(ctx)
		if err != nil {
			return 1, err
		}
		defer down()
	}
	if cluster, err = harness.Connect(kubeconfig); err != nil {
		return 1, err
	}
	if clients, err = kubernetes.NewForConfig(cluster.Config); err != nil {
		return 1, err
	}
	if err := findNode(ctx); err != nil {
		return 1, err
	}
	say(begin, "node %s is there: kubelet %s, %s, kernel %s", nodeName, nodeInfo.KubeletVersion, nodeInfo.ContainerRuntimeVersion, nodeInfo.KernelVersion)
	if *installed {
		return m.Run(), nil
	}
	if err := made.load(ctx); err != nil {
		return 1, err
	}
	say(begin, "the images are loaded")
	if *beside {
		stop, err := startBeside(ctx)
		if err != nil {
			return 1, err
		}
		defer stop()
		say(begin, "celvpa is ready")
		return m.Run(), nil
	}
	if !*keep {
		defer func() { err = errors.Join(err, uninstall(ctx)) }()
	}
	if err := install(ctx); err != nil {
		return 1, err
	}
	say(begin, "celvpa is installed and ready")
	if code = m.Run(); code != 0 {
		err = keepLogs(ctx, logs)
		say(begin, "the logs of celvpa are in %s", logs)
	}
	return code, err
}

func say(begin time.Time, format string, args ...any) {
	fmt.Printf("node: %4.0fs %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
}

// prepare builds what runs on the node and beside it.
func prepare(ctx context.Context) error {
	root, err := harness.Root()
	if err != nil {
		return err
	}
	folder := filepath.Join(root, "bin", "node")
	program, tools, made, logs = filepath.Join(root, "bin", "celvpa"), filepath.Join(root, "bin", "chart"), imagesIn(folder), filepath.Join(folder, "logs")
	if *built {
		return nil
	}
	if _, err := harness.Build(ctx); err != nil {
		return err
	}
	if _, err := harness.Tools(ctx); err != nil {
		return err
	}
	return made.build(ctx, root, folder)
}

// up starts a lab with a real node, a new one.
func up(ctx context.Context) (down func(), err error) {
	name := os.Getenv("LAB_NAME")
	if name == "" {
		name = "node"
	}
	if lab, err = harness.UpNode(ctx, name, os.Stdout); err != nil {
		return nil, err
	}
	kubeconfig = lab.Kubeconfig
	return func() {
		if *keep {
			fmt.Printf("node: KUBECONFIG=%s; end it with bin/lab/lab down -name %s\n", kubeconfig, name)
			return
		}
		if err := lab.Down(ctx, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "node:", err)
		}
	}, nil
}

// The node that the tests watch, and what it says of itself.
var (
	nodeName string
	nodeInfo corev1.NodeSystemInfo
)

// findNode looks for the one node of the cluster. What is measured is the kernel of one node, and room on it.
func findNode(ctx context.Context) error {
	var list corev1.NodeList
	if err := cluster.List(ctx, &list); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("the cluster of %s has %d nodes, and these tests need exactly one, which is real", filepath.Base(kubeconfig), len(list.Items))
	}
	nodeName, nodeInfo = list.Items[0].Name, list.Items[0].Status.NodeInfo
	return nil
}

// startBeside runs all components in one process, with the flags of testdata/values.yaml.
func startBeside(ctx context.Context) (stop func(), err error) {
	if lab == nil {
		return nil, errors.New("-beside needs the lab's node: the API server of another cluster does not reach this machine")
	}
	if err := cluster.InstallCRDs(ctx, false); err != nil {
		return nil, err
	}
	root, err := harness.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "conformance", "node", "testdata", "values.yaml"))
	if err != nil {
		return nil, err
	}
	var values struct {
		FeatureGates         map[string]bool
		Recommender, Updater struct{ ExtraArgs []string }
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, err
	}
	args, address, err := harness.LocalWebhookArgs("127.0.0.1")
	if err != nil {
		return nil, err
	}
	args = append(append([]string{"run", "--kubeconfig=" + kubeconfig}, args...), values.Recommender.ExtraArgs...)
	args = append(args, values.Updater.ExtraArgs...)
	var gates []string
	for _, gate := range slices.Sorted(maps.Keys(values.FeatureGates)) {
		gates = append(gates, fmt.Sprintf("%s=%t", gate, values.FeatureGates[gate]))
	}
	args = append(args, "--feature-gates="+strings.Join(gates, ","))
	process, err := harness.Start(program, address, filepath.Join(root, "bin", "node", "celvpa.log"), args, nil)
	if err != nil {
		return nil, err
	}
	return process.Kill, process.WaitReady(ctx)
}

// needsPods skips a test of celvpa's own pods.
func needsPods(t *testing.T) {
	t.Helper()
	if *beside {
		t.Skip("celvpa runs beside the cluster (-beside), and this is about its pods")
	}
}

// besideWaits stands in for the answers of celvpa's pods: two cycles.
const besideWaits = 15 * time.Second

// keepLogs writes what the pods of celvpa have logged to a folder: also what a container that was
// restarted had logged before.
func keepLogs(ctx context.Context, folder string) error {
	var pods corev1.PodList
	if err := cluster.List(ctx, &pods, client.InNamespace(system)); err != nil {
		return fmt.Errorf("listing the pods of celvpa: %w", err)
	}
	faults := []error{os.RemoveAll(folder), os.MkdirAll(folder, 0o755)}
	for _, p := range pods.Items {
		for _, s := range p.Status.ContainerStatuses {
			faults = append(faults, keepLog(ctx, folder, p.Name, s.Name, false))
			if s.RestartCount > 0 {
				faults = append(faults, keepLog(ctx, folder, p.Name, s.Name, true))
			}
		}
	}
	return errors.Join(faults...)
}

// logOf is what a container of celvpa has logged, or did before it was restarted.
func logOf(ctx context.Context, pod, container string, previous bool) ([]byte, error) {
	text, err := clients.CoreV1().Pods(system).GetLogs(pod, &corev1.PodLogOptions{Container: container, Previous: previous}).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", pod, err)
	}
	return text, nil
}

func keepLog(ctx context.Context, folder, pod, container string, previous bool) error {
	text, err := logOf(ctx, pod, container, previous)
	if err != nil {
		return err
	}
	name := pod + "-" + container
	if previous {
		name += "-previous"
	}
	return os.WriteFile(filepath.Join(folder, name+".log"), text, 0o644)
}

// logged looks for a line with all of some words in the log of the updater, also in that of before a restart. Run beside the
// node, celvpa has no pods, and nothing is found.
func logged(ctx context.Context, words ...string) (line string, found bool) {
	var pods corev1.PodList
	if err := cluster.List(ctx, &pods, client.InNamespace(system)); err != nil {
		return "", false
	}
	for _, p := range pods.Items {
		for _, s := range p.Status.ContainerStatuses {
			for _, previous := range []bool{false, true} {
				if !strings.Contains(p.Name, "updater") || previous && s.RestartCount == 0 {
					continue
				}
				text, _ := logOf(ctx, p.Name, s.Name, previous) // a container that is not found has no lines
				for line := range strings.Lines(string(text)) {
					if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
						return strings.TrimSpace(line), true
					}
				}
			}
		}
	}
	return "", false
}

// system is the namespace of celvpa.
const system = "celvpa-system"

// helm runs helm on the cluster.
func helm(ctx context.Context, args ...string) error {
	home, err := os.MkdirTemp("", "celvpa-helm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	cmd := exec.CommandContext(ctx, filepath.Join(tools, "helm"), append(args, "--namespace", system)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+home, "XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("helm %s: %w\n%s", args[0], err, text)
	}
	return nil
}

// release installs or upgrades celvpa with the values of testdata.
func release(ctx context.Context, command, version string, more ...string) error {
	root, err := harness.Root()
	if err != nil {
		return err
	}
	args := []string{command, "celvpa", filepath.Join(root, "deploy", "chart", "celvpa"),
		"--values", filepath.Join(root, "conformance", "node", "testdata", "values.yaml"), "--set", "image.tag=" + version}
	return helm(ctx, append(args, more...)...)
}

func install(ctx context.Context) error {
	if err := release(ctx, "upgrade", firstVersion, "--install", "--create-namespace"); err != nil {
		return err
	}
	return rolledOut(ctx, patience)
}

func uninstall(ctx context.Context) error {
	if lab != nil {
		return nil // the whole cluster goes
	}
	return helm(ctx, "uninstall", "celvpa", "--ignore-not-found")
}

// rolledOut waits until the Deployments of celvpa are what was asked for, and nothing else is left.
func rolledOut(ctx context.Context, limit time.Duration) error {
	waiting := ""
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		var list appsv1.DeploymentList
		if err := cluster.List(ctx, &list, client.InNamespace(system)); err != nil {
			return false, nil // the next look may be answered
		}
		waiting = ""
		for _, d := range list.Items {
			s := d.Status
			if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != *d.Spec.Replicas || s.Replicas != *d.Spec.Replicas || s.AvailableReplicas != *d.Spec.Replicas {
				waiting += fmt.Sprintf(" %s: %d pods, %d new, %d available;", d.Name, s.Replicas, s.UpdatedReplicas, s.AvailableReplicas)
			}
		}
		return len(list.Items) == 3 && waiting == "", nil
	})
	if err != nil {
		return fmt.Errorf("waiting for celvpa to roll out: %w:%s", err, waiting)
	}
	return nil
}
