//! System calls: namespaces, netlink, pidfd, cgroups, sockets; the only crate with unsafe code.
