#!/usr/bin/env bash
# lint.sh: every check that reads the code without running it. All of them run; the exit code says whether one failed.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/env.sh"
cd "$ROOT" || exit 1

failed=0
check() { # NAME COMMAND...
  local start=$SECONDS output
  if output=$("${@:2}" 2>&1); then
    printf 'lint: %-73s %4d s\n' "$1" $((SECONDS - start)) >&2
  else
    printf '%s\nlint: %s failed\n' "$output" "$1" >&2
    failed=1
  fi
}

mapfile -t scripts < <(find . -path ./.venv -prune -o \( -name '*.sh' -o -path ./.ci/run \) -print)
check ruff .venv/bin/ruff check .
check mypy .venv/bin/mypy
check layers .venv/bin/lint-imports
if command -v shellcheck > /dev/null; then check shellcheck shellcheck --external-sources "${scripts[@]}"; fi
exit $failed
