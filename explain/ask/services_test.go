package ask

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// inNamespace moves all that is installed.
func (c *cluster) inNamespace(namespace string) *cluster {
	for i := range c.services {
		c.services[i].Namespace = namespace
	}
	for i := range c.pods {
		c.pods[i].Namespace = namespace
	}
	processes := map[string]any{}
	for at, says := range c.processes {
		processes[strings.ReplaceAll(at, "sys", namespace)] = says
	}
	c.processes, c.webhook = processes, namespace
	return c
}

// forged adds Services of a tenant, of which each process claims to be the recommender.
func (c *cluster) forged(namespace string, services int) *cluster {
	for i := range services {
		name := fmt.Sprint("rec-", i)
		c.services, c.pods = append(c.services, service(namespace, name)), append(c.pods, pod(namespace, name, name))
		c.processes[at(namespace, name)] = recommender("forged", true, true, "d1")
	}
	return c
}

// TestServicesOfStrangersAreNotBelieved: anyone may label a Service. It was taken for the recommender's, "two recommenders serve this
// VPA, stop one of them", and ten of them pushed the real processes out.
func TestServicesOfStrangersAreNotBelieved(t *testing.T) {
	noWebhook := func(c *cluster) *cluster { c.webhook = ""; return c }
	const named = "Services with label celvpa.dev/explain=true in namespace %[1]s are not asked, because anyone may set it: if celvpa runs there, give --celvpa-namespace=%[1]s"
	for name, c := range map[string]*cluster{
		"the webhook says where":                         installed().forged("aaa", 12),
		"in kube-system":                                 noWebhook(installed().inNamespace("kube-system").forged("aaa", 12)),
		"in the usual namespace":                         noWebhook(installed().inNamespace("celvpa-system").forged("aaa", 12)),
		"in the usual namespace, which is the webhook's": installed().inNamespace("celvpa-system").forged("aaa", 12),
	} {
		t.Run(name, func(t *testing.T) {
			got := c.asks(t, Options{})
			require.Equal(t, "rec-2", got.Recommender.Instance)
			require.NotNil(t, got.Updater)
			require.Len(t, got.Admission, 2)
			require.Empty(t, got.Differences)
			require.Equal(t, []string{fmt.Sprintf(named, "aaa")}, got.Unknown)
			for _, seen := range c.seen {
				require.NotContains(t, seen, "/aaa/", "no token and no request")
			}
		})
	}
	for name, c := range map[string]*cluster{
		"the webhook's is another": installed().forged("celvpa-system", 1),
		"celvpa is in kube-system": noWebhook(installed().inNamespace("kube-system").forged("celvpa-system", 1)),
	} {
		t.Run("a tenant has the usual namespace, "+name, func(t *testing.T) {
			got := c.asks(t, Options{})
			require.Equal(t, "rec-2", got.Recommender.Instance)
			require.Empty(t, got.Differences)
			require.Equal(t, []string{fmt.Sprintf(named, "celvpa-system")}, got.Unknown)
		})
	}
	t.Run("celvpa is elsewhere", func(t *testing.T) {
		c := noWebhook(installed().forged("aaa", 1))
		got := c.asks(t, Options{})
		require.Nil(t, got.Recommender)
		require.Equal(t, []string{
			"celvpa's processes: no Service with label celvpa.dev/explain=true in namespaces kube-system, celvpa-system leads to one: " + install,
			"Services with label celvpa.dev/explain=true in namespaces aaa, sys are not asked, because anyone may set it: if celvpa runs there, give --celvpa-namespace=aaa,sys",
		}, got.Unknown)
		got = c.asks(t, Options{Namespaces: []string{"sys"}})
		require.Equal(t, "rec-2", got.Recommender.Instance)
		require.Empty(t, got.Unknown)
		require.Len(t, c.asks(t, Options{Namespaces: []string{"aaa", "sys"}}).Differences, 1, "the user says so")
	})
	t.Run("many strangers", func(t *testing.T) {
		c := installed()
		for i := range 7 {
			c.forged(fmt.Sprint("t", i), 1)
		}
		require.Equal(t, []string{"Services with label celvpa.dev/explain=true in namespaces t0, t1, t2, t3, t4 and others are not asked, because anyone may set it: if celvpa runs there, give --celvpa-namespace=t0,t1,t2,t3,t4"},
			c.asks(t, Options{}).Unknown)
	})
}

// TestUsersWhoMayListFewNamespaces may neither list Services in all namespaces nor read the registration of the webhook.
func TestUsersWhoMayListFewNamespaces(t *testing.T) {
	c := installed().inNamespace("celvpa-system").forged("aaa", 1)
	c.forbidden = func(path string) bool {
		return strings.HasSuffix(path, "/services") && !strings.Contains(path, "/celvpa-system/") || strings.HasSuffix(path, "/vpa-webhook-config")
	}
	got := c.asks(t, Options{})
	require.Equal(t, "rec-2", got.Recommender.Instance)
	require.Empty(t, got.Unknown)

	c.inNamespace("vpa")
	require.Equal(t, []string{"celvpa's processes: no Service with label celvpa.dev/explain=true in namespace celvpa-system leads to one, and this user may not list Services in namespace kube-system: " +
		"give celvpa's namespace by --celvpa-namespace, and have Role celvpa-explainer bound to this user there"}, c.asks(t, Options{}).Unknown)
	require.Equal(t, []string{"celvpa's processes: this user may not list Services in namespace other: give celvpa's namespace by --celvpa-namespace, and have Role celvpa-explainer bound to this user there"},
		c.asks(t, Options{Namespaces: []string{"other"}}).Unknown)
	_, err := VPA(t.Context(), Options{Config: &rest.Config{}, Namespaces: []string{"a", ""}}, "shop", "web")
	require.EqualError(t, err, "--celvpa-namespace has an empty name; give the namespaces of celvpa's processes, separated by commas")
}
