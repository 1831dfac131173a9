#!/usr/bin/env bash
# warehouse.sh STORAGE NAMESPACE [CLUSTER_IP]: gives the running node what tables on file, hdfs or s3 need: the store, and in NAMESPACE
# an empty metastore. For a namespace that uses them: warehouse-claim.sh.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"
STORAGE=${1:?usage: warehouse.sh STORAGE NAMESPACE [CLUSTER_IP]}
NAMESPACE=${2:?usage: warehouse.sh STORAGE NAMESPACE [CLUSTER_IP]}
METASTORE_IP=${3:-}

hdfs_serves() {
  sandbox_kubectl get --raw "/api/v1/namespaces/hdfs/services/hdfs-namenode:http/proxy/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState" \
    | grep '"NumLiveDataNodes" : 1'
}

start_hdfs() {
  "$CLUSTER/apply.sh" namespace NAMESPACE=hdfs
  "$CLUSTER/apply.sh" hadoop-conf NAMESPACE=hdfs "HDFS_URI=$HDFS_URI"
  "$CLUSTER/apply.sh" hdfs "HDFS_IMAGE=$("$CLUSTER/images.sh" name hdfs)" "POD_UID=$POD_UID"
  await 180 hdfs_serves
}

start_s3() {
  [ -e "$STATE/s3-key" ] || (umask 077 && od -An -N16 -tx1 /dev/urandom | tr -d ' \n' > "$STATE/s3-key")
  "$CLUSTER/apply.sh" namespace NAMESPACE=minio
  "$CLUSTER/apply.sh" s3-client NAMESPACE=minio "S3_KEY=$(cat "$STATE/s3-key")"
  "$CLUSTER/apply.sh" s3 "S3_IMAGE=$("$CLUSTER/images.sh" name s3)" "POD_UID=$POD_UID" "S3_BUCKET=$S3_BUCKET"
  await 120 sandbox_kubectl --namespace minio rollout status deployment/minio --timeout=2s
}

start_metastore() { # IMAGE
  local volume=metastore-$NAMESPACE claim
  "$CLUSTER/warehouse-claim.sh" "$NAMESPACE" "$STORAGE"
  [ "$STORAGE" != s3 ] || "$CLUSTER/apply.sh" s3a-conf "NAMESPACE=$NAMESPACE" "S3_ENDPOINT=$S3_ENDPOINT"
  # What the metastore of an earlier namespace of that name left is bound to nothing for ever.
  claim=$(sandbox_kubectl --namespace "$NAMESPACE" get persistentvolumeclaim metastore-state --ignore-not-found --output name)
  if [ -z "$claim" ]; then
    sandbox_kubectl delete persistentvolume "$volume" --ignore-not-found
    rm -rf "$STATE/metastore/$NAMESPACE"
  fi
  install -d -o "$POD_UID" -g "$POD_UID" "$STATE/metastore/$NAMESPACE"
  "$CLUSTER/apply.sh" metastore-volume "NAMESPACE=$NAMESPACE" "VOLUME=$volume" "METASTORE_STATE=$STATE/metastore/$NAMESPACE"
  await 60 sandbox_kubectl --namespace "$NAMESPACE" wait --for=jsonpath='{.status.phase}'=Bound persistentvolumeclaim/metastore-state --timeout=2s
  "$CLUSTER/apply.sh" metastore "NAMESPACE=$NAMESPACE" "METASTORE_IMAGE=$1" "POD_UID=$POD_UID" \
    "METASTORE_SERVICE_IP=$METASTORE_IP" "WAREHOUSE=$(location_of "$STORAGE")"
  await 180 sandbox_kubectl --namespace "$NAMESPACE" rollout status deployment/hive-metastore --timeout=2s
}

read -r -a images < <(images_of "$STORAGE")
"$CLUSTER/images.sh" build "${images[@]}"
"$CLUSTER/images.sh" load "${images[@]}"
[ "$STORAGE" = file ] || step "store for tables: $STORAGE" "start_$STORAGE"
step "Hive ${images[0]/-/ }" start_metastore "$("$CLUSTER/images.sh" name "${images[0]}")"
