#!/usr/bin/env bash
# warehouse-claim.sh NAMESPACE: gives a namespace (made when missing) the claim `warehouse` on the shared warehouse's files, and with
# the tables on HDFS the ConfigMap `hadoop-conf`, too.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"
NAMESPACE=${1:?usage: warehouse-claim.sh NAMESPACE}

"$CLUSTER/apply.sh" namespace "NAMESPACE=$NAMESPACE"
[ "$(sandbox_storage)" = file ] || "$CLUSTER/apply.sh" hadoop-conf "NAMESPACE=$NAMESPACE" "HDFS_URI=$HDFS_URI"
# A volume whose claim went with an earlier namespace of that name is bound to nothing for ever.
sandbox_kubectl --namespace "$NAMESPACE" get persistentvolumeclaim warehouse > /dev/null 2>&1 \
  || sandbox_kubectl delete persistentvolume "warehouse-$NAMESPACE" --ignore-not-found > /dev/null
"$CLUSTER/apply.sh" warehouse-claim "NAMESPACE=$NAMESPACE" "WAREHOUSE=$STATE/warehouse"
# A pod that comes before its claim is bound waits many seconds for the scheduler's next try.
sandbox_kubectl --namespace "$NAMESPACE" wait --for=jsonpath='{.status.phase}'=Bound persistentvolumeclaim/warehouse --timeout=60s > /dev/null
