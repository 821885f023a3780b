#!/bin/bash
# The control plane of a cluster, on the emulated host that commands run on: etcd, apiserver, controllers, scheduler, as Kubernetes
# has them, with a certificate authority and accounts of their own.
#
#   ctl.sh DIRECTORY ADDRESS
#
# $kubernetes is where the programs are. Accounts are tokens in DIRECTORY/tokens; DIRECTORY/NAME.config is the kubectl configuration
# of an account. The nodes' ones are there before the nodes begin.
set -eu
dir=$1 address=$2
export PATH="$kubernetes:$PATH"
server=https://$address:6443
state=/run/kubernetes
mkdir -p $state
cd $state

# Certificates: one authority, the apiserver's own, and what it shows kubelets.
certificate() {
    local name=$1 subject=$2 extensions=$3
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$name.key" -subj "$subject" -out "$name.request"
    openssl x509 -req -in "$name.request" -CA ca.crt -CAkey ca.key -CAcreateserial -days 1 -extfile <(echo "$extensions") -out "$name.crt"
}
{
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -subj /CN=ca -days 1 -out ca.crt
    certificate apiserver /CN=apiserver "subjectAltName=IP:$address,IP:127.0.0.1"
    certificate to-kubelets /O=system:masters/CN=apiserver extendedKeyUsage=clientAuth
    openssl genrsa -out accounts.key 2048
} 2>openssl.log || { cat openssl.log >&2; exit 1; }
cp ca.crt "$dir/ca.crt"

# Accounts: token, name, groups.
tokens=$state/tokens
account() {
    local name=$1 user=$2 groups=$3 namespace=$4 token
    token=$(openssl rand -hex 16)
    echo "$token,$user,$user,\"$groups\"" >>"$tokens"
    cat >"$dir/$name.new" <<END
apiVersion: v1
kind: Config
clusters:
- {name: lab, cluster: {server: $server, certificate-authority: $dir/ca.crt}}
users:
- {name: $name, user: {token: $token}}
contexts:
- {name: lab, context: {cluster: lab, user: $name, namespace: $namespace}}
current-context: lab
END
    mv "$dir/$name.new" "$dir/$name.config"
}
account admin admin system:masters default
account controllers system:kube-controller-manager "" default
account scheduler system:kube-scheduler "" default
account you you "" vtax
account stranger stranger "" vtax
for n in 1 2 3; do account "n$n.kubelet" "system:node:n$n" system:nodes default; done

etcd --data-dir $state/etcd --unsafe-no-fsync --log-level error >etcd.log 2>&1 &
kube-apiserver --etcd-servers http://127.0.0.1:2379 --bind-address "$address" --service-cluster-ip-range 10.96.0.0/24 \
    --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --anonymous-auth=false --token-auth-file "$tokens" \
    --client-ca-file ca.crt --tls-cert-file apiserver.crt --tls-private-key-file apiserver.key \
    --kubelet-client-certificate to-kubelets.crt --kubelet-client-key to-kubelets.key --kubelet-preferred-address-types InternalIP \
    --service-account-issuer "$server" --service-account-key-file accounts.key --service-account-signing-key-file accounts.key \
    --default-not-ready-toleration-seconds 5 --default-unreachable-toleration-seconds 5 >apiserver.log 2>&1 &
export KUBECONFIG=$dir/admin.config
until kubectl get --raw /readyz >/dev/null 2>&1; do sleep 0.2; done
controllers=job-controller,namespace-controller,serviceaccount-controller,garbage-collector-controller,node-lifecycle-controller
controllers+=,taint-eviction-controller,pod-garbage-collector-controller,ttl-after-finished-controller,disruption-controller
# A node is missed after 8 s here; by default it takes 50 s, and pods stay on it for 5 minutes more.
kube-controller-manager --kubeconfig "$dir/controllers.config" --controllers "$controllers" --use-service-account-credentials \
    --leader-elect=false --bind-address 127.0.0.1 --node-monitor-period 1s --node-monitor-grace-period 8s >controllers.log 2>&1 &
kube-scheduler --kubeconfig "$dir/scheduler.config" --leader-elect=false --bind-address 127.0.0.1 >scheduler.log 2>&1 &
echo ready >"$dir/apiserver.ready"
