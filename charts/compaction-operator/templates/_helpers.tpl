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
{{- include "compaction-operator.named" (dict "image" .Values.image "context" .) -}}
{{- end -}}

{{- define "compaction-operator.controllerImage" -}}
{{- $own := .Values.controllerImage | default dict -}}
{{- if and $own.digest (not $own.repository) -}}
{{- fail "controllerImage.digest is set, but controllerImage.repository is empty, so that it would be ignored: set both, or image.digest for the image of all pods" -}}
{{- end -}}
{{- include "compaction-operator.named" (dict "image" (ternary $own .Values.image (not (empty $own.repository))) "context" .) -}}
{{- end -}}

{{/*
An image with the tag of both, and its own digest if there is one: then nodes take the digest.
*/}}
{{- define "compaction-operator.named" -}}
{{ .image.repository }}:{{ .context.Values.image.tag | default .context.Chart.AppVersion }}{{ with .image.digest }}@{{ . }}{{ end }}
{{- end -}}

{{/*
The configuration file. Lists and maps are passed through unchanged: values.schema.json and the operator validate them.
What a schema cannot express, and would keep the controller from starting, fails here.
*/}}
{{- define "compaction-operator.config" -}}
{{- range $kind := list "warehouses" "profiles" -}}
{{- $known := dict -}}
{{- range index $.Values $kind -}}
{{- if hasKey $known .name -}}
{{- fail (printf "%s: two have the name %s" $kind .name) -}}
{{- end -}}
{{- $_ := set $known .name true -}}
{{- end -}}
{{- end -}}
{{- include "compaction-operator.requireFreeNames" . -}}
{{- $taken := dict "8080" "the probes" -}}
{{- range list (list "metrics" "the metrics" .Values.metrics) (list "ui" "the web page" (.Values.ui | default dict)) -}}
{{- $server := last . -}}
{{- $port := $server.port | toString -}}
{{- if $server.enabled -}}
{{- if hasKey $taken $port -}}
{{- fail (printf "%s.port: %s is the port of %s, too; take another one" (first .) $port (get $taken $port)) -}}
{{- end -}}
{{- $_ := set $taken $port (index . 1) -}}
{{- end -}}
{{- end -}}
{{- $profiles := list -}}
{{- range .Values.profiles -}}
{{- $own := dict "image" (include "compaction-operator.image" $) "imagePullPolicy" $.Values.image.pullPolicy -}}
{{- $profile := dict -}}
{{- range $name, $value := merge (dict) . $own -}}
{{- if not (and (empty $value) (or (kindIs "map" $value) (kindIs "slice" $value))) -}}
{{- $_ := set $profile $name $value -}}
{{- end -}}
{{- end -}}
{{- $profiles = append $profiles $profile -}}
{{- end -}}
{{- $metrics := pick .Values.metrics "enabled" "port" -}}
{{- $own := dict "profiles" $profiles "metrics" $metrics "volumesPath" (include "compaction-operator.volumesPath" .) -}}
{{- if .Values.leaderElection.enabled -}}
{{- $_ := set $own "leaderElection" (dict "lease" (include "compaction-operator.lease" .)) -}}
{{- else if gt (int .Values.replicas) 1 -}}
{{- fail (printf "replicas: %d controllers need leaderElection.enabled; without it, all of them would act" (int .Values.replicas)) -}}
{{- end -}}
{{- pick .Values "warehouses" "cleanup" "maxConcurrentJobs" "jobTtl" "log" "takeOver" "watch" "tracing" "ui" | merge $own | toYaml -}}
{{- end -}}

{{/*
Fails if a profile would override a label, an annotation, a variable or a volume of the operator, has two of one name,
mounts a volume that it does not have, or mounts one where the operator, the image, Spark or a warehouse has something.
*/}}
{{- define "compaction-operator.requireFreeNames" -}}
{{- $ownKeys := `^(app\.kubernetes\.io/(name|component|instance)$|([^/]+\.)?compaction\.dev/|batch\.kubernetes\.io/|spark-|job-name$|controller-uid$)` -}}
{{- $ownVariables := `^((COMPACTION|POD|SPARK|PYSPARK|HADOOP|HUDI|KRB5|LD|JAVA|_JAVA|JDK_JAVA)_.*|PYTHON.*|PATH|HOME|IFS|ENV|BASH_ENV)$` -}}
{{- $ownVolumes := list "tmp" "warehouse" "hadoop" "metastore" "hdfs" "s3" -}}
{{- $image := "the operator's image or Spark" -}}
{{- $taken := dict -}}
{{- range list "/tmp" "/opt" "/usr" "/bin" "/sbin" "/lib" "/dev" "/proc" "/sys" "/run" "/var/run" "/var/data" "/etc/passwd" -}}
{{- $_ := set $taken . $image -}}
{{- end -}}
{{- range $warehouse := .Values.warehouses -}}
{{- $stores := .stores | default dict -}}
{{- $hdfs := $stores.hdfs | default dict -}}
{{- if $hdfs -}}
{{- $_ := set $taken ($hdfs.mountPath | default "/etc/hadoop/conf") (printf "warehouse %s" .name) -}}
{{- end -}}
{{- range compact (list .volume .metastore.secret $hdfs.secret ($stores.s3 | default dict).secret) -}}
{{- $_ := set $taken .mountPath (printf "warehouse %s" $warehouse.name) -}}
{{- end -}}
{{- end -}}
{{- range $profile := .Values.profiles -}}
{{- range $role, $given := dict "" . "driver." .driver "executor." .executor -}}
{{- range $field := list "labels" "annotations" -}}
{{- range $key, $_ := index ($given | default dict) $field -}}
{{- if regexMatch $ownKeys $key -}}
{{- fail (printf "profile %s: %s%s: %s is the operator's own" $profile.name $role $field $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $field := list "env" "volumes" "volumeMounts" -}}
{{- $known := dict -}}
{{- range index $profile $field -}}
{{- $name := ternary (.mountPath | default "" | trimSuffix "/") .name (eq $field "volumeMounts") -}}
{{- if or (and (eq $field "env") (regexMatch $ownVariables $name)) (and (eq $field "volumes") (has $name $ownVolumes)) -}}
{{- fail (printf "profile %s: %s: %s is the operator's own" $profile.name $field $name) -}}
{{- end -}}
{{- if hasKey $known $name -}}
{{- fail (printf "profile %s: %s: two have %s" $profile.name $field $name) -}}
{{- end -}}
{{- $_ := set $known $name true -}}
{{- end -}}
{{- end -}}
{{- $volumes := dict -}}
{{- range .volumes -}}
{{- $_ := set $volumes .name true -}}
{{- end -}}
{{- range .volumeMounts -}}
{{- if not (hasKey $volumes .name) -}}
{{- fail (printf "profile %s: volumeMounts: %s is none of the profile's volumes" $profile.name .name) -}}
{{- end -}}
{{- $path := trimSuffix "/" .mountPath -}}
{{- if ne (clean $path) $path -}}
{{- fail (printf "profile %s: volumeMounts: mountPath %s: write it without . and .." $profile.name .mountPath) -}}
{{- end -}}
{{- range $other, $what := $taken -}}
{{- $paths := list (printf "%s/" $path) (printf "%s/" (trimSuffix "/" $other)) -}}
{{- if or (hasPrefix (first $paths) (last $paths)) (hasPrefix (last $paths) (first $paths)) -}}
{{- fail (printf "profile %s: volumeMounts: mountPath %s and %s of %s lie in each other" $profile.name $path $other $what) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The distinct namespaces of all warehouses, as a JSON object {"items": [...], "missing": [...]}. Those that the cluster
does not have, or deletes, are missing: nothing can be created there, and no upgrade may fail for that. Without a
cluster (`helm template`, Argo CD) none is missing. Nor is one where nothing of the chart is the cluster's: who installs
it may then look up no namespace.
*/}}
{{- define "compaction-operator.namespaces" -}}
{{- $listed := list -}}
{{- range .Values.warehouses -}}
{{- $listed = concat $listed .namespaces -}}
{{- end -}}
{{- $items := list -}}
{{- $missing := list -}}
{{- $mayLook := or (ne (.Values.watch | default "Cluster") "Namespaces") (eq (include "compaction-operator.aggregated" .) "true") -}}
{{- $online := and $mayLook (lookup "v1" "Namespace" "" "default") -}}
{{- range $listed | uniq | sortAlpha -}}
{{- $metadata := dict -}}
{{- if $online -}}
{{- $metadata = (lookup "v1" "Namespace" "" .).metadata | default dict -}}
{{- end -}}
{{- if and $online (or (not $metadata.name) $metadata.deletionTimestamp) -}}
{{- $missing = append $missing . -}}
{{- else -}}
{{- $items = append $items . -}}
{{- end -}}
{{- end -}}
{{- dict "items" $items "missing" $missing | toJson -}}
{{- end -}}

{{/* Where the controller's pod has the claims of all warehouses: each below a folder of its name, at its mount path. */}}
{{- define "compaction-operator.volumesPath" -}}
/volumes
{{- end -}}

{{/*
What the warehouses need in the controller's pod, as a JSON object {"items": [{name, path, writable, source}]}: claims,
Hadoop's configurations and secrets, each once. It fails if two different ones have one mount path.
*/}}
{{- define "compaction-operator.mounts" -}}
{{- $found := dict -}}
{{- range $warehouse := .Values.warehouses -}}
{{- $stores := $warehouse.stores | default dict -}}
{{- $hdfs := $stores.hdfs | default dict -}}
{{- $mounts := list -}}
{{- with $warehouse.volume -}}
{{- $mounts = append $mounts (dict "kind" "warehouse" "what" (printf "claim %s" .claimName) "path" (printf "%s/%s%s" (include "compaction-operator.volumesPath" $) .claimName .mountPath) "source" (dict "persistentVolumeClaim" (dict "claimName" .claimName))) -}}
{{- end -}}
{{- if $hdfs -}}
{{- $mounts = append $mounts (dict "kind" "hadoop" "what" (printf "ConfigMap %s" $hdfs.configMap) "path" ($hdfs.mountPath | default "/etc/hadoop/conf") "source" (dict "configMap" (dict "name" $hdfs.configMap))) -}}
{{- end -}}
{{- range compact (list $warehouse.metastore.secret $hdfs.secret ($stores.s3 | default dict).secret) -}}
{{- $mounts = append $mounts (dict "kind" "secret" "what" (printf "secret %s" .name) "path" .mountPath "source" (dict "secret" (dict "secretName" .name "defaultMode" 288))) -}}
{{- end -}}
{{- range $mount := $mounts -}}
{{- $path := trimSuffix "/" $mount.path -}}
{{- $other := get $found $path -}}
{{- if and $other (ne $other.what $mount.what) -}}
{{- fail (printf "warehouses: mountPath %s of %s: %s and %s cannot be mounted at one path" $path $warehouse.name $other.what $mount.what) -}}
{{- end -}}
{{- $_ := set $found $path $mount -}}
{{- end -}}
{{- end -}}
{{- $items := list -}}
{{- range $index, $path := keys $found | sortAlpha -}}
{{- $mount := get $found $path -}}
{{- $items = append $items (dict "name" (printf "%s-%d" $mount.kind $index) "path" $path "writable" (eq $mount.kind "warehouse") "source" $mount.source) -}}
{{- end -}}
{{- dict "items" $items | toJson -}}
{{- end -}}

{{/* "true" if the rights of users are ClusterRoles that Kubernetes adds to its own, view, edit and admin. */}}
{{- define "compaction-operator.aggregated" -}}
{{- dig "aggregateClusterRoles" true (.Values.rbac | default dict) -}}
{{- end -}}

{{/* What the controller may do wherever it watches. */}}
{{- define "compaction-operator.watchRules" -}}
- apiGroups: [compaction.dev]
  resources: [tablecompactions, compactioncleanups, compactionpolicies]
  verbs: [list, watch]
- apiGroups: [compaction.dev]
  resources: [tablecompactions/status, compactioncleanups/status, compactionpolicies/status]
  verbs: [update]
# Delete expired cleanups.
- apiGroups: [compaction.dev]
  resources: [compactioncleanups]
  verbs: [delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end -}}

{{- define "compaction-operator.viewRules" -}}
- apiGroups: [compaction.dev]
  resources: [tablecompactions, compactioncleanups, compactionpolicies]
  verbs: [get, list, watch]
{{- end -}}

{{- define "compaction-operator.editRules" -}}
- apiGroups: [compaction.dev]
  resources: [tablecompactions, compactionpolicies]
  verbs: [create, delete, deletecollection, patch, update]
- apiGroups: [compaction.dev]
  resources: [compactioncleanups]
  verbs: [delete, deletecollection]
{{- end -}}

{{- define "compaction-operator.approveRules" -}}
- apiGroups: [compaction.dev]
  resources: [compactioncleanups]
  verbs: [patch, update]
{{- end -}}

{{/* The distinct Kerberos configuration files of all metastores and HDFS, in the format of KRB5_CONFIG. */}}
{{- define "compaction-operator.krb5Config" -}}
{{- $files := list -}}
{{- range .Values.warehouses -}}
{{- $hdfs := (.stores | default dict).hdfs | default dict -}}
{{- range compact (list .metastore.kerberos $hdfs.kerberos) -}}
{{- with .configFile -}}
{{- $files = append $files . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $files | uniq | join ":" -}}
{{- end -}}

{{/*
The lease of the election: one for a namespace, whichever releases are in it. Without a cluster (`helm template`, Argo CD)
Helm cannot refuse a second release there, but only one of them then leads.
*/}}
{{- define "compaction-operator.lease" -}}
{{ .Chart.Name }}
{{- end -}}

{{/*
Fails if another release of this chart is in the namespace, as operators are told apart by their namespaces, or if an
operator that was removed, as takeOver says, is still there.
*/}}
{{- define "compaction-operator.requireOwnNamespace" -}}
{{- range $namespace := prepend (.Values.takeOver | default list) .Release.Namespace -}}
{{- range (lookup "apps/v1" "Deployment" $namespace "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- $other := index $labels "app.kubernetes.io/instance" | default "" -}}
{{- if and (eq (index $labels "app.kubernetes.io/name" | default "") $.Chart.Name) (or (ne $other $.Release.Name) (ne $namespace $.Release.Namespace)) -}}
{{- if eq $namespace $.Release.Namespace -}}
{{- fail (printf "namespace %s has the operator of release %s already: give each operator a namespace of its own, or upgrade that release" $namespace $other) -}}
{{- end -}}
{{- fail (printf "takeOver: namespace %s still has the operator of release %s: uninstall it first, as both would delete" $namespace $other) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Fails if the cluster has CRDs that are not this release's: Helm would only say that it cannot import them. CRDs outlive
the release that made them.
*/}}
{{- define "compaction-operator.requireOwnCrds" -}}
{{- $release := .Release -}}
{{- $names := list -}}
{{- $owners := list -}}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" -}}
{{- $name := ($.Files.Get $path | fromYaml).metadata.name -}}
{{- $names = append $names $name -}}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name -}}
{{- $annotations := .metadata.annotations | default dict -}}
{{- $owner := index $annotations "meta.helm.sh/release-name" | default "" -}}
{{- $namespace := index $annotations "meta.helm.sh/release-namespace" | default "" -}}
{{- if or (ne $owner $release.Name) (ne $namespace $release.Namespace) -}}
{{- $owners = append $owners (ternary (printf "release %s in namespace %s" $owner $namespace) "no release of Helm" (ne $owner "")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $owners -}}
{{- $every := join " " $names -}}
{{- $label := printf "kubectl label --overwrite crd %s app.kubernetes.io/managed-by=Helm" $every -}}
{{- $annotate := printf "kubectl annotate --overwrite crd %s meta.helm.sh/release-name=%s meta.helm.sh/release-namespace=%s" $every $release.Name $release.Namespace -}}
{{- fail (printf "the CRDs of this cluster belong to %s. If that operator still runs, install this one with crds.install=false, for namespaces of its own. If it is gone, give the CRDs to this release, and try again:\n%s\n%s" (join " and " (uniq $owners)) $label $annotate) -}}
{{- end -}}
{{- end -}}
