#!/usr/bin/env bash
# on-cluster.sh FILE... [PYTEST_ARGUMENT...]: tests on the sandbox's cluster that CI does not run. A cluster that was started for them
# ends with them.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/env.sh"
cd "$ROOT"

borrow_sandbox
STORAGE="file" "$CLUSTER/up.sh" --borrowed > /dev/null
status=0
.venv/bin/pytest -q "$@" || status=$?
exit $status
