#!/usr/bin/env bash
# prerequisites.sh [python|browser|emulation]: names in one line what this machine lacks and how to get it; installs what Debian's packages give.
# With `python` only what the tools, tests without a cluster and the offline commands need. With `browser` only headless Chromium.
# With `emulation` only what runs programs for arm64 here.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/env.sh"

lacks() { fail "$1; $2"; }

java_major() { java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'; }
go_version() { go env GOVERSION 2> /dev/null | sed 's/^go//'; }

check_python() {
  [ -n "$HOST_PYTHON" ] || lacks "no Python 3.11" "install it (Debian 12: apt-get install python3 python3-venv python3-pip)"
}

check_python_modules() {
  "$HOST_PYTHON" -c 'import pip, venv' 2> /dev/null || lacks "Python has no pip or venv" "run: apt-get install python3-venv python3-pip"
}

check_compiler() {
  local include
  command -v cc > /dev/null || lacks "no C compiler" "run: apt-get install gcc libc6-dev"
  include=$("$HOST_PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  [ -e "$include/Python.h" ] || lacks "Python has no headers" "run: apt-get install python3-dev"
}

check_java() {
  local major
  major=$(java_major || true)
  [ "$major" = 17 ] || lacks "no Java 17 (found: ${major:-none})" "install it (Debian 12: apt-get install openjdk-17-jre-headless)"
}

check_machine() {
  [ "$(uname -s)" = Linux ] || lacks "the sandbox needs Linux, this is $(uname -s)" "use a Debian 12 machine, or your own cluster"
  [ "$(id -u)" = 0 ] || lacks "the sandbox makes namespaces and mounts, so it needs root" "run make as root"
  command -v apt-get > /dev/null || lacks "no apt-get" "use Debian 12 or a system like it"
}

check_go() {
  local version minor
  version=$(go_version || true)
  minor=$(cut -s -d. -f2 <<< "$version")
  [ "${minor:-0}" -ge 25 ] || lacks "no Go 1.25 or newer (found: ${version:-none})" "install Go from its distribution and put it on the PATH"
}

# What each package is for: containers; the pods' network; forwarding to the machine; images; certificates; Hive and its database; Kerberos;
# the compiled kernels; lint.
PACKAGES=(containerd runc containernetworking-plugins iproute2 iptables conntrack ethtool socat
  mmdebstrap buildah openssl procps util-linux maven postgresql krb5-kdc krb5-admin-server python3-gssapi
  python3-venv python3-pip gcc libc6-dev python3-dev shellcheck)

BROWSER=(chromium-headless-shell fonts-dejavu-core)
EMULATION=(qemu-user-static arch-test)

not_installed() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q '^install ok installed$' || echo "$package"
  done
}

missing_packages() {
  command -v javac > /dev/null || echo openjdk-17-jdk-headless # the oracle of the tests is compiled
  not_installed "${PACKAGES[@]}" "${BROWSER[@]}"
}

install_packages() {
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# NB: systemd does this where it runs, which it does not in containers.
register_emulator() {
  local kernel=/proc/sys/fs/binfmt_misc
  [ -e "$kernel/register" ] || mount -t binfmt_misc binfmt_misc "$kernel"
  [ -e "$kernel/qemu-aarch64" ] || cat /usr/lib/binfmt.d/qemu-aarch64.conf > "$kernel/register"
}

check_python
if [ "${1:-}" = emulation ]; then
  mapfile -t missing < <(not_installed "${EMULATION[@]}")
  [ ${#missing[@]} = 0 ] || step "Debian packages" install_packages "${missing[@]}"
  register_emulator
  exit
fi
if [ "${1:-}" = python ]; then
  check_python_modules
  check_compiler
  exit
fi
if [ "${1:-}" = browser ]; then
  mapfile -t missing < <(not_installed "${BROWSER[@]}")
  [ ${#missing[@]} = 0 ] || step "Debian packages" install_packages "${missing[@]}"
  exit
fi
check_machine
check_java
check_go
mapfile -t missing < <(missing_packages)
[ ${#missing[@]} = 0 ] || step "Debian packages" install_packages "${missing[@]}"
check_python_modules
check_compiler
