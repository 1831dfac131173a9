#!/usr/bin/env bash
# crash-test.sh ARGUMENT...: prepares what the crash test needs, then runs it (python -m tests.crash) with the arguments.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/env.sh"
cd "$ROOT"

"$SANDBOX/prerequisites.sh"
"$SANDBOX/python.sh"
[ -d "$(binaries_folder)" ] || step "Kubernetes: build (10 minutes of both cores when Go's cache is empty)" "$SANDBOX/binaries.sh"
"$ROOT/tests/oracle/fetch.sh" > /dev/null
exec .venv/bin/python -m tests.crash "$@"
