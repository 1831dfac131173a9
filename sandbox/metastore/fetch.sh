#!/bin/bash
# fetch.sh [VERSION [OUTDIR]]: puts a Hive metastore (3.1.3, 4.0.1, 4.1.0 or 4.2.0; default 3.1.3) with everything it needs but Java 17
# into OUTDIR, unless it is there already.
#   OUTDIR/lib  every jar    OUTDIR/scripts  the schema scripts    OUTDIR/derby  an empty database    OUTDIR/run.sh  starts it
#   OUTDIR/java  the Java 21 of this machine's cache, which 4.2.0 needs
# Without OUTDIR it goes into the user's cache. Prints the folder on standard output, progress on standard error.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=${1:-3.1.3}
pom=$here/pom-$version.xml
[ -f "$pom" ] || { echo "metastore: there is no Hive $version here" >&2; exit 1; }
made_of=("$pom" "$here/fetch.sh" "$here/run.sh")
# Since 4.1 the server is no artifact of its own: 4.0.1's folder with other libraries and some more of the schema becomes one.
changes=()
case $version in
  4.1.*) changes=("$here/schema-4.1.0.sql") ;;
  4.2.*) changes=("$here/schema-4.1.0.sql" "$here/schema-4.2.0.sql") ;;
esac
[ ${#changes[@]} = 0 ] || made_of+=("${changes[@]}" "$here/pom-4.0.1.xml" "$here/../java21.txt")
hash=$(cat "${made_of[@]}" | sha256sum | cut -c1-12)
out=${2:-${XDG_CACHE_HOME:-$HOME/.cache}/compaction-operator/metastore-$hash}
say() { echo "metastore: $*" >&2; }

is_complete() { [ "$(cat "$out/.complete" 2>/dev/null)" = "$hash" ]; }

need_maven() {
  command -v mvn >/dev/null && return
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    say "needs Maven: install the package maven"
    exit 1
  fi
  say "installing Maven"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends maven; } >&2
}

download() {
  say "fetching Hive $version and what it needs from Maven (100 to 200 MB)"
  # -C: a file whose checksum is wrong fails the download.
  mvn -q -B -C -Dstyle.color=never -f "$pom" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$1" >&2
}

unpack() { # output folder
  tar -xzf "$1"/jars/hive-standalone-metastore-*-bin.tar.gz -C "$1" --strip-components=1 --no-same-owner
  rm "$1"/jars/*.tar.gz
}

derive() { # output folder
  local base database
  base=$("$here/fetch.sh" 4.0.1)
  cp -r "$base/lib" "$base/scripts" "$1"
  rm "$1"/lib/{hive-,orc-,datanucleus-}*.jar
  for database in derby postgres; do
    (cd "$1/scripts/metastore/upgrade/$database" && cat "hive-schema-4.0.0.$database.sql" "${changes[@]}" > "hive-schema-$version.$database.sql")
  done
  case $version in 4.2.*) ln -s "$("$here/../java21.sh")" "$1/java" ;; esac
}

build() {
  local work=$out.partial start=$SECONDS
  rm -rf "$work" && mkdir -p "$work/jars"
  need_maven
  download "$work/jars"
  if [ ${#changes[@]} = 0 ]; then unpack "$work"; else derive "$work"; fi
  mv "$work"/jars/*.jar "$work/lib/" && rmdir "$work/jars"
  cp "$here/run.sh" "$work/run.sh"
  echo "$version" > "$work/version"
  STATE_DIR=$work/schema WAREHOUSE=file:/nowhere "$work/run.sh" schema
  mv "$work/schema/database" "$work/derby" && rm -rf "$work/schema"
  echo "$hash" > "$work/.complete"
  chmod -R a+rX "$work"
  rm -rf "$out" && mv "$work" "$out"
  say "ready in $out after $((SECONDS - start)) s"
}

mkdir -p "$(dirname "$out")"
exec 9> "$out.lock"
flock 9
is_complete || build
echo "$out"
