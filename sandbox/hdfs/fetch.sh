#!/usr/bin/env bash
# fetch.sh: puts the jars of HDFS into the user's cache, unless they are there already.
# Prints their folder on standard output, progress on standard error. Needs a JDK and Maven.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/../env.sh"

JARS=$CACHE/hdfs-$(content_hash sandbox/hdfs/pom.xml)

download() { # output folder
  # -C: a file whose checksum is wrong fails the download.
  mvn -q -B -C -Dstyle.color=never -f "$here/pom.xml" -Doutput="$1" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy
}

[ -d "$JARS" ] || step "HDFS (90 MB)" into_cache "$JARS" download
echo "$JARS"
