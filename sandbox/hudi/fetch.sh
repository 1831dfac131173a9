#!/usr/bin/env bash
# fetch.sh: puts the Spark bundles of Hudi 1.0.2 and 1.2.0, and the connector to S3, into the user's cache, unless they are there already.
# Prints their folder on standard output, progress on standard error. Needs a JDK and Maven.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/../env.sh"

BUNDLES=$CACHE/hudi-bundles-$(content_hash sandbox/hudi/pom.xml)

download() { # output folder
  # -C: a file whose checksum is wrong fails the download.
  mvn -q -B -C -Dstyle.color=never -f "$here/pom.xml" -Doutput="$1" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy
  chmod -R a+rX "$1"
}

[ -d "$BUNDLES" ] || step "Hudi's Spark bundles and the S3 connector (195 MB)" into_cache "$BUNDLES" download
echo "$BUNDLES"
