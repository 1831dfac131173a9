#!/usr/bin/env bash
# sanitize.sh SECONDS SEED: the tests of the compiled kernels, then the fuzzer, with kernels that notice each access outside of their
# memory and all undefined behaviour. A finding ends the process with a report.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/env.sh"
cd "$ROOT"

checked=build/sanitized
rm -rf "$checked"
mkdir -p "$checked"
cp -r operator/compaction_operator "$checked"
operator/kernels/build.sh "$HOST_PYTHON" "$checked/compaction_operator/orc" -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all

# NB: with PYTHONMALLOC each bytes object is an allocation of its own, so an access beside one is seen.
export PYTHONPATH=$checked PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0
LD_PRELOAD=$(cc -print-file-name=libasan.so)
export LD_PRELOAD
.venv/bin/pytest -q tests/unit/orc/test_kernels.py tests/unit/orc/test_rle.py tests/unit/orc/test_rle_encode.py tests/unit/orc/test_statistics.py
.venv/bin/python -m tests.soak.fuzz --both --seconds "$1" --seed "$2"
