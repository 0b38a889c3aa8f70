package ask

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/inspect"
	"github.com/celvpa/celvpa/webhook"
)

const (
	label = inspect.ServiceLabel + "=true"
	// maxListed and maxNamed bound what is said about Services that are not asked.
	maxListed = 500
	maxNamed  = 5
)

// services finds those that lead to an endpoint, by namespace and name. Anyone may label a Service, so only those in namespaces that
// tenants do not own are believed; unknown names the namespaces of others.
func (c *restClient) services(ctx context.Context) (found []corev1.Service, unknown []string) {
	var looked, without, refused []string
	for _, namespaces := range c.trusted(ctx) {
		for _, namespace := range namespaces {
			var list corev1.ServiceList
			err := c.list(ctx, "services", namespace, label, &list)
			switch {
			case apierrors.IsForbidden(err):
				refused = append(refused, namespace)
			case err != nil:
				return nil, []string{fmt.Sprintf("celvpa's processes: listing the Services with label %s: %v", label, shorter(err))}
			}
			looked, found = append(looked, namespace), append(found, list.Items...)
			if err == nil {
				without = append(without, namespace)
			}
		}
		if len(found) > 0 {
			break
		}
	}
	slices.SortFunc(found, func(a, b corev1.Service) int { return strings.Compare(serviceName(&a), serviceName(&b)) })
	switch {
	case len(found) > 0:
	case len(refused) == 0:
		unknown = append(unknown, fmt.Sprintf("celvpa's processes: no Service with label %s in %s leads to one: install the chart with explain.enabled=true, or run the components with --explain-address behind such a Service; "+
			"if celvpa is in another namespace, give it by --celvpa-namespace", label, namespacesText(without)))
	default:
		nowhere := ""
		if len(without) > 0 {
			nowhere = fmt.Sprintf("no Service with label %s in %s leads to one, and ", label, namespacesText(without))
		}
		unknown = append(unknown, fmt.Sprintf("celvpa's processes: %sthis user may not list Services in %s: give celvpa's namespace by --celvpa-namespace, and have Role %s bound to this user there",
			nowhere, namespacesText(refused), role))
	}
	if len(c.namespaces) == 0 {
		unknown = append(unknown, c.strangers(ctx, looked)...)
	}
	return found, unknown
}

// trusted are the namespaces whose Services are believed; those of a later list only if the earlier ones have none. Tenants own
// neither kube-system nor the namespace that the registration of the webhook names. They may own celvpa-system if celvpa is elsewhere.
func (c *restClient) trusted(ctx context.Context) [][]string {
	if len(c.namespaces) > 0 {
		return [][]string{c.namespaces}
	}
	first := []string{metav1.NamespaceSystem}
	if registered := c.webhookNamespace(ctx); registered != "" && registered != metav1.NamespaceSystem {
		first = append(first, registered)
	}
	if slices.Contains(first, usualNamespace) {
		return [][]string{first}
	}
	return [][]string{first, {usualNamespace}}
}

// webhookNamespace is that of the Service of the admission webhook; empty if there is none, or this user may not read it.
func (c *restClient) webhookNamespace(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var config admissionregistrationv1.MutatingWebhookConfiguration
	path := []string{"apis", admissionregistrationv1.GroupName, "v1", "mutatingwebhookconfigurations", webhook.ConfigName}
	if err := c.Get().AbsPath(path...).Do(ctx).Into(&config); err != nil {
		return ""
	}
	for _, hook := range config.Webhooks {
		if service := hook.ClientConfig.Service; hook.Name == webhook.WebhookName && service != nil {
			return service.Namespace
		}
	}
	return ""
}

// strangers names the other namespaces with such Services, if this user may list them.
func (c *restClient) strangers(ctx context.Context, looked []string) []string {
	var list corev1.ServiceList
	if c.listPage(ctx, "services", "", &metav1.ListOptions{LabelSelector: label, Limit: maxListed}, &list) != nil {
		return nil // the user may not know
	}
	var others []string
	for i := range list.Items {
		if namespace := list.Items[i].Namespace; !slices.Contains(looked, namespace) {
			others = append(others, namespace)
		}
	}
	slices.Sort(others)
	others = slices.Compact(others)
	more := ""
	if len(others) > maxNamed {
		others, more = others[:maxNamed], " and others"
	}
	if len(others) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Services with label %s in %s%s are not asked, because anyone may set it: if celvpa runs there, give --celvpa-namespace=%s",
		label, namespacesText(others), more, strings.Join(others, ","))}
}

// namespacesText names at least one namespace.
func namespacesText(names []string) string {
	if len(names) == 1 {
		return "namespace " + names[0]
	}
	return "namespaces " + strings.Join(names, ", ")
}
