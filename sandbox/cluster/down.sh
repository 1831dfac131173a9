#!/usr/bin/env bash
# down.sh: ends the sandbox and forgets all but its certificates, logs and the images that the node unpacked.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

end_process() { # NAME: its recorded process, if that is still the one that up.sh started
  local pid
  pid=$(cat "$STATE/$1.pid" 2> /dev/null) || return 0
  if grep -qsF -e sandbox/cluster/node.sh -e "UNIX-CONNECT:$STATE/" "/proc/$pid/cmdline"; then
    # The kernel ends the node's first process with unshare (--kill-child), and with it all of its process namespace.
    kill -KILL "$pid"
    while [ -e "/proc/$pid" ]; do sleep 0.1; done
  fi
  rm -f "$STATE/$1.pid"
}

remove_control_groups() {
  local _
  for _ in $(seq 50); do
    find /sys/fs/cgroup/*/"$CGROUP" "/sys/fs/cgroup/$CGROUP" -depth -type d -exec rmdir {} + 2> /dev/null || true
    compgen -G "/sys/fs/cgroup/*/$CGROUP" > /dev/null || [ -e "/sys/fs/cgroup/$CGROUP" ] || return 0
    sleep 0.1
  done
}

rm -f "$STATE/env" "$STATE/started" "$STATE/borrowed" "$STATE/storage"
for name in api-port metastore-port node; do end_process "$name"; done
remove_control_groups
rm -rf "$STATE"/{etcd,kubelet,cni,pods,warehouse,metastore,s3-key,blobs,load.lock} "$STATE"/*.sock
[ "${1:-}" = --quiet ] || echo "sandbox: down" >&2
