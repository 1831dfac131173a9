#!/usr/bin/env bash
# lint.sh [CHECK...]: the checks that read the code without running it: ruff, format, mypy, layers, shellcheck; all by default.
# Every named check runs, also after a failure. The exit code is 1 when one of them failed.
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

[ -x .venv/bin/ruff ] || fail "no .venv; run: make venv"
[ $# != 0 ] || set -- ruff format mypy layers shellcheck
for name in "$@"; do
  case $name in
    ruff) check ruff .venv/bin/ruff check . ;;
    format) check format .venv/bin/ruff format --check . ;;
    mypy) check mypy .venv/bin/mypy ;;
    layers) check layers .venv/bin/lint-imports ;;
    shellcheck)
      mapfile -t scripts < <(find . -path ./.venv -prune -o \( -name '*.sh' -o -path ./.ci/run \) -print)
      if command -v shellcheck > /dev/null; then
        check shellcheck shellcheck --external-sources "${scripts[@]}"
      else
        echo "lint: shellcheck failed: not installed; run: apt-get install shellcheck (macOS: brew install shellcheck)" >&2
        failed=1
      fi
      ;;
    *) fail "unknown check '$name'; checks: ruff, format, mypy, layers, shellcheck" ;;
  esac
done
exit $failed
