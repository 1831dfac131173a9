#!/usr/bin/env bash
# crds.sh: prints the folder of the Prometheus operator's CRDs, from its Go module, which go.mod and go.sum pin. Needs Go.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

MODULE=github.com/prometheus-operator/prometheus-operator

cd "$SANDBOX/prometheus"
version=$(awk -v module=$MODULE '$2 == module { print $3 }' go.mod)
GOTOOLCHAIN=local go mod download -json "$MODULE@$version" \
  | "$HOST_PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["Dir"] + "/example/prometheus-operator-crd")'
