#!/usr/bin/env bash
# demo.sh: set-up, the sandbox, then the demo; the sandbox is ended if it was started for this (DEMO_KEEP=1: up).
# With DEMO_CLUSTER=existing the demo takes the cluster of KUBECONFIG, and no sandbox is started. STORAGE says where the sandbox has
# its tables: file, hdfs or s3.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"
cd "$ROOT"

if [ "${DEMO_CLUSTER:-sandbox}" = existing ]; then
  [ "${STORAGE:-file}" = file ] || fail "STORAGE is for the sandbox: on a cluster of your own, the tables are on a volume"
  "$SANDBOX/prerequisites.sh" python
  "$SANDBOX/python.sh"
else
  # NB: quiet, for the last line is the demo's.
  node_runs || [ "${DEMO_KEEP:-}" = 1 ] || trap '"$CLUSTER/down.sh" --quiet' EXIT
  "$CLUSTER/up.sh" --borrowed > /dev/null
fi
status=0
.venv/bin/python -m sandbox.demo.run || status=$?
exit $status
