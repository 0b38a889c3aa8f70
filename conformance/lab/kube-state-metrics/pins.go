//go:build pins

// Package pins pins kube-state-metrics in its own module, because Kubernetes' and its versions
// would change each other.
package pins

import _ "k8s.io/kube-state-metrics/v2"
