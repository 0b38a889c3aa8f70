// Package webhook is the admission server. It gives new pods their recommended resources and refuses invalid
// VerticalPodAutoscalers; rules decide both. A fault of its own never keeps a pod from being created.
//
// A review comes in through Listener (HTTPS), is read, bounded and timed by Server, and answered by Handler, which looks up what
// concerns the object and asks podreview or vpareview. Registrar keeps the MutatingWebhookConfiguration in place, with the CAs of
// package certificates.
package webhook
