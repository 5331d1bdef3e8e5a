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

{{/*
The scheduler's configuration: what was given, and what is absent from it. Without the right to delete pods nothing may look for
victims: they would be marked for ever, and the pod nominated to a node that it can't have.
*/}}
{{- define "berth.config" -}}
{{- $release := include "berth.release" . -}}
{{- $config := deepCopy .Values.scheduler.config -}}
{{- $election := dict "resourceName" $release "resourceNamespace" .Release.Namespace -}}
{{- with ($config.leaderElection | default dict).resourceNamespace -}}
{{- if ne . $.Release.Namespace -}}
{{- fail (printf "scheduler.config.leaderElection.resourceNamespace: %q: want the release's namespace (%s) or nothing, as the rights on the Lease are there" . $.Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- $head := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" -}}
{{- $config = merge $config $head (dict "leaderElection" $election) -}}
{{- $profiles := $config.profiles | default (list dict) -}}
{{- if eq (len $profiles) 1 -}}
{{- $profiles = list (merge (first $profiles) (dict "schedulerName" $release)) -}}
{{- end -}}
{{- range $number, $profile := $profiles -}}
{{- if not $profile.schedulerName -}}
{{- fail (printf "scheduler.config.profiles[%d].schedulerName: want a name, as there are %d profiles" $number (len $profiles)) -}}
{{- end -}}
{{- if not $.Values.scheduler.rbac.preemption -}}
{{- $preemption := dict "name" "DefaultPreemption" -}}
{{- $plugins := $profile.plugins | default dict -}}
{{- $given := $plugins.postFilter | default dict -}}
{{- $enabled := list -}}
{{- range $given.enabled -}}
{{- if ne .name "DefaultPreemption" -}}{{- $enabled = append $enabled . -}}{{- end -}}
{{- end -}}
{{- $disabled := append ($given.disabled | default list) $preemption -}}
{{- $_ := set $plugins "postFilter" (dict "enabled" $enabled "disabled" $disabled) -}}
{{- $_ = set $profile "plugins" $plugins -}}
{{- end -}}
{{- end -}}
{{- $_ := set $config "profiles" $profiles -}}
{{- toYaml $config -}}
{{- end -}}

{{/* "true" where one of the scheduler's replicas leads; nothing where each schedules. */}}
{{- define "berth.elects" -}}
{{- if ne (toString (include "berth.config" . | fromYaml).leaderElection.leaderElect) "false" }}true{{ end -}}
{{- end -}}

{{/* Name of the Lease that the scheduler's configuration names. */}}
{{- define "berth.schedulerLease" -}}
{{- (include "berth.config" . | fromYaml).leaderElection.resourceName -}}
{{- end -}}
