#!/usr/bin/env bash
# program.sh FOLDER: builds the Go program that is the tool of sandbox/FOLDER's go.mod (s3/minio, supply/cosign, …) once,
# into the user's cache, from the modules that go.mod and go.sum pin. Prints the folder that holds the program. Needs Go.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/env.sh"

folder=$1 name=${1##*/}
PROGRAM=$CACHE/$name-$(content_hash "sandbox/$folder")

# NB: MinIO takes a build whose version is "DEVELOPMENT" like any other; its own release flags are not needed.
build() { # output folder
  local package
  package=$(cd "$SANDBOX/$folder" && awk '$1 == "tool" { print $2 }' go.mod)
  (cd "$SANDBOX/$folder" && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-buildvcs=false \
    nice go build -trimpath -ldflags "-s -w" -o "$1/$name" "$package")
}

[ -d "$PROGRAM" ] || step "$folder" into_cache "$PROGRAM" build
echo "$PROGRAM"
