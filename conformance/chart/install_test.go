package chart

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// block is a fenced block of a page whose language is one of languages, with the words behind that.
type block struct{ language, words, text string }

var languages = []string{"sh cluster", "yaml values", "yaml kustomization"}

func blocks(t *testing.T, page string) (out []block) {
	t.Helper()
	parts := strings.Split("\n"+read(t, "docs", page), "\n```")
	for i := 1; i+1 < len(parts); i += 2 {
		first, text, _ := strings.Cut(parts[i], "\n")
		for _, language := range languages {
			if words, ok := strings.CutPrefix(first, language); ok {
				out = append(out, block{language, strings.TrimSpace(words), text})
			}
		}
	}
	return out
}

// TestTheCommandsOfInstallMdWork from top to bottom: install, a recommendation, resized and patched pods, events, upgrade, rollback and
// uninstall, with nothing forbidden. What is left of it refuses no pod.
func TestTheCommandsOfInstallMdWork(t *testing.T) {
	needsLab(t)
	s, k := newShell(t), newKubelet(t)
	s.cleanUp(t)
	ran := 0
	var uninstalling period
	for _, b := range blocks(t, "install.md") {
		switch {
		case b.language == "yaml values":
			require.NoError(t, os.WriteFile(filepath.Join(s.dir, "values.yaml"), []byte(b.text), 0o600))
			continue
		case b.language == "yaml kustomization", b.words == "plain":
			continue // TestTheCommandsWithoutHelmWork runs them
		}
		if strings.HasPrefix(b.text, "helm uninstall") {
			s.run(t, "kubectl apply -f examples/quickstart/namespace.yaml -f examples/quickstart/vpa.yaml")
		}
		began := time.Now()
		out := s.run(t, b.text)
		k.sync()
		if strings.HasPrefix(b.text, "helm uninstall") {
			uninstalling = period{began, time.Now()}
		}
		ran++
		if strings.Contains(b.text, "get events") {
			require.Contains(t, out, "InPlaceResizedByVPA")
			require.Contains(t, out, "update/", "events name the rule")
		}
		if strings.Contains(b.text, "vpaUpdates") {
			require.Contains(t, out, "Pod resources updated by web: container 0: cpu request, memory request")
		}
	}
	require.Greater(t, ran, 6, "the page has lost its examples")
	s.run(t, "kubectl -n celvpa-quickstart get vpa web")
	nothingRefusesPods(t)
	refused, requests := forbidden(t, uninstalling)
	require.Empty(t, refused)
	require.Greater(t, requests, 100)
}

// TestTheCommandsWithoutHelmWork: the kustomization, and uninstalling, which keeps the CRDs.
func TestTheCommandsWithoutHelmWork(t *testing.T) {
	needsLab(t)
	s, k := newShell(t), newKubelet(t)
	s.cleanUp(t)
	const definitions = "crd verticalpodautoscalers.autoscaling.k8s.io verticalpodautoscalercheckpoints.autoscaling.k8s.io ruleoverlays.rules.celvpa.dev"
	t.Cleanup(func() { // the next test installs with helm, which would find CRDs that are not its own
		out, err := s.command(context.WithoutCancel(t.Context()), "kubectl delete --ignore-not-found "+definitions).CombinedOutput()
		require.NoError(t, err, string(out))
	})
	start, ran := time.Now(), 0
	var uninstalling period
	for _, b := range blocks(t, "install.md") {
		if b.language == "yaml kustomization" {
			require.NoError(t, os.WriteFile(filepath.Join(s.dir, "kustomization.yaml"), []byte(b.text), 0o600))
		}
		if b.words != "plain" {
			continue
		}
		ran++
		began := time.Now()
		out := s.run(t, b.text)
		k.sync()
		switch {
		case strings.HasPrefix(b.text, "kubectl delete"):
			uninstalling = period{began, time.Now()}
		case strings.Contains(b.text, "-k"):
			require.Equal(t, 3, strings.Count(out, "registry.example/team/celvpa:v0.1.0"), out)
		}
		if uninstalling == (period{}) {
			config := &admissionregistrationv1.MutatingWebhookConfiguration{}
			require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Name: "vpa-webhook-config"}, config))
			require.NotEmpty(t, config.Webhooks, "the process has registered itself")
			require.NoError(t, createPod(t, "default"))
		}
	}
	require.Equal(t, 2, ran, "the page has lost its examples")
	s.run(t, "kubectl get "+definitions)
	nothingRefusesPods(t)
	refused, requests := forbidden(t, period{to: start}, uninstalling)
	require.Empty(t, refused)
	require.Positive(t, requests)
}

// TestTheUpdateStrategyCanChange to Recreate, with a number of replicas or as a value, and back: helm 4 applies on the server, where
// what nobody owns stays.
func TestTheUpdateStrategyCanChange(t *testing.T) {
	needsLab(t)
	s := newShell(t)
	s.cleanUp(t)
	const flags = " celvpa deploy/chart/celvpa -n celvpa-system --take-ownership --force-conflicts --set admissionController.enabled=false,"
	s.run(t, "helm install --create-namespace"+flags+"updater.replicas=2")
	for _, c := range []struct {
		values string
		want   appsv1.DeploymentStrategyType
	}{
		{"updater.replicas=1", appsv1.RecreateDeploymentStrategyType},
		{"updater.replicas=2", appsv1.RollingUpdateDeploymentStrategyType},
		{"updater.updateStrategy.type=Recreate", appsv1.RecreateDeploymentStrategyType},
		{"updater.updateStrategy.type=RollingUpdate", appsv1.RollingUpdateDeploymentStrategyType},
		{"updater.updateStrategy.rollingUpdate.maxSurge=0", appsv1.RollingUpdateDeploymentStrategyType},
		{"updater.replicas=1", appsv1.RecreateDeploymentStrategyType},
	} {
		s.run(t, "helm upgrade"+flags+c.values)
		d := &appsv1.Deployment{}
		require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: release.Namespace, Name: "celvpa-updater"}, d))
		require.Equal(t, c.want, d.Spec.Strategy.Type, c.values)
	}
}

// nothingRefusesPods requires that no webhook of VPA is left and that pods can be created.
func nothingRefusesPods(t *testing.T) {
	t.Helper()
	config := &admissionregistrationv1.MutatingWebhookConfiguration{}
	require.True(t, apierrors.IsNotFound(cluster.Get(t.Context(), client.ObjectKey{Name: "vpa-webhook-config"}, config)))
	require.NoError(t, createPod(t, "default"))
}

// createPod creates a pod and deletes it again.
func createPod(t *testing.T, namespace string) error {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "p-"}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "registry.k8s.io/pause:3.10"}}
	if err := cluster.Create(t.Context(), pod); err != nil {
		return err
	}
	return cluster.Delete(t.Context(), pod)
}

// TestFailurePolicyFailKeepsNoPodOfTheReleaseFromStarting: with all replicas down, other namespaces wait, and the release's does not;
// uninstalling ends that at once.
func TestFailurePolicyFailKeepsNoPodOfTheReleaseFromStarting(t *testing.T) {
	needsLab(t)
	s, k := newShell(t), newKubelet(t)
	s.cleanUp(t)
	s.run(t, "helm install celvpa deploy/chart/celvpa -n celvpa-system --create-namespace --take-ownership --force-conflicts "+
		"--set recommender.enabled=false,updater.enabled=false,admissionController.mutatingWebhookConfiguration.failurePolicy=Fail")
	require.NoError(t, createPod(t, "default"), "nothing is registered before a process answers")
	k.sync()
	require.NoError(t, createPod(t, "default"))
	hang.Eventually(t, "the registration to refuse pods", func(context.Context) (bool, error) {
		return s.run(t, "kubectl get mutatingwebhookconfiguration vpa-webhook-config -o jsonpath={.webhooks[0].failurePolicy}") == "Fail", nil
	})
	k.running["celvpa-admission-controller"].Kill()
	delete(k.running, "celvpa-admission-controller")
	hang.Eventually(t, "pods to be refused", func(context.Context) (bool, error) {
		return createPod(t, "default") != nil, nil
	})
	require.NoError(t, createPod(t, "celvpa-system"))
	s.run(t, "helm uninstall celvpa -n celvpa-system")
	hang.Eventually(t, "pods to be accepted", func(context.Context) (bool, error) {
		return createPod(t, "default") == nil, nil
	})
	nothingRefusesPods(t)
}

// TestTheCommandsOfMigrateMdWork: with upstream's objects, checkpoints and webhook in place the chart takes over component by component,
// gives back, and takes over at once.
func TestTheCommandsOfMigrateMdWork(t *testing.T) {
	needsLab(t)
	s, k := newShell(t), newKubelet(t)
	s.cleanUp(t)
	upstream, err := harness.UpstreamManifests(t.Context())
	require.NoError(t, err)
	s.run(t, "kubectl delete crd verticalpodautoscalers.autoscaling.k8s.io verticalpodautoscalercheckpoints.autoscaling.k8s.io ruleoverlays.rules.celvpa.dev --ignore-not-found")
	s.run(t, "for f in vpa-v1-crd-gen vpa-rbac recommender-deployment updater-deployment admission-controller-deployment admission-controller-service; do kubectl apply -f "+upstream+"/$f.yaml; done")
	s.run(t, "kubectl apply -f examples/quickstart/namespace.yaml -f examples/quickstart/deployment.yaml -f examples/quickstart/vpa.yaml")
	stop := runUpstream(t)
	checkpoint := &vpav1.VerticalPodAutoscalerCheckpoint{}
	checkpoint.Namespace, checkpoint.Name = "celvpa-quickstart", "web-app"
	hang.Eventually(t, "a checkpoint of upstream's", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, client.ObjectKeyFromObject(checkpoint), checkpoint)
		return err == nil && checkpoint.Status.TotalSamplesCount > 0, client.IgnoreNotFound(err)
	})
	config := &admissionregistrationv1.MutatingWebhookConfiguration{}
	registered := func(url string) {
		t.Helper()
		hang.Eventually(t, "the webhook of "+url, func(ctx context.Context) (bool, error) {
			err := cluster.Get(ctx, client.ObjectKey{Name: "vpa-webhook-config"}, config)
			return err == nil && len(config.Webhooks) == 1 && strings.HasSuffix(*config.Webhooks[0].ClientConfig.URL, url), client.IgnoreNotFound(err)
		})
	}
	registered(":8100")
	uid := checkpoint.UID

	seen, start := "", time.Now()
	var uninstalling period
	for _, b := range blocks(t, "migrate.md") {
		if why, fails := strings.CutPrefix(b.words, "fails="); fails {
			out, err := s.try(t, b.text)
			require.Error(t, err)
			require.Contains(t, out, why)
			continue
		}
		if b.words == "recommender" || b.words == "at-once" {
			stop()
		}
		began := time.Now()
		s.run(t, b.text)
		k.sync()
		seen += b.words + " "
		switch b.words {
		case "recommender":
			created := checkpoint.Status.LastUpdateTime
			hang.Eventually(t, "celvpa to continue upstream's checkpoint", func(ctx context.Context) (bool, error) {
				err := cluster.Get(ctx, client.ObjectKeyFromObject(checkpoint), checkpoint)
				return err == nil && checkpoint.UID == uid && checkpoint.Status.LastUpdateTime.After(created.Time), err
			})
		case "admission-controller", "at-once":
			registered(":8000")
			require.NoError(t, createPod(t, "celvpa-quickstart"))
		case "back":
			uninstalling = period{began, time.Now()}
			require.True(t, apierrors.IsNotFound(cluster.Get(t.Context(), client.ObjectKey{Name: "vpa-webhook-config"}, config)))
			stop = runUpstream(t)
			registered(":8100")
			s.run(t, "kubectl -n celvpa-quickstart get vpa web")
		}
	}
	require.Equal(t, "recommender admission-controller updater back at-once ", seen)
	// Before the start: what earlier tests have uninstalled.
	refused, _ := forbidden(t, period{to: start}, uninstalling)
	require.Empty(t, refused)

	out, err := s.try(t, "helm install second deploy/chart/celvpa -n second --create-namespace --take-ownership --force-conflicts")
	require.Error(t, err)
	require.Contains(t, out, "Deployment celvpa-system/celvpa-admission-controller (celvpa) already runs a VPA admission-controller in this cluster")
	out, err = s.try(t, "helm install second deploy/chart/celvpa -n second --create-namespace --set allowOtherVPA=true")
	require.Error(t, err)
	require.Contains(t, out, "cannot be imported into the current release")
	s.run(t, "helm uninstall celvpa -n celvpa-system")
	k.sync()
	nothingRefusesPods(t)
}

// runUpstream runs upstream's recommender and admission controller, whose webhook is on port 8100, until stop is called.
func runUpstream(t *testing.T) (stop func()) {
	t.Helper()
	root, err := harness.Root()
	require.NoError(t, err)
	certificates := selfSigned(t)
	var running []*harness.Celvpa
	for name, args := range map[string][]string{
		"recommender": {"--recommender-interval=5s", "--address=127.0.0.1:8952"},
		"admission-controller": {"--address=127.0.0.1:8954", "--port=8100", "--register-by-url", "--webhook-address=https://127.0.0.1", "--webhook-port=8100",
			"--client-ca-file=" + certificates + "/ca.crt", "--tls-cert-file=" + certificates + "/tls.crt", "--tls-private-key=" + certificates + "/tls.key"},
	} {
		program, err := harness.BuildUpstream(t.Context(), name, os.Stdout)
		require.NoError(t, err)
		process, err := harness.Launch(program, "", filepath.Join(root, "bin", "chart", "upstream-"+name+".log"), append(args, "--kubeconfig="+lab.Kubeconfig), nil)
		require.NoError(t, err)
		running = append(running, process)
		t.Cleanup(process.Kill)
	}
	return func() {
		for _, p := range running {
			p.Kill()
		}
	}
}

// What the tests on a lab share; empty with -short.
var (
	lab     *harness.Lab
	cluster *harness.Cluster
	program string // celvpa
	tools   string // folder with helm and kubectl
)

func TestMain(m *testing.M) {
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	if testing.Short() {
		fmt.Println("chart: installing and moving over are not tried with -short, because they need a lab; use make chart-test")
		os.Exit(m.Run())
	}
	code, err := withLab(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		code = 1
	}
	os.Exit(code)
}

// withLab runs the tests with a lab of their own, helm and kubectl.
func withLab(m *testing.M) (code int, err error) {
	ctx := context.Background()
	if program, err = harness.Build(ctx); err != nil {
		return 1, err
	}
	if tools, err = harness.Tools(ctx); err != nil {
		return 1, err
	}
	name := os.Getenv("LAB_NAME")
	if name == "" {
		name = "chart"
	}
	if lab, err = harness.Up(ctx, name, os.Stdout); err != nil {
		return 1, err
	}
	if !lab.Ours { // left behind by a run that was killed
		if err := lab.Down(ctx, os.Stdout); err != nil {
			return 1, err
		}
		if lab, err = harness.Up(ctx, name, os.Stdout); err != nil {
			return 1, err
		}
	}
	defer func() {
		if downErr := lab.Down(ctx, os.Stdout); downErr != nil {
			fmt.Fprintln(os.Stderr, "chart:", downErr)
		}
	}()
	if cluster, err = harness.Connect(lab.Kubeconfig); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// needsLab skips a test with -short.
func needsLab(t *testing.T) {
	t.Helper()
	if lab == nil {
		t.Skip("needs a lab: make chart-test")
	}
}

// shell is a folder in which commands run as a user types them in a clone of the repository.
type shell struct{ dir string }

func newShell(t *testing.T) shell {
	t.Helper()
	root, err := harness.Root()
	require.NoError(t, err)
	s := shell{t.TempDir()}
	for _, folder := range []string{"deploy", "examples"} {
		require.NoError(t, os.Symlink(filepath.Join(root, folder), filepath.Join(s.dir, folder)))
	}
	return s
}

// try runs a script; the output has both streams.
func (s shell) try(t *testing.T, script string) (string, error) {
	t.Helper()
	out, err := s.command(t.Context(), script).CombinedOutput()
	t.Logf("$ %s\n%s", script, out)
	return string(out), err
}

// limits are those of the commands in the docs, which a busy machine may need more than.
var limits = regexp.MustCompile(`--timeout=\d+[ms]\b`)

func (s shell) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", limits.ReplaceAllString(script, "--timeout="+hang.Limit.String()))
	cmd.Dir = s.dir
	home := filepath.Join(s.dir, ".home") // helm's caches
	cmd.Env = append(os.Environ(), "KUBECONFIG="+lab.Kubeconfig, "PATH="+tools+":"+filepath.Dir(program)+":"+os.Getenv("PATH"), "HOME="+home,
		"XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home)
	return cmd
}

func (s shell) run(t *testing.T, script string) string {
	t.Helper()
	out, err := s.try(t, script)
	require.NoError(t, err, "%s\n%s", script, out)
	return out
}

// cleanUp takes away at the end what a test has left, so that the next one does not meet it.
func (s shell) cleanUp(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		for _, command := range []string{
			"helm uninstall celvpa -n celvpa-system --ignore-not-found",
			"kubectl delete --ignore-not-found mutatingwebhookconfiguration/vpa-webhook-config namespace/celvpa-quickstart namespace/celvpa-system namespace/second",
		} {
			out, err := s.command(context.WithoutCancel(t.Context()), command).CombinedOutput()
			require.NoError(t, err, "%s\n%s", command, out)
		}
	})
}

// period is the time of an uninstallation: roles go while processes still end, so what they ask for then does not count.
type period struct{ from, to time.Time }

// forbidden lists what the API server has refused to the service accounts of the release since the lab was started, but in some periods.
func forbidden(t *testing.T, but ...period) (refused []string, requests int) {
	t.Helper()
	require.NoError(t, harness.AuditEvents(lab.Kubeconfig, "system:serviceaccount:"+release.Namespace+":", func(event harness.AuditEvent) {
		requests++
		ending := slices.ContainsFunc(but, func(p period) bool {
			return event.RequestReceivedTimestamp.After(p.from) && event.RequestReceivedTimestamp.Before(p.to)
		})
		if event.Forbidden() && !ending {
			refused = append(refused, event.User.Username+" "+event.Verb+" "+event.RequestURI)
		}
	}))
	return refused, requests
}
