#!/usr/bin/env bash
# apply.sh MANIFEST [NAME=VALUE...]: applies one of manifests/ to the sandbox with ${NAME} replaced.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

expressions=()
for assignment in "${@:2}"; do expressions+=(-e "s|\${${assignment%%=*}}|${assignment#*=}|g"); done
sed "${expressions[@]}" "$CLUSTER/manifests/$1.yaml" | sandbox_kubectl apply --server-side --filename - > /dev/null
