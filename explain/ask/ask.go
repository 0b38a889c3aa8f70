// Package ask finds the processes of celvpa in a cluster and asks them what they know about one
// VerticalPodAutoscaler, through the API server. What cannot be asked is said, with the way out; it
// is not an error. The endpoint is package inspect.
package ask

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/inspect"
)

const (
	// timeout is for each process, and for each of the requests that find them.
	timeout = 5 * time.Second
	// maxServices and maxPods bound the requests.
	maxServices = 10
	maxPods     = 5
	// maxAnswer is more than an endpoint sends.
	maxAnswer = 9 << 20
)

// Options say how to find and to ask the processes.
type Options struct {
	Config *rest.Config
	// Namespaces are those of celvpa's processes, whose Services with the label are believed; empty = kube-system and the one that
	// the registration of the webhook names or, if they have none, celvpa-system.
	Namespaces []string
	// ServiceAccount, as NAMESPACE/NAME, is the one whose tokens are sent; empty = celvpa-explain in
	// the namespace of each Service. Its tokens go to no namespaces but Namespaces, or its own.
	ServiceAccount string
}

// Result is what the processes say, nil for those that say nothing.
type Result struct {
	Recommender *answers.Recommender
	Updater     *answers.Updater
	Admission   []answers.Admission // of each replica
	Unknown     []string            // what could not be asked, why, and the way out
	Differences []string            // processes that contradict each other: two that lead
	// Rules are the digests of each process if they differ, which policy flags of one component are
	// reason enough for.
	Rules string
}

// VPA asks all processes about one VPA. The only errors are those of the options.
func VPA(ctx context.Context, o Options, namespace, name string) (*Result, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	services, unknown := c.services(ctx)
	m := &merger{result: &Result{Unknown: unknown}}
	if len(services) > maxServices {
		m.unknown("only %d of %d Services with label %s are asked: give --celvpa-namespace", maxServices, len(services), label)
		services = services[:maxServices]
	}
	tokens := map[account]token{}
	for _, s := range services {
		if a := c.account(s.Namespace); tokens[a] == (token{}) {
			tokens[a] = c.token(ctx, a)
			if problem := tokens[a].problem; problem != "" {
				m.unknown("%s", problem)
			}
		}
	}
	replies := make([][]reply, len(services))
	var asked sync.WaitGroup
	for i, s := range services {
		if token := tokens[c.account(s.Namespace)]; token.problem == "" {
			asked.Go(func() { replies[i] = c.ask(ctx, &s, token.text, inspect.Path(namespace, name)) })
		}
	}
	asked.Wait()
	for i := range services {
		m.service(serviceName(&services[i]), replies[i])
	}
	m.finish(len(services) > 0)
	return m.result, nil
}

// reply is what one process answers, or why it does not.
type reply struct {
	from    string // e.g. pod celvpa-updater-5d5f8d-abcde; empty = the Service itself
	answer  answers.Answer
	problem string
}

// ask asks the running pods of a Service. API servers proxy to nothing but pods.
func (c *restClient) ask(ctx context.Context, s *corev1.Service, token, path string) []reply {
	port := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == inspect.PortName })
	switch {
	case port < 0:
		return []reply{{problem: fmt.Sprintf("it has no port called %s", inspect.PortName)}}
	case len(s.Spec.Selector) == 0:
		return []reply{{problem: "it selects no pods, and API servers proxy to pods only: give it a selector"}}
	}
	pods, problem := c.pods(ctx, s)
	if problem != "" {
		return []reply{{problem: problem}}
	}
	if len(pods) > maxPods {
		pods = pods[:maxPods]
	}
	out := make([]reply, len(pods))
	var asked sync.WaitGroup
	for i := range pods {
		number := portOf(&pods[i], s.Spec.Ports[port])
		if number == "" {
			out[i] = reply{from: "pod " + pods[i].Name, problem: fmt.Sprintf("it has no port called %s", s.Spec.Ports[port].TargetPort.String())}
			continue
		}
		asked.Go(func() { out[i] = c.get(ctx, s.Namespace, pods[i].Name, number, token, path) })
	}
	asked.Wait()
	return out
}

func serviceName(s *corev1.Service) string { return s.Namespace + "/" + s.Name }

// portOf is the number of a Service's port in a pod; empty = it has none.
func portOf(pod *corev1.Pod, port corev1.ServicePort) string {
	if target := port.TargetPort; target.StrVal == "" {
		if target.IntVal == 0 {
			return fmt.Sprint(port.Port)
		}
		return fmt.Sprint(target.IntVal)
	}
	for _, container := range pod.Spec.Containers {
		for _, p := range container.Ports {
			if p.Name == port.TargetPort.StrVal {
				return fmt.Sprint(p.ContainerPort)
			}
		}
	}
	return ""
}

// account is a ServiceAccount.
type account struct{ namespace, name string }

// parseAccount reads NAMESPACE/NAME.
func parseAccount(text string) (a account, err error) {
	parts := strings.Split(text, "/")
	if len(parts) != 2 || parts[0] == "" || parts[1] == "" {
		return a, fmt.Errorf("--service-account is %q; give NAMESPACE/NAME", text)
	}
	return account{namespace: parts[0], name: parts[1]}, nil
}
