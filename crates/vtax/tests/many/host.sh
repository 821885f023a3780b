#!/bin/bash
# PID 1 of an emulated host.
#
#   host.sh DIRECTORY ssh|slurm|kubernetes NAME ADDRESS
set -eu
dir=$1 kind=$2 name=$3 address=$4
here=$(dirname "$0")
hostname "$name"
mount --make-rprivate /
mount -t tmpfs -o mode=0755 none /run
mkdir -p /run/lab /run/scripts /run/bin
mount --bind "$dir" /run/lab
dir=/run/lab
# The checkout may be below /tmp, which is about to be hidden.
mount --bind "$here" /run/scripts
here=/run/scripts
touch /run/bin/vtax
mount --bind "$vtax" /run/bin/vtax
if [ "$name" != ctl ]; then
    # What a host leaves there is its own. ctl runs the command, whose files may be in the machine's.
    mkdir -p "$dir/$name.tmp"
    mount --bind "$dir/$name.tmp" /tmp
fi
if [ "$kind" = kubernetes ] && [ "$name" != ctl ]; then
    "$here/kubernetes/groups.sh" make "$groups" "$name" $$
fi
# Hosts of their own have control groups of their own. These would share them, and each takes the others' for left over, as it
# doesn't see the processes that own them.
umount -R -l /sys/fs/cgroup 2>/dev/null || true
# slurmd asks what is there, to find out the version.
mount -t tmpfs -o mode=0755 none /sys/fs/cgroup
until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
ip link set lo up
ip address add "$address/24" dev eth0
ip link set eth0 up
if [ "$kind" = ssh ]; then
    mkdir -p /run/sshd
    /usr/sbin/sshd -f "$dir/sshd_config" -E "$dir/$name.sshd"
elif [ "$kind" = kubernetes ] && [ "$name" = ctl ]; then
    "$here/kubernetes/ctl.sh" "$dir" "$address"
elif [ "$kind" = kubernetes ]; then
    unshare --cgroup "$here/kubernetes/node.sh" "$dir" "$name" "$address" &
else
    mount --bind "$dir/hosts" /etc/hosts
    for private in /etc/munge /var/lib/munge /var/log/munge /run/munge /var/log/slurm /var/spool /run/slurm /etc/slurm; do
        mkdir -p "$private"
        mount -t tmpfs -o mode=0755 none "$private"
    done
    mkdir -p /var/spool/slurmd /var/spool/slurmctld
    chmod 0700 /etc/munge /var/lib/munge /var/log/munge
    cp "$dir/slurm.conf" /etc/slurm/
    echo CgroupPlugin=cgroup/v1 >/etc/slurm/cgroup.conf
    cp "$dir/munge.key" /etc/munge/munge.key
    chmod 0400 /etc/munge/munge.key
    chown -R root /etc/munge /var/lib/munge /var/log/munge /run/munge
    munged --num-threads=2
    if [ "$name" = ctl ]; then slurmctld -c -i; else slurmd || cat /var/log/slurm/slurmd.log; fi
fi
trap 'exit 0' TERM
# PID 1 reaps orphans.
while :; do sleep 3600 & wait; done
