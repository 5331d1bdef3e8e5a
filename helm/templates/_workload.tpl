{{/*
What the four Deployments share. Takes (dict "root" $ "component" … "values" .Values.… "args" (list …)) and, where a component
has them: "ports", "probes" and "mounts" as YAML, "volumes" as YAML, "grace" in seconds, "checksum" of what it reads at start, "alone"
if two may never run.
*/}}
{{- define "berth.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
spec:
  replicas: {{ .values.replicas }}
  revisionHistoryLimit: 3
  strategy:
    {{- if .alone }}
    type: Recreate
    {{- else }}
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
    {{- end }}
  selector:
    matchLabels:
      {{- include "berth.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "berth.selector" . | nindent 8 }}
        {{- with .values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ .component }}
        {{- with .checksum }}
        checksum/config: {{ . }}
        {{- end }}
        {{- with .values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "berth.name" . }}
      # The account itself hands out no tokens; this pod asks for one.
      automountServiceAccountToken: true
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ .grace | default 30 }}
      {{- with .values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if .values.topologySpread.enabled }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: {{ .values.topologySpread.topologyKey }}
          whenUnsatisfiable: {{ .values.topologySpread.whenUnsatisfiable }}
          labelSelector:
            matchLabels:
              {{- include "berth.selector" . | nindent 14 }}
          # Replicas of another revision do not count, so that a rollout spreads too.
          matchLabelKeys: [pod-template-hash]
      {{- end }}
      {{- with .values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: {{ .component }}
          image: {{ include "berth.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args:
            {{- range .args }}
            - {{ . }}
            {{- end }}
            - --log-level={{ .root.Values.logLevel }}
            {{- range .values.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          {{- with .ports }}
          ports:
            {{- . | nindent 12 }}
          {{- end }}
          {{- with .probes }}
          {{- . | nindent 10 }}
          {{- end }}
          {{- with .values.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          volumeMounts:
            # Keys pass through here on their way into OpenSSL; they never reach a disk.
            - {name: tmp, mountPath: /tmp}
            {{- with .mounts }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with .values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir: {medium: Memory, sizeLimit: 1Mi}
        {{- with .volumes }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with .values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end -}}

{{- define "berth.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
spec:
  # One may always be drained, so that a single replica holds up no node.
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "berth.selector" . | nindent 6 }}
{{- end -}}

{{- define "berth.metricsService" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "berth.name" . }}-metrics
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "berth.labels" . | nindent 4 }}
    podberth.dev/metrics: {{ .root.Release.Name }}
spec:
  # Each replica has figures of its own: no address in between.
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "berth.selector" . | nindent 4 }}
  ports:
    - {name: metrics, port: 10259, targetPort: metrics}
{{- end -}}


{{/* Probes of the port that has health and metrics. A standby is ready, too. */}}
{{- define "berth.securePortProbes" -}}
startupProbe:
  httpGet: {path: /livez, port: metrics, scheme: HTTPS}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /readyz, port: metrics, scheme: HTTPS}
  periodSeconds: 5
  timeoutSeconds: 5
livenessProbe:
  httpGet: {path: /livez, port: metrics, scheme: HTTPS}
  periodSeconds: 10
  timeoutSeconds: 15
  failureThreshold: 8
{{- end -}}
