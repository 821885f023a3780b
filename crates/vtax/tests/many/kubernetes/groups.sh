#!/bin/bash
# Control groups of nodes: each has one of its own in every hierarchy of the machine, and all that it starts is there.
#
#   groups.sh make NAME NODE PID     makes a node's, and puts a process into them
#   groups.sh mount                  shows a process in a namespace of them what is below its own
#   groups.sh remove NAME            removes all nodes' groups, once their processes have ended
#
# NAME is the test's own: the machine may have several at a time.
set -eu
what=$1
root=/sys/fs/cgroup
# Version 1 has a hierarchy for each controller, version 2 one for all.
one_for_all() { [ "$(stat -f -c %T $root)" = cgroup2fs ]; }
controllers="cpu cpuacct cpuset memory devices freezer blkio pids"
delegate() { sed 's/[^ ]*/+&/g' "$1/cgroup.controllers" >"$1/cgroup.subtree_control"; }

make() {
    local name=$1 node=$2 process=$3 controller group
    if one_for_all; then
        mkdir -p "$root/$name/$node"
        delegate $root
        delegate "$root/$name"
        echo "$process" >"$root/$name/$node/cgroup.procs"
        return
    fi
    for controller in $controllers; do
        for group in "$root/$controller/$name" "$root/$controller/$name/$node"; do
            mkdir -p "$group"
            # No process can be where no processors are.
            for file in cpuset.cpus cpuset.mems; do
                [ ! -e "$group/$file" ] || cat "$group/../$file" >"$group/$file"
            done
        done
        echo "$process" >"$group/cgroup.procs"
    done
}

show() {
    local controller
    if [ -e /proc/self/ns/cgroup ] && grep -q '^0::/$' /proc/self/cgroup && ! grep -q : <(grep -v ^0 /proc/self/cgroup); then
        mount -t cgroup2 none $root
        # A group has either processes or groups.
        mkdir $root/node
        xargs -n 1 <$root/cgroup.procs >$root/node/cgroup.procs
        delegate $root
        return
    fi
    for controller in $controllers; do
        mkdir "$root/$controller"
        mount -t cgroup -o "$controller" none "$root/$controller"
    done
}

remove() {
    local hierarchy
    for hierarchy in $root $root/*; do
        [ ! -d "$hierarchy/$1" ] || find "$hierarchy/$1" -depth -type d -exec rmdir {} +
    done
}

case $what in
    make) make "$2" "$3" "$4" ;;
    mount) show ;;
    remove) remove "$2" ;;
esac
