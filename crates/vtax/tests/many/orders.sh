# What a command beside emulated hosts, which doesn't see their processes, has done from outside of all. It writes one of these into
# DIRECTORY/order, which is removed once it is done:
#
#   die NAME       the host dies
#   cut NAME       its network cable is pulled
#   slurmd NAME    its slurmd is killed
#   look           every vtax that there is, and every directory of one, is written into DIRECTORY/left

look() {
    local exe program
    for exe in /proc/[0-9]*/exe; do
        program=$(readlink "$exe") || continue
        case $program in
            */vtax | */vtax\ *) echo "$exe $program: $(tr '\0' ' ' <"${exe%exe}cmdline")" ;;
        esac
    done
    # Of a pod it is in the container's own layer.
    ls -d "$dir"/*.tmp/vtax-* "$dir"/*.var/containerd/*/snapshots/*/fs/tmp/vtax-* 2>/dev/null
    return 0
}

orders() {
    local what name
    while :; do
        until [ -s "$dir/order" ]; do sleep 0.05; done
        read -r what name <"$dir/order" || true
        case $what in
            die) kill -9 "$(cat "$dir/$name.pid")" ;;
            cut) ip link set "$name" down ;;
            # Its own processes are all that this sees.
            slurmd) nsenter -t "$(cat "$dir/$name.inside")" -m -p -- pkill -9 -x slurmd ;;
            look) look >"$dir/left" 2>/dev/null ;;
        esac || true
        rm "$dir/order"
    done
}
