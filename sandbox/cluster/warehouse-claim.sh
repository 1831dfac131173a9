#!/usr/bin/env bash
# warehouse-claim.sh NAMESPACE [STORAGE]: gives a namespace (made when missing) the claim `warehouse` on the shared warehouse's files, and
# what its pods need to reach tables on STORAGE (by default the sandbox's): on HDFS the ConfigMap `hadoop-conf`, on S3 the secret `s3-client`.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"
NAMESPACE=${1:?usage: warehouse-claim.sh NAMESPACE [STORAGE]}
STORAGE=${2:-$(sandbox_storage)}

"$CLUSTER/apply.sh" namespace "NAMESPACE=$NAMESPACE"
case $STORAGE in
  hdfs) "$CLUSTER/apply.sh" hadoop-conf "NAMESPACE=$NAMESPACE" "HDFS_URI=$HDFS_URI" ;;
  s3) "$CLUSTER/apply.sh" s3-client "NAMESPACE=$NAMESPACE" "S3_KEY=$(cat "$STATE/s3-key")" ;;
esac
# A volume whose claim went with an earlier namespace of that name is bound to nothing for ever.
sandbox_kubectl --namespace "$NAMESPACE" get persistentvolumeclaim warehouse > /dev/null 2>&1 \
  || sandbox_kubectl delete persistentvolume "warehouse-$NAMESPACE" --ignore-not-found > /dev/null
"$CLUSTER/apply.sh" warehouse-claim "NAMESPACE=$NAMESPACE" "WAREHOUSE=$STATE/warehouse"
# A pod that comes before its claim is bound waits many seconds for the scheduler's next try.
sandbox_kubectl --namespace "$NAMESPACE" wait --for=jsonpath='{.status.phase}'=Bound persistentvolumeclaim/warehouse --timeout=60s > /dev/null
