{{/* The name of the controller's objects: the release's name, plus the chart's name unless already included. */}}
{{- define "compaction-operator.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "compaction-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "compaction-operator.labels" -}}
{{ include "compaction-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "compaction-operator.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* The configuration file. Lists and maps are passed through unchanged: values.schema.json and the operator validate them. */}}
{{- define "compaction-operator.config" -}}
{{- $profiles := list -}}
{{- range .Values.profiles -}}
{{- $own := dict "image" (include "compaction-operator.image" $) "imagePullPolicy" $.Values.image.pullPolicy -}}
{{- $profiles = append $profiles (merge (dict) . $own) -}}
{{- end -}}
{{- $metrics := pick .Values.metrics "enabled" "port" -}}
{{- $own := dict "profiles" $profiles "metrics" $metrics -}}
{{- pick .Values "warehouses" "cleanup" "maxConcurrentJobs" "jobTtl" | merge $own | toYaml -}}
{{- end -}}

{{/* The distinct namespaces of all warehouses, as a JSON object {"items": [...]}. */}}
{{- define "compaction-operator.namespaces" -}}
{{- $namespaces := list -}}
{{- range .Values.warehouses -}}
{{- $namespaces = concat $namespaces .namespaces -}}
{{- end -}}
{{- dict "items" ($namespaces | uniq | sortAlpha) | toJson -}}
{{- end -}}

{{/* The distinct volumes of all warehouses, as a JSON object {"items": [{claimName, mountPath}]}. */}}
{{- define "compaction-operator.volumes" -}}
{{- $volumes := list -}}
{{- range .Values.warehouses -}}
{{- with .volume -}}
{{- $volumes = append $volumes . -}}
{{- end -}}
{{- end -}}
{{- dict "items" ($volumes | uniq) | toJson -}}
{{- end -}}

{{/* The distinct secrets of all metastores, as a JSON object {"items": [{name, mountPath}]}. */}}
{{- define "compaction-operator.secrets" -}}
{{- $secrets := list -}}
{{- range .Values.warehouses -}}
{{- with .metastore.secret -}}
{{- $secrets = append $secrets . -}}
{{- end -}}
{{- end -}}
{{- dict "items" ($secrets | uniq) | toJson -}}
{{- end -}}

{{/* The distinct Kerberos configuration files of all metastores, in the format of KRB5_CONFIG. */}}
{{- define "compaction-operator.krb5Config" -}}
{{- $files := list -}}
{{- range .Values.warehouses -}}
{{- with .metastore.kerberos -}}
{{- with .configFile -}}
{{- $files = append $files . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $files | uniq | join ":" -}}
{{- end -}}
