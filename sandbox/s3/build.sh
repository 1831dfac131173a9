#!/usr/bin/env bash
# build.sh minio|versitygw: builds an S3 server for tests from the modules that go.mod and go.sum pin, once, into the
# user's cache. Prints the folder that holds the program. Needs Go.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/../env.sh"

name=$1
PROGRAM=$CACHE/$name-$(content_hash "sandbox/s3/$name")

# NB: MinIO takes a build whose version is "DEVELOPMENT" like any other; its own release flags are not needed.
build() { # output folder
  local package
  package=$(cd "$here/$name" && awk '$1 == "tool" { print $2 }' go.mod)
  (cd "$here/$name" && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-buildvcs=false \
    nice go build -trimpath -ldflags "-s -w" -o "$1/$name" "$package")
}

[ -d "$PROGRAM" ] || step "S3 server $name" into_cache "$PROGRAM" build
echo "$PROGRAM"
