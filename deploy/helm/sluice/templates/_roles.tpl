{{/*
The roles of this release: a list below `roles`, each with
  name      of its objects and its component: writer-relational
  args      of ./sluice
  values    its part of values.yaml
  env       its options, with those of every role, of Kafka and of its store
  secrets   its options that are secrets: variable to {existingSecret, key}
  volumes   what is mounted at /mnt
  isPublic  devices or users call it
  mqtt      how devices reach it over MQTT, if they do
  asksApi   it calls the internal port of api
  isWriter
*/}}
{{- define "sluice.roles" -}}
{{- $v := .Values -}}
{{- $token := dict "SVC_CONTROL_TOKEN" $v.controlToken -}}
{{- $listen := dict "SVC_HTTP_HOST" "0.0.0.0" "SVC_HTTP_PORT" "8080" "SVC_INTERNAL_LISTEN" "0.0.0.0:9080" -}}
{{- $public := dict -}}
{{- if and $v.ingress.enabled $v.ingress.trustedProxies -}}
{{- $_ := set $public "SVC_HTTP_TRUSTED_PROXIES" (join "," $v.ingress.trustedProxies) -}}
{{- end -}}
{{- $mqtt := dict -}}
{{- if $v.ingest.mqtt.enabled -}}
{{- $mqtt = dict "SVC_MQTT_ENABLED" "true" "SVC_MQTT_HOST" "0.0.0.0" "SVC_MQTT_PORT" "1883" -}}
{{- end -}}
{{- $asking := dict "SVC_CONTROL_URL" (printf "http://%s-api:9080" (include "sluice.fullname" .)) -}}
{{- $kafka := mergeOverwrite (dict "SVC_LOG_BROKERS" (join "," $v.kafka.brokers) "SVC_LOG_TOPIC" $v.kafka.topic) $v.kafka.env -}}
{{- $roles := list
  (dict "name" "api" "args" (list "api") "isPublic" true "values" $v.api "volumes" (merge (dict) $v.api.volumes $v.volumes)
    "env" (mergeOverwrite (dict) $listen $public $v.env $v.api.env)
    "secrets" (mergeOverwrite (dict) $token $v.api.secrets))
  (dict "name" "ingest" "args" (list "ingest") "isPublic" true "asksApi" true "values" $v.ingest "mqtt" (and $v.ingest.mqtt.enabled $v.ingest.mqtt)
    "volumes" (merge (dict) $v.ingest.volumes $v.kafka.volumes $v.volumes)
    "env" (mergeOverwrite (dict) $listen $public $asking $mqtt $v.env $kafka $v.ingest.env)
    "secrets" (mergeOverwrite (dict) $token $v.kafka.secrets $v.ingest.secrets))
-}}
{{- if $v.bridge.enabled -}}
{{- /* Two of them would take the session from each other. */ -}}
{{- $roles = append $roles (dict "name" "bridge" "args" (list "bridge") "values" (merge (dict "strategy" "Recreate") $v.bridge)
  "volumes" (merge (dict) $v.bridge.volumes $v.kafka.volumes $v.volumes)
  "env" (mergeOverwrite (dict) $listen $v.env $kafka $v.bridge.env)
  "secrets" (mergeOverwrite (dict) $v.kafka.secrets $v.bridge.secrets)) -}}
{{- end -}}
{{- range $store, $of := $v.stores -}}
{{- if $of.enabled -}}
{{- $writer := mergeOverwrite (deepCopy $v.writers) $of.writer -}}
{{- $env := mergeOverwrite (dict) $listen $v.env $kafka $of.env $writer.env -}}
{{- if hasKey $env "SVC_LOG_TOPICS" -}}{{- $env = omit $env "SVC_LOG_TOPIC" -}}{{- end -}}
{{- $roles = append $roles (dict "name" (printf "writer-%s" $store) "args" (list "writer" $store) "isWriter" true "values" $writer
  "volumes" (merge (dict) $writer.volumes $of.volumes $v.kafka.volumes $v.volumes)
  "env" $env
  "secrets" (mergeOverwrite (dict) $v.kafka.secrets $of.secrets $writer.secrets)) -}}
{{- $reader := mergeOverwrite (deepCopy $v.readers) $of.reader -}}
{{- $env := mergeOverwrite (dict) $listen $public $asking $v.env $of.env $reader.env -}}
{{- $volumes := merge (dict) $reader.volumes $of.volumes $v.volumes -}}
{{- $secrets := mergeOverwrite (dict) $token $of.secrets $reader.secrets -}}
{{- if eq (get $env "SVC_LIVE_ENABLED") "true" -}}
{{- $env = merge $env $kafka -}}
{{- if hasKey $env "SVC_LOG_TOPICS" -}}{{- $env = omit $env "SVC_LOG_TOPIC" -}}{{- end -}}
{{- $volumes = merge $volumes $v.kafka.volumes -}}
{{- $secrets = merge $secrets $v.kafka.secrets -}}
{{- end -}}
{{- $roles = append $roles (dict "name" (printf "reader-%s" $store) "args" (list "reader" $store) "isPublic" true "asksApi" true "values" $reader
  "volumes" $volumes "env" $env "secrets" $secrets) -}}
{{- end -}}
{{- end -}}
{{- dict "roles" $roles | toYaml -}}
{{- end }}
