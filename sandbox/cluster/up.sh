#!/usr/bin/env bash
# up.sh [--borrowed]: starts the sandbox with a fresh cluster and an empty warehouse, or, when it runs already, gives it this clone's
# operator image. What was started with --borrowed ends with the test or demo that borrowed it. STORAGE=hdfs or s3 in the environment
# puts the warehouse on a store of the cluster.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

# detached NAME COMMAND...: a daemon that outlives this script, its number in NAME.pid; it must keep no lock of its callers.
detached() {
  setsid nohup "${@:2}" > "$STATE/logs/$1.log" 2>&1 < /dev/null 6>&- 7>&- &
  echo $! > "$STATE/$1.pid"
  # NB: on a busy machine it is a copy of this script for a while, and not yet what node_runs looks for.
  while cmp -s "/proc/$$/cmdline" "/proc/$!/cmdline"; do sleep 0.05; done
}

make_volumes() {
  mkdir -p "$STATE/logs" "$STATE/warehouse" "$STATE/metastore"
  chown "$POD_UID:$POD_UID" "$STATE/warehouse" "$STATE/metastore"
  chmod 2775 "$STATE/warehouse"
}

# Two ports of the machine's loopback that nothing uses: the ways into the node's network.
free_ports() {
  "$HOST_PYTHON" -c 'import socket; a, b = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
print(a.getsockname()[1], b.getsockname()[1])'
}

start_node() {
  local api_port metastore_port
  read -r api_port metastore_port < <(free_ports)
  "$CLUSTER/certificates.sh" "$api_port"
  echo "thrift://127.0.0.1:$metastore_port" > "$STATE/metastore.uri"
  binaries_folder > "$STATE/binaries"
  detached node unshare --net --mount --pid --uts --ipc --fork --mount-proc --kill-child "$CLUSTER/node.sh"
  await 60 test -e "$STATE/started"
  detached api-port socat "TCP-LISTEN:$api_port,bind=127.0.0.1,reuseaddr,fork" "UNIX-CONNECT:$STATE/api.sock"
  detached metastore-port socat "TCP-LISTEN:$metastore_port,bind=127.0.0.1,reuseaddr,fork" "UNIX-CONNECT:$STATE/metastore.sock"
  await 60 sandbox_kubectl get --raw=/readyz
}

start_dns() {
  await 60 sandbox_kubectl --namespace default get serviceaccount default
  "$CLUSTER/apply.sh" coredns "COREDNS_IMAGE=$("$CLUSTER/images.sh" name coredns)" "DNS_SERVICE_IP=$DNS_SERVICE_IP"
  await 120 sandbox_kubectl wait --for=condition=Ready "node/$NODE" --timeout=2s
  await 120 "$CLUSTER/in-node.sh" "$HOST_PYTHON" "$CLUSTER/resolve.py" kubernetes.default.svc.cluster.local "$DNS_SERVICE_IP"
}

# For shells and sandbox/cluster/running.py. Written last: it is there when all else is.
write_settings() {
  cat > "$STATE/env.new" <<-ENV
	KUBECONFIG=$STATE/admin.kubeconfig
	SANDBOX_BIN=$(cat "$STATE/binaries")
	SANDBOX_WAREHOUSE=$STATE/warehouse
	SANDBOX_STORAGE=$(sandbox_storage)
	SANDBOX_METASTORE=$(cat "$STATE/metastore.uri")
	METASTORE_URI=thrift://hive-metastore.hive.svc:9083
	OPERATOR_IMAGE=$SANDBOX_IMAGE
	ENV
  mv "$STATE/env.new" "$STATE/env"
}

# NB: after the first error nothing is left that runs: a second `up` starts afresh.
stop_after_failure() { [ $? = 0 ] || "$CLUSTER/down.sh" 7>&- || true; }

start_all() {
  local namespace
  trap stop_after_failure EXIT
  "$CLUSTER/down.sh" --quiet
  rm -rf "$STATE/logs"
  make_volumes
  echo "$STORAGE" > "$STATE/storage"
  step "cluster: control plane" start_node
  "$CLUSTER/images.sh" load pause coredns operator controller
  step "cluster: node and DNS" start_dns
  "$CLUSTER/warehouse.sh" "$STORAGE" hive "$METASTORE_SERVICE_IP"
  for namespace in compaction-system demo; do "$CLUSTER/warehouse-claim.sh" "$namespace" "$STORAGE"; done
  write_settings
}

mkdir -p "$STATE"
STORAGE=${STORAGE:-$(sandbox_storage)}
images_of "$STORAGE" > /dev/null
SANDBOX_IMAGE=$("$CLUSTER/images.sh" name operator)
export SANDBOX_IMAGE
"$SANDBOX/setup.sh"
exec 7> "$CACHE/cluster.lock"
flock 7
if node_runs && [ -e "$STATE/env" ]; then
  [ "$(sandbox_storage)" = "$STORAGE" ] || fail "its tables are on $(sandbox_storage); run: make sandbox-down"
  echo "sandbox: already up (since $(date -r "$STATE/started" '+%F %T'))" >&2
  "$CLUSTER/images.sh" load operator controller
  write_settings
  [ "${1:-}" = --borrowed ] || rm -f "$STATE/borrowed"
else
  start_all
  [ "${1:-}" != --borrowed ] || touch "$STATE/borrowed"
fi
echo "sandbox: up in $SECONDS s; this clone's image is $SANDBOX_IMAGE" >&2
echo "export KUBECONFIG=$STATE/admin.kubeconfig PATH=$(cat "$STATE/binaries"):\$PATH"
