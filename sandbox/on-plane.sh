#!/usr/bin/env bash
# on-plane.sh MODULE ARGUMENT...: prepares what a plane and Hive's own readers need, then runs the module (tests.soak.crash, tests.soak.storm).
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/env.sh"
cd "$ROOT"

"$SANDBOX/prerequisites.sh"
"$SANDBOX/python.sh"
[ -d "$(binaries_folder)" ] || step "Kubernetes: build (10 minutes of both cores when Go's cache is empty)" "$CLUSTER/binaries.sh"
"$ROOT/tests/integration/oracle/fetch.sh" > /dev/null
exec .venv/bin/python -m "$@"
