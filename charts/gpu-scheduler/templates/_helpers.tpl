{{/*
Names are fixed, not made from the release's: schedulers, leases and roles of one cluster
are found by them, and two releases on one cluster would be two schedulers of one fleet.
Arguments of all helpers: top (the root context) and, of most, name: scheduler,
controller, agent or extender.
*/}}
{{- define "tangram.selector" -}}
app.kubernetes.io/name: gpu-{{ .name }}
app.kubernetes.io/instance: {{ .top.Release.Name }}
{{- end }}

{{- define "tangram.labels" -}}
{{- if .name -}}
{{ include "tangram.selector" . }}
{{- else -}}
app.kubernetes.io/name: tangram
app.kubernetes.io/instance: {{ .top.Release.Name }}
{{- end }}
app.kubernetes.io/part-of: tangram
app.kubernetes.io/version: {{ .top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .top.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .top.Chart.Name .top.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "tangram.image" -}}
{{- $component := index .top.Values .name -}}
{{- $image := printf "%s/%s" (trimSuffix "/" .top.Values.image.registry) $component.image.repository -}}
{{- if $component.image.digest -}}
{{ $image }}@{{ $component.image.digest }}
{{- else -}}
{{ $image }}:{{ .top.Values.image.tag | default .top.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* A program's own metadata: name, namespace, labels. */}}
{{- define "tangram.metadata" -}}
name: gpu-{{ .name }}
namespace: {{ .top.Release.Namespace }}
labels:
  {{- include "tangram.labels" . | nindent 2 }}
{{- end }}

{{/*
Metadata of a pod template. checksum is the text whose change replaces the pods. No label
of a version: a new chart replaces only the pods that it changes.
*/}}
{{- define "tangram.podMetadata" -}}
{{- $component := index .top.Values .name -}}
labels:
  {{- include "tangram.selector" . | nindent 2 }}
  app.kubernetes.io/part-of: tangram
  {{- with $component.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  kubectl.kubernetes.io/default-container: gpu-{{ .name }}
  {{- with .checksum }}
  checksum/config: {{ sha256sum . }}
  {{- end }}
  {{- with $component.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* What the pods of a component have in common, above containers and volumes. */}}
{{- define "tangram.podSpec" -}}
{{- $component := index .top.Values .name -}}
serviceAccountName: gpu-{{ .name }}
automountServiceAccountToken: true
enableServiceLinks: false
{{- with .top.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- with $component.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $component.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $component.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* Replicas on different nodes where there are several. */}}
{{- define "tangram.spread" -}}
{{- $component := index .top.Values .name -}}
affinity:
{{- if $component.affinity }}
  {{- toYaml $component.affinity | nindent 2 }}
{{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "tangram.selector" . | nindent 12 }}
{{- end }}
{{- end }}

{{/* Programs without business on the node. */}}
{{- define "tangram.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "tangram.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* The pod's address: programs listen on it alone, not on every address of the pod. */}}
{{- define "tangram.env" -}}
{{- $component := index .top.Values .name -}}
env:
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- if eq .name "scheduler" }}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- end }}
{{- with $component.extraEnv }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* Liveness and readiness of a port. */}}
{{- define "tangram.probes" -}}
startupProbe:
  httpGet: {path: {{ .live }}, port: {{ .port }}, scheme: {{ .scheme }}}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: {{ .live }}, port: {{ .port }}, scheme: {{ .scheme }}}
  periodSeconds: 10
  timeoutSeconds: 15
  failureThreshold: 8
readinessProbe:
  httpGet: {path: {{ .ready }}, port: {{ .port }}, scheme: {{ .scheme }}}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{/*
KubeSchedulerConfiguration: config/scheduler.yaml with one profile for each name, and the
arguments of plugins from the values over its own.
*/}}
{{- define "tangram.schedulerConfig" -}}
{{- if .Values.scheduler.config -}}
{{- toYaml .Values.scheduler.config -}}
{{- else -}}
{{- $config := fromYaml (.Files.Get "files/scheduler.yaml") -}}
{{- $profile := first $config.profiles -}}
{{- $args := deepCopy .Values.scheduler.pluginArgs -}}
{{- if .Values.scheduler.prices -}}
{{- $args = mergeOverwrite (dict "GPUQueue" (dict "metrics" (dict "priceTable" "/etc/gpu-scheduler-prices/prices.yaml"))) $args -}}
{{- end -}}
{{- if (.Values.autoscaling).enabled -}}
{{- $args = mergeOverwrite (dict "GPUQueue" (dict "autoscaling" (dict "enabled" true))) $args -}}
{{- end -}}
{{- $plugins := list -}}
{{- range $profile.pluginConfig -}}
{{- $plugins = append $plugins (dict "name" .name "args" (mergeOverwrite (deepCopy .args) (get $args .name | default dict))) -}}
{{- $_ := unset $args .name -}}
{{- end -}}
{{- range $name := keys $args | sortAlpha -}}
{{- $plugins = append $plugins (dict "name" $name "args" (get $args $name)) -}}
{{- end -}}
{{- $profiles := list -}}
{{- range .Values.scheduler.profiles -}}
{{- $profiles = append $profiles (merge (dict "schedulerName" . "pluginConfig" $plugins) (deepCopy $profile)) -}}
{{- end -}}
{{- toYaml (set $config "profiles" $profiles) -}}
{{- end -}}
{{- end }}

{{/*
Roles and bindings of a component: those of config/, with its ServiceAccount as subject.
*/}}
{{- define "tangram.rbac" -}}
{{- $top := .top -}}
{{- $name := .name -}}
{{- range splitList "\n---\n" ($top.Files.Get (printf "files/rbac/%s.yaml" (.file | default .name))) }}
{{- $object := fromYaml . }}
{{- if or $top.Values.controller.sshKeys (not (hasSuffix ":ssh-keys" $object.metadata.name)) }}
{{- $_ := set $object.metadata "labels" (fromYaml (include "tangram.labels" (dict "top" $top "name" $name))) }}
{{- if $object.subjects }}
{{- $_ := set $object "subjects" (list (dict "kind" "ServiceAccount" "name" (printf "gpu-%s" $name) "namespace" $top.Release.Namespace)) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}
