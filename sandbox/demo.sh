#!/usr/bin/env bash
# demo.sh: set-up, the sandbox, then the demo; leaves the sandbox as it was, up or down.
# With DEMO_CLUSTER=mine the demo takes the cluster of KUBECONFIG, and no sandbox is started.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/env.sh"
cd "$ROOT"

if [ "${DEMO_CLUSTER:-sandbox}" = mine ]; then
  "$SANDBOX/prerequisites.sh" python
  "$SANDBOX/python.sh"
else
  node_runs || trap '"$SANDBOX/down.sh"' EXIT
  "$SANDBOX/up.sh" > /dev/null
fi
status=0
.venv/bin/python sandbox/demo/run.py || status=$?
exit $status
