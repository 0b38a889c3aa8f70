package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
)

// kubelet runs what the fake nodes of the lab only pretend to run: a process for each Deployment of the release, with the arguments
// and the environment of its container and a token of its ServiceAccount.
type kubelet struct {
	t       *testing.T
	running map[string]*component // by the name of the Deployment
}

type component struct {
	*harness.Celvpa
	container string // what it was started from
}

// appended are arguments that a lab needs: API servers on this machine do not reach Services, so the webhook is registered by URL; nobody
// waits a minute for a cycle, and a busy machine costs no process the lead. Pods have an address each, and may serve explanations at the same port; processes may not.
var appended = map[string][]string{
	"admission-controller": {"--register-by-url", "--webhook-address=127.0.0.1", "--webhook-port=8000", "--bind-address=127.0.0.1", "--explain-address=127.0.0.1:8952"},
	"recommender":          {"--leader-elect-lease-duration=10m", "--leader-elect-renew-deadline=5m", "--recommender-interval=5s", "--explain-address=127.0.0.1:8950"},
	"updater":              {"--leader-elect-lease-duration=10m", "--leader-elect-renew-deadline=5m", "--updater-interval=5s", "--explain-address=127.0.0.1:8951"},
}

func newKubelet(t *testing.T) *kubelet {
	k := &kubelet{t: t, running: map[string]*component{}}
	t.Cleanup(func() {
		for _, c := range k.running {
			c.Kill()
		}
	})
	return k
}

// sync starts, restarts and stops processes until they are what the Deployments say, and waits until they are ready.
func (k *kubelet) sync() {
	k.t.Helper()
	list := &appsv1.DeploymentList{}
	require.NoError(k.t, cluster.List(k.t.Context(), list, client.InNamespace(release.Namespace)))
	want := map[string]corev1.PodSpec{}
	for _, d := range list.Items {
		if *d.Spec.Replicas > 0 {
			want[d.Name] = d.Spec.Template.Spec
		}
	}
	var stops errgroup.Group // at once: a process must not outlive the roles that an uninstallation deletes
	for name, c := range k.running {
		if spec, ok := want[name]; !ok || fmt.Sprint(spec.Containers) != c.container {
			delete(k.running, name)
			stops.Go(func() error {
				if err := c.Stop(); err != nil {
					return fmt.Errorf("%s: %w; see %s", name, err, c.LogFile)
				}
				return nil
			})
		}
	}
	require.NoError(k.t, stops.Wait())
	if len(k.running) == 0 { // those that may no longer give back the lead, for want of a role, lead nothing
		require.NoError(k.t, cluster.DeleteAllOf(k.t.Context(), &coordinationv1.Lease{}, client.InNamespace(release.Namespace)))
	}
	for name, spec := range want {
		if k.running[name] == nil {
			k.running[name] = k.start(name, spec)
		}
	}
	for name, c := range k.running {
		require.NoError(k.t, c.WaitReady(k.t.Context()), "%s; see %s", name, c.LogFile)
	}
}

func (k *kubelet) start(name string, spec corev1.PodSpec) *component {
	k.t.Helper()
	root, err := harness.Root()
	require.NoError(k.t, err)
	c := spec.Containers[0]
	k.t.Setenv("NAMESPACE", release.Namespace) // by its fieldRef
	k.t.Setenv("KUBECONFIG", k.kubeconfigOf(spec.ServiceAccountName))
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			k.t.Setenv(e.Name, e.Value)
		}
	}
	var args []string
	for _, arg := range append(c.Args, appended[c.Name]...) {
		args = append(args, strings.ReplaceAll(arg, "$(NAMESPACE)", release.Namespace))
	}
	mounted(k.t, spec, args)
	address := ""
	for _, p := range c.Ports {
		if p.Name == c.ReadinessProbe.HTTPGet.Port.String() {
			address = fmt.Sprintf("127.0.0.1:%d", p.ContainerPort)
		}
	}
	require.Equal(k.t, "/readyz", c.ReadinessProbe.HTTPGet.Path)
	process, err := harness.Start(program, address, filepath.Join(root, "bin", "chart", name+".log"), args, nil)
	require.NoError(k.t, err)
	return &component{process, fmt.Sprint(spec.Containers)}
}

// mounted puts the ConfigMap with rules where the arguments can find it, as a kubelet does.
func mounted(t *testing.T, spec corev1.PodSpec, args []string) {
	t.Helper()
	for _, v := range spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		rules := &corev1.ConfigMap{}
		require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: release.Namespace, Name: v.ConfigMap.Name}, rules))
		dir := t.TempDir()
		for file, text := range rules.Data {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
		}
		for i, arg := range args {
			args[i] = strings.ReplaceAll(arg, spec.Containers[0].VolumeMounts[0].MountPath, dir)
		}
	}
}

// kubeconfigOf is a kubeconfig with a token of a service account of the release.
func (k *kubelet) kubeconfigOf(account string) string {
	k.t.Helper()
	token := &authenticationv1.TokenRequest{}
	user := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: release.Namespace, Name: account}}
	require.NoError(k.t, cluster.SubResource("token").Create(k.t.Context(), user, token))
	config, err := clientcmd.LoadFromFile(lab.Kubeconfig)
	require.NoError(k.t, err)
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	file := filepath.Join(k.t.TempDir(), "kubeconfig")
	require.NoError(k.t, clientcmd.WriteToFile(*config, file))
	return file
}
