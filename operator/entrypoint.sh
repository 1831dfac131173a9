#!/bin/bash
# Spark starts its executors' pods with the one argument `executor`; whatever else is given is run as it is.
set -euo pipefail

# The metastore, the controller and the jobs share the warehouse's files by their group, too.
umask 0002

# What Spark's driver sets for an executor: see org.apache.spark.deploy.k8s.features.BasicExecutorFeatureStep.
run_executor() {
  local java_options
  mapfile -t java_options < <(env | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4 -n | cut -d= -f2-)
  exec java "${java_options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${HADOOP_CONF_DIR:+$HADOOP_CONF_DIR:}${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
}

if [ "${1:-}" = executor ]; then run_executor; else exec "$@"; fi
