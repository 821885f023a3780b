#!/bin/bash
# The images of the cluster, out of programs of this machine: one with a shell and what a copy of vtax takes, the same as what
# holds a pod's namespaces, and one with nothing in it.
#
#   image.sh DIRECTORY     writes DIRECTORY/images.tar
set -eu
dir=$1
work=$dir/image
root=$work/root
mkdir -p "$root/tmp" "$root/run" "$root/proc" "$root/sys" "$root/dev" "$root/etc"
chmod 1777 "$root/tmp"
programs=$(command -v sh mktemp head cat wc chmod rm mkdir sleep ls)
for file in $programs $(ldd $programs | grep -o '/[^ :]*' | sort -u) /etc/passwd /etc/group; do
    mkdir -p "$root$(dirname "$file")"
    cp -L "$file" "$root$file"
done
tar -C "$root" --owner 0 --group 0 -cf "$work/layer.tar" .
# Names an image and its layer.
image() {
    local name=$1 layer=$2 sum
    sum=$(sha256sum "$work/$layer")
    cat >"$work/$name.json" <<END
{"architecture": "$(dpkg --print-architecture)", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:${sum%% *}"]},
 "config": {"Cmd": ["sleep", "infinity"], "Env": ["PATH=/usr/bin:/bin"]}}
END
    echo "{\"Config\": \"$name.json\", \"RepoTags\": [\"vtax.test/$name:1\"], \"Layers\": [\"$layer\"]}"
}
tar -cf "$work/empty.tar" --files-from /dev/null
echo "[$(image tools layer.tar), $(image pause layer.tar), $(image empty empty.tar)]" >"$work/manifest.json"
tar -C "$work" -cf "$dir/images.tar" --exclude root .
rm -r "$work"
