{{- define "wad.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "wad.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "wad.labels" -}}
{{ include "wad.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- /* In clusters before 1.37 no kubelet has a socket, and its folder would stay on each node. */ -}}
{{- define "wad.asksKubelet" -}}
{{- if and .Values.pods.kubelet (semverCompare ">=1.37.0-0" .Capabilities.KubeVersion.Version) -}}
yes
{{- end -}}
{{- end -}}
