// Package monitoring tests what deploy/monitoring and deploy/argocd hold with the real programs that read it: Prometheus,
// promtool and kube-state-metrics, on a lab with celvpa, and the Lua of Argo CD.
package monitoring
