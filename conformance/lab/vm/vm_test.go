package vm

import (
	"archive/tar"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

func TestModulesComeWithWhatTheyDependOn(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "lib", "modules", "6.1")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	dep := "kernel/virtio_blk.ko: kernel/virtio.ko kernel/virtio_ring.ko\nkernel/virtio.ko: kernel/virtio_ring.ko\nkernel/virtio_ring.ko:\n"
	if err := os.WriteFile(filepath.Join(folder, "modules.dep"), []byte(dep), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := modulesFor(root, "6.1", []string{"virtio_blk"})
	want := []string{"kernel/virtio_blk.ko", "kernel/virtio.ko", "kernel/virtio_ring.ko"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("modules: %v (%v), want %v", got, err, want)
	}
	if _, err := modulesFor(root, "6.1", []string{"virtio"}); err != nil {
		t.Errorf("a module whose name starts another's: %v", err)
	}
	if _, err := modulesFor(root, "6.1", []string{"ext4"}); err == nil || !strings.Contains(err.Error(), "6.1 has no module ext4") {
		t.Errorf("a module that is not there: %v", err)
	}
}

func TestTheMachineGetsTheAddressOfTheAPIServer(t *testing.T) {
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	config := api.NewConfig()
	config.Clusters["lab"] = &api.Cluster{Server: "https://127.0.0.1:6443", CertificateAuthorityData: []byte("ca")}
	config.AuthInfos["lab"] = &api.AuthInfo{ClientCertificateData: []byte("certificate"), ClientKeyData: []byte("key")}
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(dir, "config.tar")
	if err := writeSettings(settings, Settings{Node: "vm", Kubeconfig: kubeconfig}); err != nil {
		t.Fatal(err)
	}
	files := untar(t, settings)
	for name, want := range map[string]string{"etc/hostname": "vm\n", "etc/lab/apiserver": "10.0.2.2:6443\n", "etc/lab/tls.crt": "certificate", "etc/lab/tls.key": "key"} {
		if files[name] != want {
			t.Errorf("%s is %q, want %q", name, files[name], want)
		}
	}
	loaded, err := clientcmd.Load([]byte(files["etc/kubernetes/kubeconfig"]))
	if err != nil {
		t.Fatal(err)
	}
	if got := loaded.Clusters["lab"]; got.Server != "https://10.0.2.2:6443" || got.TLSServerName != "127.0.0.1" {
		t.Errorf("the kubelet's API server is %s with the name %q", got.Server, got.TLSServerName)
	}
}

func TestALockedUpProcessorIsReadFromTheConsole(t *testing.T) {
	machine := &Machine{Dir: t.TempDir()}
	for text, want := range map[string]bool{
		"[   32.730774] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [containerd:160]\n": true,
		"[   26.880490] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:\n":              true,
		"[    1.730774] Kernel panic - not syncing: VFS: Unable to mount root fs on sda\n":    false,
		"": false,
	} {
		if err := os.WriteFile(machine.Console(), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := machine.LockedUp(); got != want {
			t.Errorf("locked up: %v with the console %q", got, text)
		}
	}
}

func untar(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found := map[string]string{}
	for archive := tar.NewReader(file); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = string(text)
	}
}

func TestTheBaseChangesWithItsPrograms(t *testing.T) {
	program := filepath.Join(t.TempDir(), "kubelet")
	key := func(text string) string {
		if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		key, err := baseKey(map[string]string{"kubelet": program})
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	one := key("1.37.1")
	if again := key("1.37.1"); again != one {
		t.Errorf("the same program gives %s and %s", one, again)
	}
	if other := key("1.37.2"); other == one {
		t.Errorf("another program gives %s again", other)
	}
}

func TestEachPartOfTheMachineHasAPlace(t *testing.T) {
	for _, name := range []string{"kubelet", "containerd", "ctr", "bridge", "guest"} {
		if installed[name] == "" {
			t.Errorf("%s is installed nowhere", name)
		}
	}
	for _, name := range []string{"init", "etc/rc", "etc/service", "etc/kubelet"} {
		text, err := rootFiles.ReadFile("root/" + name)
		if err != nil || modeOf(text) != 0o755 {
			t.Errorf("%s cannot be run (%v)", name, err)
		}
	}
}
