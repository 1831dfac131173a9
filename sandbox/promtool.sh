#!/usr/bin/env bash
# promtool.sh: puts Prometheus' promtool into the user's cache, unless it is there already, and prints its path.
# It is taken out of Debian's package, which is not installed: that would start a server.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/env.sh"

FOLDER=$CACHE/promtool-$(content_hash sandbox/promtool.sh)

download() { apt-get download -q prometheus; }

unpack() { # output folder
  cd "$1"
  download || { apt-get update -qq && download; }
  dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x --strip-components=3 ./usr/bin/promtool
  rm prometheus_*.deb
}

[ -d "$FOLDER" ] || step "promtool (19 MB)" into_cache "$FOLDER" unpack > /dev/null
echo "$FOLDER/promtool"
