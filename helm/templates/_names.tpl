{{/* What objects are called. The release's name is the prefix of all, so that two releases never share one. */}}

{{- define "berth.release" -}}
{{- if or (contains "." .Release.Name) (gt (len .Release.Name) 40) -}}
{{- fail (printf "release name %q: want at most 40 characters without a dot, as Services are named after it" .Release.Name) -}}
{{- end -}}
{{- .Release.Name -}}
{{- end -}}

{{/* A component's objects in the release's namespace. Takes (dict "root" $ "component" "scheduler"). */}}
{{- define "berth.name" -}}
{{ include "berth.release" .root }}-{{ .component }}
{{- end -}}

{{/* A component's objects outside of namespaces: the same, with the namespace where it is not the release's own name. */}}
{{- define "berth.clusterName" -}}
{{ include "berth.name" . }}{{ if ne .root.Release.Namespace .root.Release.Name }}.{{ .root.Release.Namespace }}{{ end }}
{{- end -}}

{{- define "berth.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "berth.labels" -}}
{{ include "berth.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{- define "berth.metadata" -}}
name: {{ include "berth.name" . }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "berth.labels" . | nindent 2 }}
{{- end -}}

{{- define "berth.clusterMetadata" -}}
name: {{ include "berth.clusterName" . }}
labels:
  {{- include "berth.labels" . | nindent 2 }}
{{- end -}}

{{- define "berth.image" -}}
{{- with .Values.image -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end -}}

{{/* The scheduler's configuration: what was given, and what is absent from it. */}}
{{- define "berth.config" -}}
{{- $release := include "berth.release" . -}}
{{- $election := dict "resourceName" $release "resourceNamespace" .Release.Namespace -}}
{{- with (.Values.scheduler.config.leaderElection | default dict).resourceNamespace -}}
{{- if ne . $.Release.Namespace -}}
{{- fail (printf "scheduler.config.leaderElection.resourceNamespace: %q: want the release's namespace (%s) or nothing, as the rights on the Lease are there" . $.Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- $head := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" -}}
{{- $absent := merge $head (dict "leaderElection" $election) -}}
{{- if not .Values.scheduler.config.profiles -}}
{{- $absent = merge (dict "profiles" (list (dict "schedulerName" $release))) $absent -}}
{{- end -}}
{{- toYaml (merge (deepCopy .Values.scheduler.config) $absent) -}}
{{- end -}}

{{/* Name of the Lease that the scheduler's configuration names. */}}
{{- define "berth.schedulerLease" -}}
{{- (include "berth.config" . | fromYaml).leaderElection.resourceName -}}
{{- end -}}
