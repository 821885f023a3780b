#!/bin/bash
# Emulated hosts on a bridge, and a command beside them. It is PID 1 of a PID namespace of its own, with network and mounts of
# its own: when it ends, all hosts end.
#
#   lab.sh DIRECTORY ssh|slurm|kubernetes COMMAND...
#
# DIRECTORY/NAME.pid holds the process whose end is a host's end, DIRECTORY/NAME.inside the one that nsenter enters, and
# DIRECTORY/NAME.tmp is the host's /tmp. The command may run on a host of its own, from where the others' processes aren't seen;
# orders.sh says what it may ask for.
set -eu
dir=$1 kind=$2
here=$(dirname "$0")
shift 2
mount --make-rprivate /
mount -t tmpfs -o mode=0755 none /run
ip link set lo up
ip link add br0 type bridge
ip address add 10.99.0.1/24 dev br0
ip link set br0 up

host() {
    unshare --net --mount --pid --uts --ipc --fork --kill-child --mount-proc \
        bash "$here/host.sh" "$dir" "$kind" "$1" "$2" >"$dir/$1.log" 2>&1 </dev/null &
    local outer=$! inner=
    until inner=$(pgrep -P "$outer") && [ -n "$inner" ]; do sleep 0.02; done
    echo "$outer" >"$dir/$1.pid"
    echo "$inner" >"$dir/$1.inside"
    # Not before it has a network of its own.
    until [ "$(readlink "/proc/$inner/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
    ip link add "$1" type veth peer name eth0 netns "$inner"
    ip link set "$1" master br0 up
}

if [ "$kind" != ssh ]; then
    host ctl 10.99.0.2
fi
for n in 1 2 3; do host "n$n" "10.99.0.1$n"; done

. "$here/orders.sh"
orders &

on_ctl() { nsenter -t "$(cat "$dir/ctl.inside")" -n -m -p -u -i -- "$@"; }

ready() {
    if [ "$kind" = ssh ]; then
        for n in 1 2 3; do
            ssh -F "$dir/config" "10.99.0.1$n" true 2>/dev/null || return 1
        done
    elif [ "$kind" = slurm ]; then
        [ "$(on_ctl sinfo -h -t idle -o %D 2>/dev/null)" = 3 ]
    else
        [ -e "$dir/apiserver.ready" ] && [ "$(on_ctl "$kubernetes/kubectl" --kubeconfig "$dir/admin.config" get nodes 2>/dev/null | grep -cw Ready)" = 3 ]
    fi
}
for _ in $(seq 300); do
    if ready; then
        status=0
        if [ "$kind" = ssh ]; then
            "$@" || status=$?
        else
            on_ctl "$@" || status=$?
        fi
        exit $status
    fi
    sleep 0.1
done
echo "the hosts aren't ready" >&2
tail -n 5 "$dir"/*.log >&2
exit 99
