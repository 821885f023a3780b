#!/bin/bash
# A node of a cluster on an emulated host: containerd with runc, and a kubelet, which make real containers of real images.
#
#   node.sh DIRECTORY NAME ADDRESS
#
# $kubernetes is where the kubelet is. It is in a control group namespace of its own.
set -eu
dir=$1 name=$2 address=$3
number=${address##*.}
export PATH="$kubernetes:/usr/sbin:/usr/bin:/sbin:/bin"

"$(dirname "$0")/groups.sh" mount

# What the kubelet wants the kernel to be set to: it finds it so, and changes nothing of the machine.
settings=/run/settings
mkdir $settings /run/proc
# Pods in user namespaces get a /proc only where there is one with nothing mounted in it.
mount -t proc proc /run/proc
while read -r path value; do
    echo "$value" >"$settings/${path//\//-}"
    mount --bind "$settings/${path//\//-}" "/proc/sys/$path"
done <<END
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
END

# Everything that it keeps.
mkdir -p "$dir/$name.var/containerd" "$dir/$name.var/kubelet" /var/lib/kubelet /var/log/pods /run/cni
mount --bind "$dir/$name.var/kubelet" /var/lib/kubelet
mount --make-rshared /var/lib/kubelet
mount -t tmpfs none /var/log
mount -t tmpfs none /var/lib/cni 2>/dev/null || { mkdir -p /var/lib/cni && mount -t tmpfs none /var/lib/cni; }

cat >/run/cni/pods.conflist <<END
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "pods", "isGateway": true,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.98.$number.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
# The pods' networks are one: each node leads to the others', as a cluster's network does.
echo 1 >/proc/sys/net/ipv4/ip_forward
for other in 11 12 13; do
    [ "$other" = "$number" ] || ip route add "10.98.$other.0/24" via "10.99.0.$other"
done
cat >/run/containerd.toml <<END
version = 2
root = "$dir/$name.var/containerd"
state = "/run/containerd"
[grpc]
address = "/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "vtax.test/pause:1"
disable_apparmor = true
# To be killed later than others takes a right that root may lack.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "/run/cni"
END
cat >/run/kubelet.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $address
authentication: {anonymous: {enabled: false}, x509: {clientCAFile: $dir/ca.crt}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix:///run/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
nodeLeaseDurationSeconds: 8
nodeStatusUpdateFrequency: 2s
resolvConf: ""
# The machine's own disk isn't this test's matter.
imageGCHighThresholdPercent: 100
evictionHard: {nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, memory.available: 1Mi}
END

containerd --config /run/containerd.toml >"$dir/$name.containerd.log" 2>&1 &
ctr() { command ctr --address /run/containerd.sock --namespace k8s.io "$@"; }
until ctr images ls >/dev/null 2>&1; do sleep 0.1; done
ctr images import "$dir/images.tar" >/dev/null
until [ -e "$dir/apiserver.ready" ]; do sleep 0.1; done
exec kubelet --config /run/kubelet.yaml --kubeconfig "$dir/$name.kubelet.config" --hostname-override "$name" --node-ip "$address" \
    --root-dir /var/lib/kubelet --cert-dir /run/kubelet-certificates >"$dir/$name.kubelet.log" 2>&1
