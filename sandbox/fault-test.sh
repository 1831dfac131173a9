#!/usr/bin/env bash
# fault-test.sh [PYTEST_ARGUMENT...]: the sandbox, then upgrades and outages on it; it is ended if it was started for this.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/env.sh"
cd "$ROOT"

borrow_sandbox
STORAGE="file" "$CLUSTER/up.sh" --borrowed > /dev/null
status=0
.venv/bin/pytest tests/e2e/upgrade.py tests/e2e/outages.py -q "$@" || status=$?
exit $status
