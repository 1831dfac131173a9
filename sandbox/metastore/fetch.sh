#!/bin/bash
# fetch.sh [VERSION [OUTDIR]]: puts a Hive metastore (3.1.3 or 4.0.1; default 3.1.3) with everything it needs but Java into OUTDIR,
# unless it is there already.
#   OUTDIR/lib  every jar    OUTDIR/scripts  the schema scripts    OUTDIR/derby  an empty database    OUTDIR/run.sh  starts it
# Without OUTDIR it goes into the user's cache. Prints the folder on standard output, progress on standard error.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=${1:-3.1.3}
pom=$here/pom-$version.xml
[ -f "$pom" ] || { echo "metastore: there is no Hive $version here" >&2; exit 1; }
hash=$(cat "$pom" "$here/fetch.sh" "$here/run.sh" | sha256sum | cut -c1-12)
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
  say "fetching Hive $version and Hadoop's client from Maven (about 200 MB)"
  # -C: a file whose checksum is wrong fails the download.
  mvn -q -B -C -Dstyle.color=never -f "$pom" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$1" >&2
}

build() {
  local work=$out.partial start=$SECONDS
  rm -rf "$work" && mkdir -p "$work/jars"
  need_maven
  download "$work/jars"
  tar -xzf "$work"/jars/hive-standalone-metastore-*-bin.tar.gz -C "$work" --strip-components=1 --no-same-owner
  rm "$work"/jars/*.tar.gz
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
