#!/usr/bin/env bash
# tools.sh: puts the Python tools of the supply chain (tools.lock) into the cache, and prints the folder of their environment.
# NB: their scripts name another folder; run `bin/python -m`.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

TOOLS=$CACHE/supply-$(content_hash sandbox/supply/tools.lock)

install() { # output folder
  "$HOST_PYTHON" -m venv --without-pip "$1"
  nice "$HOST_PYTHON" -m pip --python "$1/bin/python" install -q --no-deps --require-hashes --only-binary :all: \
    --no-warn-script-location -r "$ROOT/sandbox/supply/tools.lock"
}

[ -d "$TOOLS" ] || step "tools of the supply chain" into_cache "$TOOLS" install
echo "$TOOLS"
