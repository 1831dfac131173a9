#!/usr/bin/env bash
# sbom.sh: lists what this clone's three images hold: build/sbom/NAME.spdx.json and NAME.cyclonedx.json, and in NAME.licences.md
# under which licences.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

FOLDER=$ROOT/build/sbom
LAYOUT=$("$CLUSTER/images.sh" layout)
syft=$("$SANDBOX/program.sh" supply/syft)/syft
version=$(awk '$1 == "appVersion:" { print $2 }' "$ROOT/charts/compaction-operator/Chart.yaml" | tr -d '"')
"$CLUSTER/images.sh" build operator hive controller
mkdir -p "$FOLDER"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

list() { # NAME IMAGE: by what the layers hold (packages of Debian, Python and Maven), not by what a lock says
  "$HOST_PYTHON" "$CLUSTER/oci_archive.py" "$LAYOUT" "$2" /dev/null > "$work/$1.tar"
  SYFT_CHECK_FOR_APP_UPDATE=false "$syft" scan -q "oci-archive:$work/$1.tar" --source-name "$1" --source-version "$version" \
    -o "spdx-json=$FOLDER/$1.spdx.json" -o "cyclonedx-json=$FOLDER/$1.cyclonedx.json"
  "$HOST_PYTHON" "$SANDBOX/supply/licences.py" "$FOLDER/$1.cyclonedx.json" > "$FOLDER/$1.licences.md"
  rm "$work/$1.tar"
}

step "SBOM of the operator's image" list compaction-operator "$("$CLUSTER/images.sh" name operator)"
step "SBOM of the image without Hudi" list compaction-operator-hive "$("$CLUSTER/images.sh" name hive)"
step "SBOM of the controller's image" list compaction-operator-controller "$("$CLUSTER/images.sh" name controller)"
ls -s --human-readable "$FOLDER"
