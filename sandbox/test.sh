#!/usr/bin/env bash
# test.sh [PYTEST_ARGUMENT...]: set-up, lint, the sandbox, then one run of pytest; the sandbox is ended if it was started for this.
# Standard output is pytest's alone, and so is the exit code once the tests run.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/env.sh"
cd "$ROOT"

borrow_sandbox
"$SANDBOX/setup.sh"
# What tests/e2e/test_stores.py starts in the cluster besides.
"$CLUSTER/images.sh" build hdfs s3 metastore-4.0.1
"$SANDBOX/lint.sh"
STORAGE="file" "$CLUSTER/up.sh" --borrowed > /dev/null
status=0
# NB: a bare pytest runs tests/unit alone; here all of tests/ is the default.
# Two processes, as many tests wait for others: tests/conftest.py keeps together what must share one.
.venv/bin/pytest -o testpaths=tests --numprocesses 2 --dist loadscope --no-loadscope-reorder "$@" || status=$?
exit $status
