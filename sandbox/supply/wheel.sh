#!/usr/bin/env bash
# wheel.sh FOLDER: builds the wheel of these sources into FOLDER. Two builds of one commit with one compiler have the same bytes: the
# times in it are the commit's, and neither the build's folder nor the modes of this clone's files show.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

tools=$("$SANDBOX/supply/tools.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -c -C "$ROOT" --mode=u+rw,go-w,a+rX --exclude=__pycache__ --exclude='*.so' pyproject.toml README.md LICENSE operator \
  | tar -x -p -C "$work"
umask 022
SOURCE_DATE_EPOCH=$(git -C "$ROOT" log -1 --format=%ct)
export SOURCE_DATE_EPOCH
# NB: without isolation, so that setuptools is the one of tools.lock, by its hash.
nice "$tools/bin/python" -m pip wheel -q --no-deps --no-index --no-build-isolation -w "$1" "$work"
