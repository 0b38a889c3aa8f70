// Package webhook is the admission server: it gives new pods the recommended resources and refuses invalid
// VerticalPodAutoscalers. Both answers come from rules. A fault here never keeps a pod from being created.
package webhook
