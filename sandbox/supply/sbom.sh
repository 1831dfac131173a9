#!/usr/bin/env bash
# sbom.sh: lists what this clone's three images hold: build/sbom/NAME.spdx.json and NAME.cyclonedx.json, and in NAME.licences.md
# under which licences. Of the wheel, which it builds first, it lists what that needs. Fails if that is under a licence that
# licences.py does not accept.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

FOLDER=$ROOT/build/sbom
LAYOUT=$("$CLUSTER/images.sh" layout)
syft=$("$SANDBOX/program.sh" supply/syft)/syft
version=$(awk '$1 == "appVersion:" { print $2 }' "$ROOT/charts/compaction-operator/Chart.yaml" | tr -d '"')
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

list_wheel() { # NAME
  local tools wheels document=$FOLDER/$1.cyclonedx.json
  tools=$("$SANDBOX/supply/tools.sh")
  wheels=$(wheels_folder)
  "$SANDBOX/supply/wheel.sh" "$work/wheel"
  (cd "$ROOT" && "$HOST_PYTHON" -m sandbox.supply.wheel_sbom "$tools" "$wheels/requirements.txt" "$wheels" "$work"/wheel/*.whl "$document")
  "$HOST_PYTHON" "$SANDBOX/supply/licences.py" "$document" permissive > "$FOLDER/$1.licences.md"
}

step "SBOM of the wheel" list_wheel compaction-operator-wheel
"$CLUSTER/images.sh" build operator hive controller
step "SBOM of the operator's image" list compaction-operator "$("$CLUSTER/images.sh" name operator)"
step "SBOM of the image without Hudi" list compaction-operator-hive "$("$CLUSTER/images.sh" name hive)"
step "SBOM of the controller's image" list compaction-operator-controller "$("$CLUSTER/images.sh" name controller)"
ls -s --human-readable "$FOLDER"
