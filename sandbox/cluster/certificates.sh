#!/usr/bin/env bash
# certificates.sh API_PORT: makes the cluster's authorities, certificates and service-account key in the state folder, once, and
# the kubeconfigs: the administrator's for that port of the machine.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

KEYS=$STATE/pki
umask 077
mkdir -p "$KEYS"
cd "$KEYS"

make_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

make_authority() { # NAME COMMON_NAME
  make_key "$1"
  openssl req -x509 -new -key "$1.key" -days 3650 -subj "/CN=$2" -out "$1.crt"
}

make_certificate() { # NAME AUTHORITY SUBJECT USAGE [ALTERNATIVE_NAMES]
  make_key "$1"
  openssl req -new -key "$1.key" -subj "$3" -out "$1.csr"
  {
    echo "basicConstraints=CA:FALSE"
    echo "keyUsage=digitalSignature"
    echo "extendedKeyUsage=$4"
    [ -z "${5:-}" ] || echo "subjectAltName=$5"
  } > "$1.extensions"
  openssl x509 -req -in "$1.csr" -CA "$2.crt" -CAkey "$2.key" -CAcreateserial -days 3650 -extfile "$1.extensions" -out "$1.crt"
  rm "$1.csr" "$1.extensions"
}

make_kubeconfig() { # NAME PORT
  cat > "$STATE/$1.kubeconfig" <<-YAML
	apiVersion: v1
	kind: Config
	clusters:
	- name: sandbox
	  cluster: {server: "https://127.0.0.1:$2", certificate-authority-data: $(base64 -w0 ca.crt)}
	users:
	- name: $1
	  user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}
	contexts:
	- name: sandbox
	  context: {cluster: sandbox, user: $1}
	current-context: sandbox
	YAML
}

make_certificates() {
  local names=kubernetes,kubernetes.default,kubernetes.default.svc,kubernetes.default.svc.cluster.local,localhost
  make_authority ca sandbox-ca
  make_authority front-proxy-ca sandbox-front-proxy-ca
  make_certificate apiserver ca /CN=kube-apiserver serverAuth \
    "DNS:${names//,/,DNS:},IP:127.0.0.1,IP:$NODE_IP,IP:$API_SERVICE_IP"
  # NB: `kubectl logs` and `exec` need this client in system:masters.
  make_certificate apiserver-kubelet ca /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth
  make_certificate front-proxy front-proxy-ca /CN=front-proxy-client clientAuth
  make_certificate admin ca /O=system:masters/CN=admin clientAuth
  make_certificate controller-manager ca /CN=system:kube-controller-manager clientAuth
  make_certificate scheduler ca /CN=system:kube-scheduler clientAuth
  make_certificate proxy ca /CN=system:kube-proxy clientAuth
  make_certificate kubelet ca "/O=system:nodes/CN=system:node:$NODE" clientAuth,serverAuth "DNS:$NODE,IP:$NODE_IP"
  openssl genrsa -out service-accounts.key 2048
  openssl rsa -in service-accounts.key -pubout -out service-accounts.pub
  touch complete
}

[ -e complete ] || make_certificates
# The administrator comes in from the machine, the others from within the node.
make_kubeconfig admin "$1"
for name in controller-manager scheduler proxy kubelet; do make_kubeconfig "$name" 6443; done
