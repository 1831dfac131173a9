#!/usr/bin/env bash
# fetch.sh [0.15.0]: puts the Spark bundles of Hudi 1.0.2 and 1.2.0, and the connector to S3, into the user's cache, unless they are there already.
# With 0.15.0 it does so with the bundle of that release, which the operator does not use: only the matrix of Hudi's releases needs it.
# Prints their folder on standard output, progress on standard error. Needs a JDK and Maven.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/../env.sh"

case ${1:-} in
  "") pom=pom.xml what="Hudi's Spark bundles and the S3 connector (195 MB)" ;;
  0.15.0) pom=pom-0.15.0.xml what="The Spark bundle of Hudi 0.15.0 (105 MB)" ;;
  *) fail "fetch.sh knows no Hudi $1 of its own: say 0.15.0, or nothing for the operator's bundles" ;;
esac
BUNDLES=$CACHE/hudi-bundles-$(content_hash "sandbox/hudi/$pom")

download() { # output folder
  # -C: a file whose checksum is wrong fails the download.
  mvn -q -B -C -Dstyle.color=never -f "$here/$pom" -Doutput="$1" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy
  chmod -R a+rX "$1"
}

[ -d "$BUNDLES" ] || step "$what" into_cache "$BUNDLES" download
echo "$BUNDLES"
