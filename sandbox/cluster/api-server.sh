#!/usr/bin/env bash
# api-server.sh stop | start: kills the node's API server without a word, or starts it again as it was.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"
COMMAND=$STATE/api-server.command

# shellcheck disable=SC2016  # a shell of the node reads it
KILL='pid=$(pgrep --exact kube-apiserver); cp "/proc/$pid/cmdline" "$1"; kill -KILL "$pid"; while [ -e "/proc/$pid" ]; do sleep 0.1; done'
# shellcheck disable=SC2016
START='mapfile -d "" -t words < "$1"; exec setsid "${words[@]}" >> "$2" 2>&1 < /dev/null'

case ${1:-} in
  stop) "$CLUSTER/in-node.sh" bash -c "$KILL" bash "$COMMAND" ;;
  start)
    "$CLUSTER/in-node.sh" bash -c "$START" bash "$COMMAND" "$STATE/logs/kube-apiserver.log" > /dev/null 2>&1 &
    await 60 sandbox_kubectl get --raw=/readyz
    ;;
  *) fail "usage: api-server.sh stop | start" ;;
esac
