{{/* Pieces of the rights that components share. All take (dict "root" $ "component" …). */}}

{{- define "berth.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
  {{- with .values.serviceAccountAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end -}}

{{/* Bind the ClusterRole of the same name, or of that name with "role" behind it. */}}
{{- define "berth.clusterBinding" -}}
{{- $named := dict "root" .root "component" (printf "%s%s" .component (.role | default "")) -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "berth.clusterMetadata" $named | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ include "berth.clusterName" $named }}
subjects:
  - kind: ServiceAccount
    name: {{ include "berth.name" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{- define "berth.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "berth.name" . }}
subjects:
  - kind: ServiceAccount
    name: {{ include "berth.name" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{/* One Lease. A create has no name yet, so it can't be limited to one. Takes "lease". */}}
{{- define "berth.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ .lease }}]
  verbs: [get, update]
{{- end -}}

{{/* Who asks for metrics, and may they. */}}
{{- define "berth.reviewRules" -}}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}

{{/* Read which CAs sign the certificates of the cluster's clients: by the Role that each cluster has for that. */}}
{{- define "berth.authoritiesBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ include "berth.clusterName" . }}
  namespace: kube-system
  labels:
    {{- include "berth.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: extension-apiserver-authentication-reader
subjects:
  - kind: ServiceAccount
    name: {{ include "berth.name" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{/* What filters read: pods and nodes are needed, the rest makes decisions better and may be taken away. Takes the verbs on "nodes". */}}
{{- define "berth.readRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch] # get: one whose Binding was not answered, or that is to be evicted
- apiGroups: [""]
  resources: [nodes]
  verbs: [{{ .nodes }}]
- apiGroups: [""]
  resources: [namespaces, services, replicationcontrollers, persistentvolumes, persistentvolumeclaims]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [replicasets, statefulsets]
  verbs: [list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses, csinodes, csidrivers, csistoragecapacities, volumeattachments]
  verbs: [list, watch]
{{- end -}}
