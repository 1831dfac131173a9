#!/usr/bin/env bash
# images.sh build NAME...  makes images without a Docker daemon, in the cache (operator, hive, controller, metastore-3.1.3,
#                          metastore-4.0.1, hdfs, s3, pause, coredns)
# images.sh name NAME      prints the full name of this clone's image
# images.sh run IMAGE TEXT runs a command of the shell in an image
# images.sh layout         prints the folder that has the images in the OCI format
# images.sh fresh NAME...  makes them from Debian's packages of today, also if they are made already
# images.sh outdated NAME... lists packages in images for which Debian has newer ones; fails if there are any
# images.sh again          makes the controller's image once more, from nothing; fails unless it has the same digest
# images.sh load NAME...   gives the running node those that it lacks
# A name ends in a hash of the sources: clones, and versions of one clone, lie side by side and share their layers.
# With ARCH=arm64 in the environment operator, hive and controller are for machines of that kind, built under emulation.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

# NB: a layout and a lock of its own: emulation is slow, and other builds must not wait for it.
ARCH=${ARCH:-}
[ "$ARCH" != "$(dpkg --print-architecture)" ] || ARCH=
LAYOUT=$CACHE/images/oci${ARCH:+-$ARCH}
# The time of all files in the base and in the controller's image, whenever they are built, so that two builds are equal: 2026-01-01.
EPOCH=1767225600
BASE_IMAGE=localhost/debian:bookworm-slim${ARCH:+-$ARCH}
OPERATOR_SOURCES=(operator/Dockerfile operator/entrypoint.sh operator/requirements.lock operator/kernels operator/compaction_operator sandbox/hudi/pom.xml)

image_name() {
  local operator
  case $1 in
    # NB: a script that makes, loads and names it sets the name once, as sources may be edited meanwhile.
    operator) echo "${SANDBOX_IMAGE:-localhost/compaction-operator:$(content_hash "${OPERATOR_SOURCES[@]}")}${ARCH:+-$ARCH}" ;;
    # NB: of the same sources as the operator's.
    hive | controller)
      operator=$(image_name operator)
      echo "${operator/compaction-operator:/compaction-operator-$1:}"
      ;;
    metastore-*) echo "localhost/hive-${1/-/:}-$(content_hash sandbox/metastore/{Dockerfile,fetch.sh,run.sh,"pom-${1#metastore-}.xml"})" ;;
    hdfs) echo "localhost/hdfs:3.4.1-$(content_hash sandbox/hdfs/{Dockerfile,fetch.sh,pom.xml})" ;;
    s3) echo "localhost/minio:$(content_hash sandbox/program.sh sandbox/s3/{Dockerfile,minio})" ;;
    pause | coredns) echo "localhost/$1:$(content_hash sandbox/cluster/kubernetes sandbox/cluster/coredns sandbox/cluster/program.Dockerfile)" ;;
    *) fail "no image is called $1" ;;
  esac
}

# What debian:bookworm-slim is, made from Debian's packages: without perl's modules, with each package's licence, and apt keeps no caches.
build_base() {
  local tar=$CACHE/images/base${ARCH:+-$ARCH}.tar dates=$CACHE/images/base${ARCH:+-$ARCH}.dates container
  # shellcheck disable=SC2016  # mmdebstrap sets $1 for its hook
  SOURCE_DATE_EPOCH=$EPOCH nice mmdebstrap ${ARCH:+"--architectures=$ARCH"} --variant=minbase --include=ca-certificates,usr-is-merged \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    --customize-hook='echo "Dir::Cache::pkgcache \"\"; Dir::Cache::srcpkgcache \"\";" > "$1/etc/apt/apt.conf.d/no-caches"' \
    --customize-hook='grep -h ^Date: "$1"/var/lib/apt/lists/*Release | LC_ALL=C sort -u > '"'$dates'" \
    --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*' bookworm "$tar"
  container=$("${BUILDAH[@]}" from ${ARCH:+--arch "$ARCH"} scratch)
  "${BUILDAH[@]}" add -q "$container" "$tar" /
  # NB: it names the state of Debian's archives. With another label, no layer above it comes from the cache.
  "${BUILDAH[@]}" config --label "dev.compaction.debian=$(sed 's/^Date: //' "$dates" | paste -sd '|')" "$container"
  "${BUILDAH[@]}" config ${ARCH:+--arch "$ARCH"} --cmd bash --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
  "${BUILDAH[@]}" commit -q --rm --timestamp "$EPOCH" "$container" "$BASE_IMAGE"
  rm "$tar" "$dates"
}

# bud IMAGE OPTION...: no container runtime is asked for, and steps see the machine's network.
bud() {
  local image=$1
  shift
  nice "${BUILDAH[@]}" bud --layers ${AGAIN:+--no-cache} ${ARCH:+--arch "$ARCH"} --isolation chroot --network host \
    --build-arg "BASE=$BASE_IMAGE" -t "$image" "$@"
}

# Each `push` takes half a minute to compress the layers that the layout does not hold under their uncompressed digest.
# So this puts the large layers there first, uncompressed.
seed_layers() { # IMAGE
  local digest blob work=$CACHE/images/layers${ARCH:+-$ARCH}
  for digest in $("${BUILDAH[@]}" inspect --type image --format '{{range .OCIv1.RootFS.DiffIDs}}{{.}} {{end}}' "$1"); do
    [ ! -e "$LAYOUT/blobs/sha256/${digest#sha256:}" ] || continue
    mkdir -p "$LAYOUT/blobs/sha256"
    rm -rf "$work"
    "${BUILDAH[@]}" push -q --disable-compression "$1" "dir:$work"
    for blob in "$work"/????????????????????????????????????????????????????????????????; do mv "$blob" "$LAYOUT/blobs/sha256/"; done
    rm -r "$work"
    return
  done
}

# NB: with AGAIN from nothing, as what is in the cache proves nothing.
build_operator() { # IMAGE OPTION...
  local wheels bundles options dependencies=localhost/compaction-operator-dependencies:latest${ARCH:+-$ARCH}
  wheels=$(wheels_folder)
  [ -z "$ARCH" ] || wheels=$("$SANDBOX/supply/foreign_wheels.sh" "$ARCH")
  bundles=$("$SANDBOX/hudi/fetch.sh")
  options=(-f "$ROOT/operator/Dockerfile" -v "$wheels:/wheels:ro" -v "$bundles:/bundles:ro" --build-arg BUNDLES=/bundles
    --build-arg "PIP_OPTIONS=--no-index --no-deps --find-links /wheels -r /wheels/requirements.txt" "$ROOT")
  # The speed of an emulator says nothing about the nodes.
  [ -z "$ARCH" ] || options=(--build-arg CPU_FACTOR=1 "${options[@]}")
  if [ -z "${AGAIN:-}" ]; then
    bud "$dependencies" --target dependencies "${options[@]}"
    seed_layers "$dependencies"
  fi
  bud "$1" "${@:2}" "${options[@]}"
}

build_server() { # IMAGE PACKAGE COMMAND...: of what the command puts into the folder that it prints
  local folder
  folder=$("${@:3}")
  bud "$1" -f "$SANDBOX/$2/Dockerfile" "$folder"
  seed_layers "$1"
}

build_one() { # NAME IMAGE
  case $1 in
    operator) build_operator "$2" ;;
    hive) build_operator "$2" --build-arg TABLES=hive ;;
    controller) build_operator "$2" --target controller --timestamp "$EPOCH" --build-arg "SOURCE_DATE_EPOCH=$EPOCH" ;;
    metastore-*) build_server "$2" metastore "$SANDBOX/metastore/fetch.sh" "${1#metastore-}" ;;
    hdfs) build_server "$2" hdfs "$SANDBOX/hdfs/fetch.sh" ;;
    s3) build_server "$2" s3 "$SANDBOX/program.sh" s3/minio ;;
    *) bud "$2" -f "$CLUSTER/program.Dockerfile" --build-arg "PROGRAM=$1" "$(binaries_folder)" ;;
  esac
  "${BUILDAH[@]}" push -q "$2" "oci:$LAYOUT:$2"
}

has_base() {
  local label='{{ index .OCIv1.Config.Labels "dev.compaction.debian" }}'
  [ -z "${FRESH:-}" ] && [ -n "$("${BUILDAH[@]}" inspect --type image --format "$label" "$BASE_IMAGE" 2> /dev/null)" ]
}

# NB: an image counts as made once it is in the layout, which is written last.
is_built() { [ -z "${FRESH:-}" ] && grep -qsF "\"$1\"" "$LAYOUT/index.json"; }

# With FRESH the base is made again, and so is all above it.
build() { # NAME...
  local name image
  mkdir -p "$CACHE/images"
  exec 9> "$CACHE/images/lock${ARCH:+-$ARCH}"
  flock 9
  [ -z "$ARCH" ] || "$SANDBOX/prerequisites.sh" emulation
  has_base || step "base image of Debian" build_base
  for name in "$@"; do
    image=$(image_name "$name")
    is_built "$image" || step "image $image" build_one "$name" "$image"
  done
}

digest_of() { # IMAGE
  "$HOST_PYTHON" "$CLUSTER/oci_archive.py" "$LAYOUT" "$1" /dev/null | tar -x -O index.json \
    | "$HOST_PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["manifests"][0]["digest"])'
}

again() {
  local image digest second
  image=$(image_name controller)
  build controller
  digest=$(digest_of "$image")
  AGAIN=1 step "image $image again" build_one controller "$image-again"
  second=$(digest_of "$image-again")
  [ "$digest" = "$second" ] || fail "$image is $digest, and made again it is $second"
  echo "$digest"
}

run() { # IMAGE TEXT [USER]
  local container
  container=$("${BUILDAH[@]}" from "$1")
  # shellcheck disable=SC2064  # the container's name is known now
  trap "$(printf '%q ' "${BUILDAH[@]}") rm $container > /dev/null" EXIT
  "${BUILDAH[@]}" run --isolation chroot ${3:+--user "$3"} "$container" -- sh -c "$2"
}

outdated() { # NAME...
  local name found=
  build "$@"
  for name in "$@"; do
    # NB: in a process of its own, whose end removes the container.
    found+=$(run "$(image_name "$name")" 'apt-get -qq update --error-on=any && apt-get -qq -s dist-upgrade' root | sed -n "s/^Inst/$name:/p")$'\n'
  done
  found=$(sed '/^$/d' <<< "$found")
  [ -z "$found" ] || { echo "$found" && return 1; }
}

in_node() { "$CLUSTER/in-node.sh" "$@"; }

import() { # IMAGE
  in_node ctr --namespace k8s.io content ls -q > "$STATE/blobs"
  "$HOST_PYTHON" "$CLUSTER/oci_archive.py" "$LAYOUT" "$1" "$STATE/blobs" | in_node ctr --namespace k8s.io images import -
}

load() { # NAME...
  local name image
  exec 8> "$STATE/load.lock"
  flock 8
  for name in "$@"; do
    image=$(image_name "$name")
    in_node ctr --namespace k8s.io images ls -q | grep -qxF "$image" || step "import of $image" import "$image"
  done
}

case ${1:-} in
  build) build "${@:2}" ;;
  name) image_name "${2:?which image}" ;;
  run) run "${2:?which image}" "${3:?which command}" ;;
  fresh) FRESH=1 build "${@:2}" ;;
  outdated) outdated "${@:2}" ;;
  again) again ;;
  layout) echo "$LAYOUT" ;;
  load) load "${@:2}" ;;
  *) fail "usage: images.sh build|fresh|outdated NAME... | name NAME | run IMAGE TEXT | again | layout | load NAME..." ;;
esac
