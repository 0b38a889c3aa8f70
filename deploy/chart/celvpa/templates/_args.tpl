{{/* The arguments of a component. Numbers of a values file are floats, and would be written as 1e+06. extraArgs come last, so they win. */}}
{{- define "celvpa.args" -}}
{{- $v := .root.Values -}}
- {{ .name }}
- --address=:{{ .port }}
{{- with $v.explain }}
{{- if .enabled }}
- --explain-address=:{{ .port }}
{{- end }}
{{- end }}
- --v={{ int64 .values.logLevel }}
- --logging-format={{ $v.logFormat }}
{{- with $v.featureGates }}
- --feature-gates={{ range $i, $gate := keys . | sortAlpha }}{{ if $i }},{{ end }}{{ $gate }}={{ index $v.featureGates $gate }}{{ end }}
{{- end }}
{{- with $v.vpaObjectNamespace }}
- --vpa-object-namespace={{ . }}
{{- end }}
{{- with include "celvpa.ignoredNamespaces" .root }}
- --ignored-vpa-object-namespaces={{ . }}
{{- end }}
{{- if include "celvpa.rulesConfigMap" .root }}
- --rules-dir=/etc/celvpa/rules
{{- end }}
{{- if include "celvpa.leaderElection" . }}
{{- with .values.leaderElection }}
- --leader-elect
- --leader-elect-resource-namespace={{ default "$(NAMESPACE)" .resourceNamespace }}
- --leader-elect-resource-name={{ .resourceName }}
- --leader-elect-lease-duration={{ .leaseDuration }}
- --leader-elect-renew-deadline={{ .renewDeadline }}
- --leader-elect-retry-period={{ .retryPeriod }}
{{- end }}
{{- end }}
{{- include (printf "celvpa.args.%s" .key) . }}
{{- with .values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "celvpa.args.recommender" }}{{ end -}}

{{- define "celvpa.args.updater" }}
{{- if .values.evictionRateLimit }}
- --eviction-rate-limit={{ toJson .values.evictionRateLimit }}
- --eviction-rate-burst={{ int64 .values.evictionRateBurst }}
{{- end }}
{{- with .values.firstCycleEvictions }}
- --first-cycle-evictions={{ int64 . }}
{{- end }}
{{- end -}}

{{- define "celvpa.args.admissionController" }}
- --port={{ int64 .values.port }}
- --shutdown-delay-duration={{ int64 .values.shutdownDelaySeconds }}s
{{- if include "celvpa.tlsSecret" .root }}
- --tls-cert-file=/etc/tls-certs/tls.crt
- --tls-private-key=/etc/tls-certs/tls.key
{{- if .values.registerWebhook }}
- --client-ca-file=/etc/tls-certs/ca.crt
{{- end }}
- --reload-cert
{{- end }}
- --webhook-service={{ include "celvpa.webhookService" .root }}
- --webhook-timeout-seconds={{ int64 .values.mutatingWebhookConfiguration.timeoutSeconds }}
{{- if not (include "celvpa.probes" .root) }}
- --webhook-probe-interval=0
{{- end }}
{{- if not .values.registerWebhook }}
- --register-webhook=false
{{- else if eq .values.mutatingWebhookConfiguration.failurePolicy "Fail" }}
- --webhook-failure-policy-fail
{{- end }}
{{- /* VPAs are checked against the interval of the updater. */}}
{{- range .root.Values.updater.extraArgs }}
{{- if replace "_" "-" . | hasPrefix "--updater-interval=" }}
- {{ . }}
{{- end }}
{{- end }}
{{- end -}}
