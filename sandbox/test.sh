#!/usr/bin/env bash
# test.sh [PYTEST_ARGUMENT...]: set-up, lint, the sandbox, then one run of pytest; leaves the sandbox as it was, up or down.
# Standard output is pytest's alone, and so is the exit code once the tests run.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/env.sh"
cd "$ROOT"

node_runs || trap '"$SANDBOX/down.sh" --quiet' EXIT
"$SANDBOX/setup.sh"
"$SANDBOX/lint.sh"
"$SANDBOX/up.sh" > /dev/null
status=0
.venv/bin/pytest "$@" || status=$?
exit $status
