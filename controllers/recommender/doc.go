// Package recommender turns usage into recommendations: it samples metrics, remembers them in the model, lets the
// rules estimate and recommend, and writes the status of VerticalPodAutoscalers.
package recommender
