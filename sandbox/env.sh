# shellcheck shell=bash disable=SC2034  # the scripts that source this use what it sets
# Settings and small functions that the sandbox's scripts share. Sourced, never run.

SANDBOX=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CLUSTER=$SANDBOX/cluster
ROOT=$(dirname "$SANDBOX")

# All that is expensive lies in the user's cache, named by a hash of what it was made from, so that clones share it.
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/compaction-operator
STATE=$CACHE/state # of the one cluster of this cache
LOGS=$CACHE/logs

NODE=sandbox-node
NODE_IP=10.77.0.1
POD_CIDR=10.78.0.0/24
POD_GATEWAY=10.78.0.1
SERVICE_CIDR=10.79.0.0/24
API_SERVICE_IP=10.79.0.1
DNS_SERVICE_IP=10.79.0.10
METASTORE_SERVICE_IP=10.79.0.20

# Where the kubelet keeps its pods' control groups: two sandboxes on one machine must not share it.
CGROUP=compaction-sandbox-$(sha256sum <<< "$STATE" | cut -c1-8)

# The servers of a cluster that has tables on HDFS or S3.
HDFS_URI=hdfs://hdfs-namenode.hdfs.svc:8020
S3_ENDPOINT=http://minio.minio.svc:9000
S3_BUCKET=lake

# The user and group of every pod that touches the warehouse.
POD_UID=185

BUILDAH=(buildah --root "$CACHE/images/store" --runroot "$CACHE/images/run" --storage-driver overlay)

fail() {
  echo "sandbox: $*" >&2
  exit 1
}

# step TITLE COMMAND...: runs it with its output in a log, and prints one line with the seconds it took.
step() {
  local title=$1 start=$SECONDS log status
  shift
  log=$LOGS/$(tr -cs '[:alnum:]\n' - <<< "$title").log
  mkdir -p "$LOGS"
  # NB: as the condition of an `if` the command would run on after its first error.
  set +e
  (
    set -e
    "$@"
  ) > "$log" 2>&1
  status=$?
  set -e
  if [ $status != 0 ]; then
    tail -n 20 "$log" >&2
    fail "failed: $title (after $((SECONDS - start)) s; log: $log)"
  fi
  printf 'sandbox: %-70s %4d s\n' "$title" $((SECONDS - start)) >&2
}

# await SECONDS COMMAND...: until it succeeds; fails when it does not in time, or when the node ends.
await() {
  local end=$((SECONDS + $1))
  shift
  until "$@" > /dev/null 2>&1; do
    node_runs || { echo "the node ended; its logs: $STATE/logs" && return 1; }
    [ $SECONDS -lt $end ] || { echo "gave up waiting for: $*; logs: $STATE/logs" && return 1; }
    sleep 0.2
  done
}

# content_hash PATH...: a short hash of names and contents of files, given relative to the repository.
content_hash() {
  (cd "$ROOT" && find "$@" -type f -not -path '*/__pycache__/*' -not -name '*.pyc' -not -name '*.so' -print0 | LC_ALL=C sort -z \
    | xargs -0 sha256sum | sha256sum | cut -c1-12)
}

# into_cache FOLDER FUNCTION: makes the folder by `FUNCTION NEW_FOLDER`, unless it is there; two clones never make it at once.
# It is made aside and renamed when whole, so that what bears its name is complete.
into_cache() {
  mkdir -p "$(dirname "$1")"
  (
    flock 9
    if [ ! -d "$1" ]; then
      rm -rf "$1.new"
      mkdir "$1.new"
      "$2" "$1.new" >&2 9>&-
      mv "$1.new" "$1"
    fi
  ) 9> "$1.lock"
  echo "$1"
}

binaries_folder() { echo "$CACHE/binaries-$(content_hash sandbox/cluster/kubernetes sandbox/cluster/coredns sandbox/cluster/binaries.sh sandbox/cluster/helm.lock sandbox/cluster/unpack_helm.py)"; }

# The Python 3.11 of the machine, not that of a virtual environment that happens to be active.
find_python() {
  local candidate
  for candidate in python3.11 python3 /usr/bin/python3.11; do
    "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2> /dev/null || continue
    "$candidate" -c 'import os, sys; print(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))'
    return
  done
}
HOST_PYTHON=${HOST_PYTHON:-$(find_python)}

wheels_folder() { echo "$CACHE/wheels-$(content_hash requirements.lock operator/requirements.lock)"; }

sandbox_kubectl() { "$(cat "$STATE/binaries")/kubectl" --kubeconfig "$STATE/admin.kubeconfig" "$@"; }

# images_of STORAGE: the images of the servers behind tables on a local disk, HDFS or S3, a metastore's among them.
images_of() {
  case $1 in
    file) echo metastore-3.1.3 ;;
    hdfs) echo metastore-3.1.3 hdfs ;;
    s3) echo metastore-4.0.1 s3 ;; # the operator refuses Hive 3.1 on S3
    *) fail "STORAGE is $1: set it to file, hdfs or s3" ;;
  esac
}

# location_of STORAGE: the warehouse's folder as its metastore has it.
location_of() {
  case $1 in
    file) echo file:///warehouse ;;
    hdfs) echo "$HDFS_URI/warehouse" ;;
    s3) echo "s3a://$S3_BUCKET/warehouse" ;;
  esac
}

# Where the tables of the running sandbox lie, file, hdfs or s3; without one it is file.
sandbox_storage() { cat "$STATE/storage" 2> /dev/null || echo file; }

# NB: after a restart of the machine another process may have the recorded number.
node_runs() { grep -qsF sandbox/cluster/node.sh "/proc/$(cat "$STATE/node.pid" 2> /dev/null || echo none)/cmdline"; }

# Tests and demos of several clones may use the sandbox at once: the last to leave ends it, unless a person started it.
borrow_sandbox() {
  mkdir -p "$CACHE"
  exec 6> "$CACHE/users.lock"
  flock --shared 6
  trap return_sandbox EXIT
  # Another clone may give the sandbox its own image meanwhile: this one's is known to all that it starts.
  SANDBOX_IMAGE=$("$CLUSTER/images.sh" name operator)
  export SANDBOX_IMAGE
}

return_sandbox() {
  if [ -e "$STATE/borrowed" ] && flock --exclusive --nonblock 6; then "$CLUSTER/down.sh" --quiet; fi
}
