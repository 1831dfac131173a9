#!/usr/bin/env bash
# python.sh: puts the locked requirements into the cache, makes the clone's .venv, which sees them and the clone's package, and
# compiles the kernels into that package.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/env.sh"

PYTHON_ID=$("$HOST_PYTHON" -c 'import platform; print(platform.python_version())')
WHEELS=$(wheels_folder)
LIBRARY=$CACHE/python-$PYTHON_ID-$(content_hash requirements.lock)
MADE_OF="$ROOT $LIBRARY $(content_hash sandbox/python.sh operator/kernels)"
KERNELS=$ROOT/operator/compaction_operator/orc

download_wheels() { # output folder
  # NB: --no-deps, as the lock is complete. Without it pip 23 tries the newest `coverage` for `coverage[toml]` first and refuses it.
  nice "$HOST_PYTHON" -m pip wheel -q --no-deps --require-hashes -r "$ROOT/requirements.lock" -w "$1"
  # NB: a wheel that was built here has no hash in the lock; the image installs by these names alone.
  sed -n 's/^\([a-zA-Z0-9._-]*==[^ ]*\).*/\1/p' "$ROOT/operator/requirements.lock" > "$1/requirements.txt"
}

install_wheels() { # output folder
  "$HOST_PYTHON" -m venv --without-pip "$1"
  nice "$HOST_PYTHON" -m pip --python "$1/bin/python" install -q --no-index --no-deps --no-warn-script-location "$WHEELS"/*.whl
}

# How a script of the clone's environment begins. NB: a path after `#!` may hold no space, and has at most 127 characters.
first_lines() {
  printf '%s\n' '#!/bin/sh' "'''exec' '$ROOT/.venv/bin/python' \"\$0\" \"\$@\"" "' '''"
}

# The clone's own environment has links only: the cached packages and operator/ by a .pth file, the tools by new first lines.
link_clone() {
  local venv=$ROOT/.venv script
  rm -rf "$venv"
  "$HOST_PYTHON" -m venv --without-pip "$venv"
  printf '%s\n' "$LIBRARY/lib/python3.11/site-packages" "$ROOT/operator" "$ROOT" > "$venv/lib/python3.11/site-packages/clone.pth"
  # gssapi comes from Debian's package python3-gssapi, as in the image: the package index has its source only, and building that
  # needs a compiler and libkrb5-dev. NB: links to this package and what it imports alone, so that .venv sees no other one of the
  # system's. They are there before the package is, which tests without Kerberos do not need.
  ln -s /usr/lib/python3/dist-packages/{gssapi,decorator.py} "$venv/lib/python3.11/site-packages/"
  for script in pytest mypy lint-imports kopf; do
    { first_lines && tail -n +2 "$LIBRARY/bin/$script"; } > "$venv/bin/$script"
  done
  ln -s "$LIBRARY/bin/ruff" "$venv/bin/ruff"
  { first_lines && printf '%s\n' "import sys" "from compaction_operator.cli import main" "sys.exit(main())"; } \
    | tee "$venv/bin/kubectl-compaction" > "$venv/bin/compaction-operator"
  { first_lines && printf '%s\n' "from compaction_operator.cli.entry import complete" "complete()"; } \
    > "$venv/bin/kubectl_complete-compaction"
  chmod +x "$venv"/bin/{pytest,mypy,lint-imports,kopf,compaction-operator,kubectl-compaction,kubectl_complete-compaction}
  nice "$ROOT/operator/kernels/build.sh" "$HOST_PYTHON" "$KERNELS"
  echo "$MADE_OF" > "$venv/made-of"
}

is_made() { [ "$(cat "$ROOT/.venv/made-of" 2> /dev/null)" = "$MADE_OF" ] && [ -e "$KERNELS/_kernels.abi3.so" ]; }

[ -d "$WHEELS" ] || step "Python packages: download" into_cache "$WHEELS" download_wheels
[ -d "$LIBRARY" ] || step "Python packages: install" into_cache "$LIBRARY" install_wheels
is_made || step "Python packages: this clone's .venv, and its kernels" link_clone
