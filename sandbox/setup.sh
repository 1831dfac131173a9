#!/usr/bin/env bash
# setup.sh: all that the tests and the sandbox need, from a machine with Go, Java 17 and Python 3.11; quick when the cache has it.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/env.sh"

# On a terminal: how far the compiler is, until it ends.
show_build() {
  local all
  while kill -0 "$builder" 2> /dev/null; do
    all=$(sed -n 's/^packages: //p' "$CACHE/binaries.log")
    printf '\rsandbox: Kubernetes: %d of %s packages compiled ' "$(grep -cv ' ' "$CACHE/binaries.log")" "${all:-about 2000}" >&2
    sleep 1
  done
  printf '\r\033[K' >&2
}

built() { wait "$builder" || { tail -n 20 "$CACHE/binaries.log" && false; }; }

"$SANDBOX/prerequisites.sh"
[ -d "$(binaries_folder)" ] || echo "sandbox: building Kubernetes meanwhile (10 minutes of both cores when Go's cache is empty)" >&2
# NB: in a session of its own, so that an interrupted set-up takes the compiler along.
setsid "$CLUSTER/binaries.sh" > "$CACHE/binaries.log" 2>&1 < /dev/null &
builder=$!
trap 'kill -- -$builder 2> /dev/null || true' EXIT
"$SANDBOX/python.sh"
"$CLUSTER/images.sh" build operator controller metastore-3.1.3
for version in 4.0.1 4.1.0 4.2.0; do "$SANDBOX/metastore/fetch.sh" "$version" > /dev/null; done
"$ROOT/tests/integration/oracle/fetch.sh" > /dev/null
"$SANDBOX/hudi/fetch.sh" > /dev/null
"$SANDBOX/hdfs/fetch.sh" > /dev/null
"$SANDBOX/promtool.sh" > /dev/null
start=$SECONDS
[ ! -t 2 ] || show_build
built >&2 || fail "failed: building Kubernetes (log: $CACHE/binaries.log)"
[ $((SECONDS - start)) -lt 2 ] || printf 'sandbox: %-70s %4d s\n' "Kubernetes: the rest of its build" $((SECONDS - start)) >&2
trap - EXIT
"$CLUSTER/images.sh" build pause coredns
for server in minio versitygw; do "$SANDBOX/program.sh" "s3/$server" > /dev/null; done
