#!/usr/bin/env bash
# foreign_wheels.sh arm64: puts the wheels of operator/requirements.lock for another kind of machine into the cache, and
# prints their folder. What is compiled comes from the package index, by the lock's hashes; pure Python is what
# python.sh has downloaded already.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

declare -A MACHINES=([arm64]=aarch64)
machine=${MACHINES[${1:?which architecture}]:-}
[ -n "$machine" ] || fail "no wheels are known for $1; say arm64"
own=$(wheels_folder)
[ -d "$own" ] || fail "the wheels of this machine are not there; run: make venv"
folder=$own-$1

fetch() { # output folder
  local wheel platforms=()
  for platform in manylinux2014 manylinux_2_17 manylinux_2_28; do platforms+=(--platform "${platform}_$machine"); done
  for wheel in "$own"/*-none-any.whl; do ln "$wheel" "$1/"; done
  cp "$own/requirements.txt" "$1/"
  "$HOST_PYTHON" "$SANDBOX/supply/compiled.py" "$own" < "$ROOT/operator/requirements.lock" > "$1.lock"
  nice "$HOST_PYTHON" -m pip download -q --no-deps --require-hashes --only-binary :all: --python-version 3.11 \
    "${platforms[@]}" -r "$1.lock" -d "$1"
  rm "$1.lock"
}

[ -d "$folder" ] || step "Python packages for $1: download" into_cache "$folder" fetch
echo "$folder"
