{{/*
Which of the API server's queues requests wait in (API Priority and Fairness). Without this, those of all service accounts share the
level `workload-low`: a storm of binds, or another tenant's controller, makes the Lease wait, and it is lost. The levels are the API
server's own.
*/}}

{{/* Leases wait with the Leases of all, and with nothing else. */}}
{{- define "berth.leaseFlow" -}}
{{- $named := dict "root" .root "component" (printf "%s-lease" .component) -}}
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata:
  name: {{ include "berth.clusterName" $named }}
  labels:
    {{- include "berth.labels" . | nindent 4 }}
spec:
  priorityLevelConfiguration:
    name: leader-election
  matchingPrecedence: 810
  distinguisherMethod:
    type: ByUser
  rules:
    - subjects:
        {{- include "berth.flowSubject" . | nindent 8 }}
      resourceRules:
        - apiGroups: [coordination.k8s.io]
          resources: [leases]
          verbs: [get, create, update]
          namespaces: [{{ .root.Release.Namespace }}]
{{- end -}}

{{/* Everything else of the scheduler waits where kube-scheduler's requests do. */}}
{{- define "berth.schedulerFlow" -}}
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata:
  {{- include "berth.clusterMetadata" . | nindent 2 }}
spec:
  priorityLevelConfiguration:
    name: workload-high
  matchingPrecedence: 820
  distinguisherMethod:
    type: ByUser
  rules:
    - subjects:
        {{- include "berth.flowSubject" . | nindent 8 }}
      resourceRules:
        - apiGroups: ["*"]
          resources: ["*"]
          verbs: ["*"]
          namespaces: ["*"]
          clusterScope: true
{{- end -}}

{{- define "berth.flowSubject" -}}
- kind: ServiceAccount
  serviceAccount:
    name: {{ include "berth.name" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}
