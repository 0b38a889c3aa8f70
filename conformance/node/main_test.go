// Package node has the tests of celvpa on a real node: a kubelet that resizes, a kernel that throttles and kills, metrics that
// lag. celvpa runs there in pods, from its own image and chart. make test-node runs them on a node of the lab's, or on the cluster
// of KUBECONFIG; nothing here knows which.
package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

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
