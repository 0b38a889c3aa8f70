// Package reliability runs celvpa on a control plane that fails, and asserts that nothing is lost and that no pod is
// disrupted that should not be. It brings up a lab of its own; with -short it prints why it does not run.
package reliability

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
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/celvpa/celvpa/conformance/faults"
	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
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
	admission.Celvpa, err = harness.Start(celvpa, address, filepath.Join(logs, "admission-controller.log"), append([]string{"admission-controller", "-v=5", "--kubeconfig=" + lab.Kubeconfig, "--status-lease-update-interval=1s"}, args...), admission.Add)
	if err != nil {
		return err
	}
	return admission.WaitReady(ctx)
}

// program is a process of celvpa with its log.
type program struct {
	*harness.Celvpa
	harness.Log
}

// start runs a component for the namespace of the scene, as its own user, until the test ends.
func (s *scene) start(component string, flags ...string) *program {
	s.t.Helper()
	p := s.launch(component, component, flags...)
	s.t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			s.t.Errorf("%s ended with %v; see %s", component, err, p.LogFile)
		}
	})
	require.NoError(s.t, p.WaitReady(s.t.Context()))
	return p
}

// launch is start for programs that the test stops. Each name has a log of its own.
func (s *scene) launch(component, name string, flags ...string) *program {
	s.t.Helper()
	address, err := harness.FreeAddress()
	require.NoError(s.t, err)
	p := &program{}
	kubeconfig := s.kubeconfig(component)
	interval, err := harness.Pace(s.t.Context(), kubeconfig, time.Second)
	require.NoError(s.t, err)
	args := []string{component, "-v=5", "--kubeconfig=" + kubeconfig, "--address=" + address, "--vpa-object-namespace=" + s.ns, "--" + component + "-interval=" + interval.String()}
	if component == "updater" { // a webhook on a busy machine may renew its lease late
		args = append(args, "--admission-controller-status-lease-timeout=10m")
	}
	p.Celvpa, err = harness.Start(celvpa, address, filepath.Join(logs, s.ns+"-"+name+".log"), append(args, flags...), p.Add)
	require.NoError(s.t, err)
	return p
}

// kubeconfig is that of a component, behind the proxy of the scene if it has one.
func (s *scene) kubeconfig(component string) string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "kubeconfig")
	if s.proxy != nil {
		require.NoError(s.t, s.proxy.WriteKubeconfig(file, clientcmdUser(users[component].Token)))
		return file
	}
	config, err := clientcmd.LoadFromFile(lab.Kubeconfig)
	require.NoError(s.t, err)
	for _, user := range config.AuthInfos {
		*user = clientcmdUser(users[component].Token)
	}
	require.NoError(s.t, clientcmd.WriteToFile(*config, file))
	return file
}

// newProxy starts a proxy to the lab until the test ends.
func newProxy(t *testing.T) *faults.Proxy {
	t.Helper()
	p, err := faults.Start(cluster.Config, 20)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// cycles is how many cycles a recommender or updater has finished.
func (p *program) cycles(component string) float64 {
	return harness.Metric(p.Address, fmt.Sprintf(`vpa_%s_execution_latency_seconds_count{step="total"}`, component))
}

// controls is how many series of pods that VPAs control an updater has with a number.
func (p *program) controls() (n int) {
	text, err := harness.Get(context.Background(), "http://"+p.Address+"/metrics")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "vpa_updater_controlled_pods_total{") && !strings.HasSuffix(line, "} 0\n") {
			n++
		}
	}
	return n
}

// moreCycles waits until n cycles have started and ended from now on.
func (s *scene) moreCycles(p *program, component string, n int) {
	s.t.Helper()
	for until, begun := p.cycles(component)+1, 0; begun <= n; begun++ { // one may be under way
		hang.Eventually(s.t, "a cycle of the "+component, func(context.Context) (bool, error) { return p.cycles(component) >= until+float64(begun), nil })
	}
}

func clientcmdUser(token string) clientcmdapi.AuthInfo { return clientcmdapi.AuthInfo{Token: token} }

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		require.NoError(t, cluster.Create(t.Context(), o))
	}
}

// All pods of the tests use 400m and 300Mi, the middle of a histogram's bucket, now and in the days that checkpoints hold. So
// the recommendation is exact: the bucket's upper edge plus 15%.
const (
	usedMilli, usedBytes = 400, 300 << 20
	recommended          = "476m/380258472"
	little               = "100m/128Mi" // what most pods request at first
)

// history are three days of that usage.
func history() vpav1.VerticalPodAutoscalerCheckpointStatus {
	return harness.Remembered(3*24*60, time.Minute, func(int) int64 { return usedMilli }, func(int) int64 { return usedBytes })
}

// deployment has pods that request cpu and memory, given as "100m/128Mi".
func deployment(ns, app string, replicas int32, requests string) *appsv1.Deployment {
	labels := map[string]string{"app": app}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: app}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
				"usage/period-seconds": "60", "app.usage/cpu-low": "400m", "app.usage/cpu-high": "400m",
				"app.usage/memory-low": "300Mi", "app.usage/memory-high": "300Mi",
			}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.k8s.io/pause:3.10",
				Resources: corev1.ResourceRequirements{Requests: amounts(requests)}}}},
		},
	}}
}

func amounts(text string) corev1.ResourceList {
	var cpu, memory string
	for i := range text {
		if text[i] == '/' {
			cpu, memory = text[:i], text[i+1:]
		}
	}
	return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

// said is the notation of amounts.
func said(list corev1.ResourceList) string { return fmt.Sprintf("%s/%s", list.Cpu(), list.Memory()) }

func requestsOf(p *corev1.Pod) string { return said(p.Spec.Containers[0].Resources.Requests) }

// granted is what the node gives to a pod.
func granted(p *corev1.Pod) string {
	if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].Resources == nil {
		return ""
	}
	return said(p.Status.ContainerStatuses[0].Resources.Requests)
}

func vpa(ns, name string, mode vpav1.UpdateMode) *vpav1.VerticalPodAutoscaler {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
	v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: &mode}
	return v
}

// targetOf is the recommendation of a VPA; empty without one.
func targetOf(v *vpav1.VerticalPodAutoscaler) string {
	if r := v.Status.Recommendation; r != nil && len(r.ContainerRecommendations) == 1 {
		return said(r.ContainerRecommendations[0].Target)
	}
	return ""
}
