#!/usr/bin/env bash
# release.sh REGISTRY: publishes this commit's three images as REGISTRY/NAME:VERSION, with what publish.sh attests, and writes their
# digests to build/release/images.txt. The environment's SOURCE is where the commit can be had; by default the remote `origin`.
# FORCE=1 moves tags that lead to other images. With ARCH="amd64 arm64" each image is for both kinds of machines:
# NAME:VERSION-amd64, NAME:VERSION-arm64, and NAME:VERSION for either.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"
cd "$ROOT"

declare -A NAMES=([operator]=compaction-operator [hive]=compaction-operator-hive [controller]=compaction-operator-controller)
registry=${1:-}
[ -n "$registry" ] || fail "REGISTRY is not set: make release-images REGISTRY=HOST/PATH"
[ -n "${COSIGN_KEY:-}" ] || fail "COSIGN_KEY is not set: give the file of the private key, or its URI in a KMS"
[ -z "$(git status --porcelain)" ] || fail "this clone has changes: the provenance names a commit, so commit or remove them first"
source=${SOURCE:-$(git remote get-url origin 2> /dev/null || true)}
[ -n "$source" ] || fail "SOURCE is not set, and there is no remote origin: give the URL where this commit can be had"
[[ "$source" != *://*@* ]] || fail "SOURCE has a user or password, which the provenance would publish: set SOURCE without it"
revision=$(git rev-parse HEAD)
version=$(awk '$1 == "appVersion:" { print $2 }' charts/compaction-operator/Chart.yaml | tr -d '"')
read -ra architectures <<< "${ARCH:-}"
unset ARCH
# NB: named once: sources may be edited meanwhile. What an outer shell names is another tree's.
unset SANDBOX_IMAGE
SANDBOX_IMAGE=$("$CLUSTER/images.sh" name operator)
export SANDBOX_IMAGE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

publish() { # NAME IMAGE
  local tag=$version${ARCH:+-$ARCH}
  mkdir "$work/$1"
  "$HOST_PYTHON" "$CLUSTER/oci_archive.py" "$("$CLUSTER/images.sh" layout)" "$2" /dev/null | tar -x -C "$work/$1"
  "$HOST_PYTHON" sandbox/supply/provenance.py "$1" "$source" "$revision" "$tag" > "build/sbom/$1.provenance.json"
  sandbox/supply/publish.sh "$work/$1" "$registry/$1" "$tag" "build/sbom/$1" >> "$work/${ARCH:-images}.txt"
  rm -r "${work:?}/$1"
}

join() { # NAME
  sandbox/supply/index.sh "$registry/$1" "$version" "${architectures[@]}" >> "$work/images.txt"
}

publish_all() {
  local short
  sandbox/supply/sbom.sh > /dev/null
  "$CLUSTER/images.sh" outdated "${!NAMES[@]}" ||
    fail "the images have older packages than Debian, or it could not be asked; run: ${ARCH:+ARCH=$ARCH }sandbox/cluster/images.sh fresh ${!NAMES[*]}"
  [ "$(git rev-parse HEAD) $(git status --porcelain)" = "$revision " ] || fail "this clone has changed while the images were built"
  for short in "${!NAMES[@]}"; do
    step "publish ${NAMES[$short]} ${ARCH:-}" publish "${NAMES[$short]}" "$("$CLUSTER/images.sh" name "$short")"
  done
}

[ ${#architectures[@]} != 0 ] || publish_all
for ARCH in "${architectures[@]}"; do
  export ARCH
  publish_all
done
for name in "${NAMES[@]}"; do [ ${#architectures[@]} = 0 ] || step "join $name" join "$name"; done
mkdir -p build/release
mv "$work/images.txt" build/release/images.txt
cat build/release/images.txt
