#!/usr/bin/env bash
# in-node.sh COMMAND...: runs it in the node's namespaces, where pods and services can be reached (and ctr and kubectl work).
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

node_runs || fail "the sandbox is not up; run: make sandbox-up"
first=$(pgrep --parent "$(cat "$STATE/node.pid")" | head -n 1)
PATH=$(cat "$STATE/binaries"):$PATH exec nsenter --target "$first" --net --mount --pid --uts --ipc -- "$@"
