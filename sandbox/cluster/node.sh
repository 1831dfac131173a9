#!/usr/bin/env bash
# node.sh: process 1 of the node, in network, mount, process, IPC and host-name namespaces of its own (up.sh starts it).
# Its end ends every daemon and pod, and takes every route, firewall rule and mount with it. The network has no way out.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

PATH=$(binaries_folder):$PATH
KEYS=$STATE/pki
NODE_LOGS=$STATE/logs

start() { # NAME COMMAND...
  local name=$1
  shift
  "$@" > "$NODE_LOGS/$name.log" 2>&1 &
}

await() { until "$@" > /dev/null 2>&1; do sleep 0.2; done; }

make_folders() {
  mkdir -p "$NODE_LOGS" "$STATE"/{etcd,kubelet,cni/state,cni/configuration,pods}
  # What pods and daemons leave in the machine's usual places stays in the node.
  mount --make-rshared /
  mount -t tmpfs tmpfs /run
  mkdir -p /run/netns /run/lock /var/lib/cni /var/log/pods /var/log/containers
  mount --bind "$STATE/cni/state" /var/lib/cni
  mount --bind "$STATE/pods" /var/log/pods
  mount -t tmpfs tmpfs /var/log/containers
}

make_network() {
  hostname "$NODE"
  ip link set lo up
  # A bridge without ports carries the node's address. Services need a route, or a connect fails before it is translated.
  ip link add node0 type bridge
  ip address add "$NODE_IP/24" dev node0
  ip link set node0 up
  ip route add "$SERVICE_CIDR" dev node0
  # Not every kernel has the bridge's setting and IPv6.
  sysctl -qw net.ipv4.ip_forward=1
  sysctl -qw net.bridge.bridge-nf-call-iptables=1 net.ipv6.conf.all.disable_ipv6=1 || true
}

# The kubelet removes control groups below its root that belong to no pod it knows: two sandboxes must not share one.
make_control_group() {
  local controller file
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mkdir -p "/sys/fs/cgroup/$CGROUP"
    return
  fi
  for controller in /sys/fs/cgroup/*/; do
    mkdir -p "$controller$CGROUP" 2> /dev/null || continue
    for file in cpuset.cpus cpuset.mems; do
      [ ! -e "$controller$file" ] || cat "$controller$file" > "$controller$CGROUP/$file"
    done
  done
}

start_etcd() {
  start etcd etcd --name sandbox --data-dir "$STATE/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
    --initial-cluster sandbox=http://127.0.0.1:2380
}

# The audit log has each request of a pod's service account, to see which rights it uses. No test reads it.
write_audit_policy() {
  cat > "$STATE/audit.yaml" <<-'YAML'
	apiVersion: audit.k8s.io/v1
	kind: Policy
	omitStages: [RequestReceived]
	rules:
	- {level: None, namespaces: [kube-system]}
	- {level: Metadata, userGroups: ["system:serviceaccounts"]}
	- {level: None}
	YAML
}

start_api_server() {
  write_audit_policy
  start kube-apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 \
    --bind-address=0.0.0.0 --secure-port=6443 --advertise-address="$NODE_IP" --service-cluster-ip-range="$SERVICE_CIDR" \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \
    --audit-policy-file="$STATE/audit.yaml" --audit-log-path="$NODE_LOGS/audit.log" \
    --client-ca-file="$KEYS/ca.crt" --tls-cert-file="$KEYS/apiserver.crt" --tls-private-key-file="$KEYS/apiserver.key" \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file="$KEYS/service-accounts.pub" --service-account-signing-key-file="$KEYS/service-accounts.key" \
    --kubelet-client-certificate="$KEYS/apiserver-kubelet.crt" --kubelet-client-key="$KEYS/apiserver-kubelet.key" \
    --kubelet-certificate-authority="$KEYS/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --requestheader-client-ca-file="$KEYS/front-proxy-ca.crt" --requestheader-allowed-names=front-proxy-client \
    --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
    --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --proxy-client-cert-file="$KEYS/front-proxy.crt" --proxy-client-key-file="$KEYS/front-proxy.key"
}

# Sockets in the state folder are the machine's only way in: up.sh forwards ports of the loopback to them.
start_forwarding() { # relative names: a socket's path has at most 107 characters
  cd "$STATE"
  rm -f api.sock metastore.sock
  start socat-api socat UNIX-LISTEN:api.sock,fork,mode=600 TCP:127.0.0.1:6443
  start socat-metastore socat UNIX-LISTEN:metastore.sock,fork,mode=600 "TCP:$METASTORE_SERVICE_IP:9083"
}

start_controllers() {
  start kube-controller-manager kube-controller-manager --kubeconfig="$STATE/controller-manager.kubeconfig" \
    --leader-elect=false --bind-address=127.0.0.1 --use-service-account-credentials=true \
    --service-account-private-key-file="$KEYS/service-accounts.key" --root-ca-file="$KEYS/ca.crt" \
    --client-ca-file="$KEYS/ca.crt" --cluster-signing-cert-file="$KEYS/ca.crt" --cluster-signing-key-file="$KEYS/ca.key" \
    --allocate-node-cidrs=true --cluster-cidr="$POD_CIDR" --node-cidr-mask-size=24 --service-cluster-ip-range="$SERVICE_CIDR" \
    --pvclaimbinder-sync-period=1s # else a claim that comes before its volume waits for 15 s
  start kube-scheduler kube-scheduler --kubeconfig="$STATE/scheduler.kubeconfig" --leader-elect=false --bind-address=127.0.0.1
}

write_pod_network() {
  rm -rf "${STATE:?}/cni/state"/* # addresses of the pods of an earlier start
  cat > "$STATE/cni/configuration/10-sandbox.conflist" <<-JSON
	{"cniVersion": "0.4.0", "name": "sandbox", "plugins": [
	  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
	   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$POD_CIDR", "gateway": "$POD_GATEWAY"}]],
	            "routes": [{"dst": "0.0.0.0/0"}]}},
	  {"type": "portmap", "capabilities": {"portMappings": true}}]}
	JSON
}

start_containerd() {
  write_pod_network
  # restrict_oom_score_adj: where root lacks CAP_SYS_RESOURCE no pod would start, as runc may not lower a score.
  cat > "$STATE/containerd.toml" <<-TOML
	version = 2
	root = "$STATE/containerd"
	state = "/run/containerd"
	[grpc]
	  address = "/run/containerd/containerd.sock"
	[plugins."io.containerd.grpc.v1.cri"]
	  sandbox_image = "$("$CLUSTER/images.sh" name pause)"
	  disable_apparmor = true
	  restrict_oom_score_adj = true
	  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
	    runtime_type = "io.containerd.runc.v2"
	    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
	      SystemdCgroup = false
	  [plugins."io.containerd.grpc.v1.cri".cni]
	    bin_dir = "/usr/lib/cni"
	    conf_dir = "$STATE/cni/configuration"
	TOML
  start containerd containerd --config "$STATE/containerd.toml"
}

start_kubelet() {
  : > "$STATE/resolv.conf"
  # failCgroupV1: from Kubernetes 1.35, the kubelet refuses machines with cgroup v1 by default.
  cat > "$STATE/kubelet.yaml" <<-YAML
	apiVersion: kubelet.config.k8s.io/v1beta1
	kind: KubeletConfiguration
	failCgroupV1: false
	cgroupDriver: cgroupfs
	cgroupRoot: /$CGROUP
	containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
	resolvConf: $STATE/resolv.conf
	clusterDNS: [$DNS_SERVICE_IP]
	clusterDomain: cluster.local
	authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $KEYS/ca.crt}}
	authorization: {mode: Webhook}
	tlsCertFile: $KEYS/kubelet.crt
	tlsPrivateKeyFile: $KEYS/kubelet.key
	volumePluginDir: $STATE/kubelet/volume-plugins
	evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
	imageGCHighThresholdPercent: 100
	nodeStatusMaxImages: -1
	imageMinimumGCAge: 87600h
	enforceNodeAllocatable: []
	failSwapOn: false
	maxPods: 60
	nodeStatusUpdateFrequency: 5s
	syncFrequency: 10s
	YAML
  start kubelet kubelet --config="$STATE/kubelet.yaml" --kubeconfig="$STATE/kubelet.kubeconfig" \
    --hostname-override="$NODE" --node-ip="$NODE_IP" --root-dir="$STATE/kubelet"
}

start_proxy() {
  # conntrack: a namespace of its own may not change the machine's limits.
  cat > "$STATE/proxy.yaml" <<-YAML
	apiVersion: kubeproxy.config.k8s.io/v1alpha1
	kind: KubeProxyConfiguration
	clientConnection: {kubeconfig: $STATE/proxy.kubeconfig}
	mode: iptables
	clusterCIDR: $POD_CIDR
	hostnameOverride: $NODE
	bindAddress: 0.0.0.0
	healthzBindAddress: 127.0.0.1:10256
	metricsBindAddress: 127.0.0.1:10249
	conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s, udpTimeout: 0s, udpStreamTimeout: 0s}
	YAML
  start kube-proxy kube-proxy --config="$STATE/proxy.yaml"
}

make_folders
make_network
make_control_group
ulimit -n "$(ulimit -Hn)"
start_etcd
start_api_server
start_forwarding
start_containerd
await kubectl --kubeconfig="$STATE/scheduler.kubeconfig" get --raw=/readyz
start_controllers
await ctr version
start_kubelet
start_proxy
touch "$STATE/started"
trap 'exit 0' TERM INT
# Process 1 reaps what its daemons orphan, for as long as it lives.
while :; do wait -n || sleep 0.2; done
