#!/usr/bin/env bash
# audit.sh [OPTION...]: asks PyPI whether vulnerabilities are known of what the locks pin: the image's packages, the tests', and the
# tools of the supply chain. With the environment's ADVISORIES, a folder such as a clone of PyPA's advisory database, it asks no
# server. The options are pip-audit's. Fails if one is known, and if only one package got no answer.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"
cd "$ROOT"

tools=$("$SANDBOX/supply/tools.sh")
# NB: without --strict, packages that PyPI does not speak of are left out, and the rest counts as clean.
command=("$tools/bin/python" -m pip_audit --strict --disable-pip --require-hashes --progress-spinner off
  -r operator/requirements.lock -r requirements.lock -r sandbox/supply/tools.lock "$@")
[ -z "${ADVISORIES:-}" ] || command=(.venv/bin/python -m sandbox.supply.advisories "$ADVISORIES" "${command[@]}")
exec "${command[@]}"
