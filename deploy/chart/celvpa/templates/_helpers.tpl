{{/* Names. A component is a dictionary: key (in the values), name, port (of its metrics), values, root. */}}

{{- define "celvpa.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "celvpa.componentName" -}}
{{ include "celvpa.fullname" .root }}-{{ .name }}
{{- end -}}

{{- define "celvpa.serviceAccountName" -}}
{{ default (include "celvpa.componentName" .) .values.serviceAccount.name }}
{{- end -}}

{{- define "celvpa.webhookService" -}}
{{ default (printf "%s-webhook" (include "celvpa.fullname" .)) .Values.admissionController.service.name }}
{{- end -}}

{{- define "celvpa.rulesConfigMap" -}}
{{- if .Values.rulesConfigMap -}}
{{ .Values.rulesConfigMap }}
{{- else if or .Values.rules .Values.overlays -}}
{{ include "celvpa.fullname" . }}-rules
{{- end -}}
{{- end -}}

{{/* The Secret with the webhook's certificate; empty if the process makes its own. */}}
{{- define "celvpa.tlsSecret" -}}
{{- $a := .Values.admissionController -}}
{{- if $a.tls.secretName -}}
{{ $a.tls.secretName }}
{{- else if $a.certManager.enabled -}}
{{ include "celvpa.fullname" . }}-webhook-tls
{{- end -}}
{{- end -}}

{{/* The components that are enabled, by their keys in the values. */}}
{{- define "celvpa.components" -}}
{{- range $key, $of := dict "recommender" (dict "name" "recommender" "port" 8942) "updater" (dict "name" "updater" "port" 8943) "admissionController" (dict "name" "admission-controller" "port" 8944) }}
{{- if (index $.Values $key).enabled }}
{{ $key }}: {{ toJson $of }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Labels */}}

{{- define "celvpa.baseLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "celvpa.labels" -}}
{{ include "celvpa.baseLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "celvpa.selector" -}}
{{ include "celvpa.baseLabels" .root }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{- define "celvpa.componentLabels" -}}
{{ include "celvpa.labels" .root }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{- define "celvpa.componentMetadata" -}}
metadata:
  name: {{ include "celvpa.componentName" . }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "celvpa.componentLabels" . | nindent 4 }}
{{- end -}}

{{/* Settings that follow from several values */}}

{{/* A digest names one image, so another repository or tag drops that of all components; an empty one does, too. */}}
{{- define "celvpa.image" -}}
{{- $all := .root.Values.image -}}
{{- $own := .values.image -}}
{{- $digest := $all.digest -}}
{{- if or $own.repository $own.tag (hasKey $own "digest") }}{{ $digest = $own.digest }}{{ end -}}
{{- $repository := default $all.repository $own.repository -}}
{{- if $digest -}}
{{ printf "%s@%s" $repository $digest }}
{{- else -}}
{{ printf "%s:%s" $repository (coalesce $own.tag $all.tag .root.Chart.AppVersion) }}
{{- end -}}
{{- end -}}

{{- define "celvpa.leaderElection" -}}
{{- with .values.leaderElection -}}
{{- if kindIs "bool" .enabled }}{{ ternary "true" "" .enabled }}{{ else if gt (int $.values.replicas) 1 }}true{{ end -}}
{{- end -}}
{{- end -}}

{{/* What API servers would fill in is written out, so that helm owns it: what nobody owns stays, and is refused beside Recreate. */}}
{{- define "celvpa.strategy" -}}
{{- $own := .values.updateStrategy -}}
{{- $rolling := or $own (eq .key "admissionController") (include "celvpa.leaderElection" .) -}}
{{- $type := default (ternary "RollingUpdate" "Recreate" (not (empty $rolling))) $own.type -}}
type: {{ $type }}
{{- if eq $type "RollingUpdate" }}
{{- $update := dict "maxSurge" "25%" "maxUnavailable" "25%" }}
{{- if and (not $own) (eq .key "admissionController") }}
{{- /* A pod in the network of the node keeps its port from the next one, which may find no other node. */}}
{{- $surge := ternary 0 1 .values.hostNetwork }}
{{- $update = dict "maxSurge" $surge "maxUnavailable" (sub 1 $surge) }}
{{- end }}
{{- range $amount, $value := $own.rollingUpdate }}
{{- $_ := set $update $amount $value }}
{{- end }}
rollingUpdate: {{ toJson $update }}
{{- else if not $own }} # two at once would overwrite each other
{{- end }}
{{- end -}}

{{/* With failure policy Fail the pods of the release must not need the webhook, or no replica could start again. */}}
{{- define "celvpa.ignoredNamespaces" -}}
{{- $ignored := .Values.ignoredVpaObjectNamespaces -}}
{{- if and .Values.admissionController.enabled (eq .Values.admissionController.mutatingWebhookConfiguration.failurePolicy "Fail") (not .Values.vpaObjectNamespace) -}}
{{- $ignored = append $ignored .Release.Namespace -}}
{{- end -}}
{{ $ignored | uniq | join "," }}
{{- end -}}

{{/* Whether the admission controller finds out if API servers reach it: not if nothing in its namespace is sent to the webhook. */}}
{{- define "celvpa.probes" -}}
{{- if and .Values.admissionController.registerWebhook (not (has .Release.Namespace (include "celvpa.ignoredNamespaces" . | splitList ","))) }}true{{ end -}}
{{- end -}}

{{/* The rules of a file in files/rbac that this release needs, as a dictionary of two lists: "webhook" for cluster-scoped webhook
     configurations, "other" for the rest. */}}
{{- define "celvpa.rules" -}}
{{- $webhook := list -}}
{{- $other := list -}}
{{- range .root.Files.Get (printf "files/rbac/%s.yaml" .file) | fromYamlArray -}}
{{- if has "admissionregistration.k8s.io" .apiGroups -}}
{{- /* The chart creates the configuration, so nobody can create it again while the release is being uninstalled. */ -}}
{{- if not (has "create" .verbs) }}{{ $webhook = append $webhook (set . "resourceNames" (list "vpa-webhook-config")) }}{{ end -}}
{{- else if has "external.metrics.k8s.io" .apiGroups -}}
{{- if contains "--use-external-metrics" (join " " $.values.extraArgs | replace "_" "-") }}{{ $other = append $other . }}{{ end -}}
{{- else if and (has "leases" .resources) (not (has "create" .verbs)) -}}
{{- $other = append $other (set . "resourceNames" $.leases) -}}
{{- else -}}
{{- $other = append $other . -}}
{{- end -}}
{{- end -}}
{{ dict "webhook" $webhook "other" $other | toJson }}
{{- end -}}
