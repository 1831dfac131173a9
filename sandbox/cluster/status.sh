#!/usr/bin/env bash
# status.sh: tells whether the sandbox runs, how to reach it, its versions, node and pods. Exit code 1 when it is down.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

if ! node_runs || [ ! -e "$STATE/env" ]; then
  echo "sandbox: down"
  exit 1
fi
echo "sandbox: up since $(date -r "$STATE/started" '+%F %T'), with tables at $(location_of "$(sandbox_storage)")"
echo "export KUBECONFIG=$STATE/admin.kubeconfig PATH=$(cat "$STATE/binaries"):\$PATH"
sed 's/^/  /' "$STATE/env"
echo "  this clone's operator image: $("$CLUSTER/images.sh" name operator)"
sandbox_kubectl version
sandbox_kubectl get nodes --output wide
sandbox_kubectl get pods --all-namespaces --output wide
