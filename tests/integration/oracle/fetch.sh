#!/usr/bin/env bash
# fetch.sh: puts Hive's libraries 3.1.3, 4.0.1, 4.1.0 and 4.2.0 and the oracle's compiled program into the user's cache, unless they
# are there already.
#   common/, hive3/, hive4/, hive4.1/, hive4.2/    jars    classes3/, classes4/, classes4.1/    the program, compiled against them
#   java21/    for 4.2, which also runs what was compiled against 4.1: Java 17's compiler cannot read its classes
# Prints the folder on standard output, progress on standard error. Needs a JDK 17 and Maven.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/../../../sandbox/env.sh"

JARS=$CACHE/oracle-jars-$(content_hash tests/integration/oracle/pom.xml)
PROGRAM=$CACHE/oracle-$(content_hash tests/integration/oracle/pom.xml tests/integration/oracle/fetch.sh tests/integration/oracle/java sandbox/java21.sh sandbox/java21.txt)

download() { # output folder
  # -C: a file whose checksum is wrong fails the download.
  mvn -q -B -C -Dstyle.color=never -f "$here/pom.xml" -Doutput="$1" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy
}

compile() { # output folder
  local version sources
  for version in 3 4 4.1; do
    mapfile -t sources < <(find "$here/java/common" "$here/java/hive${version%.*}" -name '*.java')
    mkdir "$1/classes$version"
    javac -nowarn -Xlint:none -proc:none -d "$1/classes$version" -cp "$JARS/hive$version/*:$JARS/common/*" "${sources[@]}"
  done
  ln -s "$JARS"/{common,hive3,hive4,hive4.1,hive4.2} "$1"
  ln -s "$("$SANDBOX/java21.sh")" "$1/java21"
}

[ -d "$JARS" ] || step "Hive's libraries for the oracle (350 MB)" into_cache "$JARS" download
[ -d "$PROGRAM" ] || step "Hive's readers as an oracle: compile" into_cache "$PROGRAM" compile
echo "$PROGRAM"
