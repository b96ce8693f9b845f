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
{{- $settings := fromJson `<manifests>` }}
{{- if ne .Release.Namespace "vgpu-system" }}{{- $_ := set $settings "lease" (dict "namespace" .Release.Namespace) }}{{- end }}
{{- with .Values.schedulerName }}{{- $_ := set $settings "scheduler_names" (append $settings.scheduler_names . | uniq) }}{{- end }}
{{- $hami := dict "nvidia" dict }}
<hami>
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
<environment>
settings.yaml: |
{{- include "vgpu-scheduler.settings" . | nindent 2 }}
{{- end }}
