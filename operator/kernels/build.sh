#!/bin/sh
# build.sh PYTHON FOLDER [OPTION...]: compiles the kernels for this interpreter's version and all later ones into
# FOLDER/_kernels.abi3.so; the options are the compiler's.
set -eu
python=$1 folder=$2
shift 2
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
# NB: built aside and renamed, as a process may have the old library open.
cc -std=c11 -O3 -Wall -Wextra -fvisibility=hidden -fPIC -shared "-I$include" "$@" "$(dirname "$0")"/*.c \
  -o "$folder/_kernels.abi3.so.new"
mv "$folder/_kernels.abi3.so.new" "$folder/_kernels.abi3.so"
