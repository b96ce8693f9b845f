{{/* Rendered by `make manifests`; do not edit. */}}
{{- define "vgpu-scheduler.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "vgpu-scheduler.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- /* The settings: those of the manifests, then what values of HAMi's chart stand for, then those of the values. */}}
{{- define "vgpu-scheduler.settings" -}}
{{- $settings := fromJson `{"scheduler_names": ["vgpu-scheduler"], "profile": "Documented", "node_policy": "binpack", "device_policy": "spread"}` }}
{{- if ne .Release.Namespace "vgpu-system" }}{{- $_ := set $settings "lease" (dict "namespace" .Release.Namespace) }}{{- end }}
{{- with .Values.schedulerName }}{{- $_ := set $settings "scheduler_names" (append $settings.scheduler_names . | uniq) }}{{- end }}
{{- $hami := dict "nvidia" dict }}
{{- with .Values.scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy }}{{- $_ := set $hami "node_policy" . }}{{- end }}
{{- with .Values.scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy }}{{- $_ := set $hami "device_policy" . }}{{- end }}
{{- with .Values.resourceName }}{{- $_ := set $hami.nvidia "resource_count_name" . }}{{- end }}
{{- with .Values.resourceMem }}{{- $_ := set $hami.nvidia "resource_memory_name" . }}{{- end }}
{{- with .Values.resourceMemPercentage }}{{- $_ := set $hami.nvidia "resource_memory_percentage_name" . }}{{- end }}
{{- with .Values.resourceCores }}{{- $_ := set $hami.nvidia "resource_core_name" . }}{{- end }}
{{- with .Values.resourcePriority }}{{- $_ := set $hami.nvidia "resource_priority_name" . }}{{- end }}
{{- with .Values.scheduler.overwriteEnv | toString }}{{- $_ := set $hami.nvidia "overwrite_env" (eq . "true") }}{{- end }}
{{- if not .Values.scheduler.forceOverwriteDefaultScheduler }}
{{- $_ := set $hami "admission" (dict "overwrite_default_scheduler" false) }}
{{- end }}
{{- $labels := list }}
{{- range $name, $value := .Values.scheduler.nodeLabelSelector }}{{- $labels = append $labels (printf "%s=%s" $name $value) }}{{- end }}
{{- with $labels }}{{- $_ := set $hami "managed_nodes" (join "," .) }}{{- end }}
{{- if not $hami.nvidia }}{{- $_ := unset $hami "nvidia" }}{{- end }}
{{- toYaml (mergeOverwrite $settings $hami (deepCopy .Values.settings)) }}
{{- end }}

{{- define "vgpu-scheduler.settings-file" -}}
{{- if and .Values.hamiConfig.enabled (not (has (dig "profile" "" .Values.settings | toString) (list "" "HAMi210"))) }}
{{- fail "settings.profile: the chart sets it to HAMi210 for what is enabled; leave it out" }}
{{- end }}
{{- if and .Values.hamiConfig.enabled (not (has (dig "hami_device_config" "" .Values.settings | toString) (list "" "/etc/hami/device-config.yaml"))) }}
{{- fail "settings.hami_device_config: the chart sets it to /etc/hami/device-config.yaml for what is enabled; leave it out" }}
{{- end }}
{{- if and .Values.hamiConfig.enabled (not (has (dig "hami_metrics" "" .Values.settings | toString) (list "" "true"))) }}
{{- fail "settings.hami_metrics: the chart sets it to true for what is enabled; leave it out" }}
{{- end }}
{{- if and .Values.admissionWebhook.enabled (not (has (dig "admission" "enabled" "" .Values.settings | toString) (list "" "true"))) }}
{{- fail "settings.admission.enabled: the chart sets it to true for what is enabled; leave it out" }}
{{- end }}
{{- if and .Values.admissionWebhook.enabled (not (has (dig "admission" "port" "" .Values.settings | toString) (list "" "9443"))) }}
{{- fail "settings.admission.port: the chart sets it to 9443 for what is enabled; leave it out" }}
{{- end }}
{{- if and .Values.admissionWebhook.enabled (not (has (dig "admission" "cert_file" "" .Values.settings | toString) (list "" "/etc/vgpu-scheduler-admission/tls.crt"))) }}
{{- fail "settings.admission.cert_file: the chart sets it to /etc/vgpu-scheduler-admission/tls.crt for what is enabled; leave it out" }}
{{- end }}
{{- if and .Values.admissionWebhook.enabled (not (has (dig "admission" "key_file" "" .Values.settings | toString) (list "" "/etc/vgpu-scheduler-admission/tls.key"))) }}
{{- fail "settings.admission.key_file: the chart sets it to /etc/vgpu-scheduler-admission/tls.key for what is enabled; leave it out" }}
{{- end }}
{{- if and .Values.volcanoConfig.enabled (not (has (dig "volcano_device_config" "" .Values.settings | toString) (list "" "/etc/volcano/device-config.yaml"))) }}
{{- fail "settings.volcano_device_config: the chart sets it to /etc/volcano/device-config.yaml for what is enabled; leave it out" }}
{{- end }}
{{- if and .Values.history.enabled (not (has (dig "history" "directory" "" .Values.settings | toString) (list "" "/var/lib/vgpu-scheduler/history"))) }}
{{- fail "settings.history.directory: the chart sets it to /var/lib/vgpu-scheduler/history for what is enabled; leave it out" }}
{{- end }}
{{- if and .Values.preemption.enabled (not (has (dig "preemption" "" .Values.settings | toString) (list "" "true"))) }}
{{- fail "settings.preemption: the chart sets it to true for what is enabled; leave it out" }}
{{- end }}
settings.yaml: |
{{- include "vgpu-scheduler.settings" . | nindent 2 }}
{{- end }}
