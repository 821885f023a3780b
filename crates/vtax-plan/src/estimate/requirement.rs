//! What a host must allow or have.

use std::borrow::Cow;

use serde::Serialize;

use crate::model::ServiceFacts;

/// Something the host must allow or have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requirement {
    /// Network, PID, mount namespaces: root, or user namespaces for everyone.
    Namespaces,
    /// Containers: root, and an OCI runtime (`crun` or `runc`).
    Container,
    /// User-mode Linux, and `/dev/net/tun`.
    Uml,
    /// Guests: QEMU, a guest kernel, and `/dev/net/tun`.
    Vm,
    /// Guests at full speed: a working `/dev/kvm`; without it they are emulated, and the report says so.
    Kvm,
    /// Rate limits: the kernel's `tbf` queueing discipline.
    Tbf,
    /// CPU and memory limits that hold: cgroups that may be written; without them, affinity only, and
    /// the report says so.
    Cgroups,
    /// Open vSwitch.
    OpenVSwitch,
    /// The controller of Open vSwitch's own.
    Testcontroller,
    /// The os-ken framework of OpenFlow controllers.
    OsKen,
    /// Mininet, and root.
    Mininet,
    /// An ssh client, and root for the host's own network.
    Ssh,
    /// A DHCP server.
    Dhcp,
    /// FRR, and for some topologies a kernel with MPLS and VRF, else a guest.
    Routers,
    /// The kernel's nftables with NAT, and the program `nft`.
    Nat,
    /// The kernel's VXLAN.
    Vxlan,
    /// The kernel's macvlan.
    Macvlan,
    /// The kernel's ipvlan.
    Ipvlan,
    /// pasta, of the package passt.
    Pasta,
    /// slirp4netns.
    Slirp4netns,
    /// The kernel's WireGuard, and the program `wg`.
    Wireguard,
    /// A service that isn't part of vtax; serialised as its word.
    #[serde(untagged)]
    Service(Installed),
}

/// A service that is installed from packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "&'static str")]
pub struct Installed {
    /// The service's kind in plans: `nginx`.
    pub word: &'static str,
    /// Debian's packages of it.
    pub packages: &'static [&'static str],
}

impl Installed {
    /// `None` for a service that is part of vtax, or the user's own.
    pub(super) fn of(facts: &ServiceFacts<'_>) -> Option<Self> {
        let ServiceFacts { word, packages, .. } = *facts;
        (!packages.is_empty()).then_some(Self { word, packages })
    }
}

impl From<Installed> for &'static str {
    fn from(service: Installed) -> Self {
        service.word
    }
}

impl Requirement {
    /// What is needed, for people.
    #[must_use]
    pub fn text(self) -> Cow<'static, str> {
        let text = match self {
            Self::Namespaces => "namespaces: root, or user namespaces allowed; else loopback and native only",
            Self::Container => "containers: root, and an OCI runtime (crun or runc)",
            Self::Uml => "user-mode Linux: package user-mode-linux, /dev/net/tun, ptrace allowed",
            Self::Vm => "guests: qemu-system-x86_64, a guest kernel, /dev/net/tun",
            Self::Kvm => "guests at full speed: a /dev/kvm that works; else emulated, and the report says so",
            Self::Tbf => "rate limits: the kernel's tbf queueing discipline",
            Self::Cgroups => {
                "memory limits: cgroups that may be written; else CPU affinity only, and the report says so"
            }
            Self::Service(Installed { word, packages }) => {
                return format!("the service {word}: {}", listed(packages)).into();
            }
            Self::OpenVSwitch => "Open vSwitch: package openvswitch-switch",
            Self::Testcontroller => "ovs-testcontroller: package openvswitch-testcontroller",
            Self::OsKen => "os-ken: package python3-os-ken",
            Self::Mininet => "Mininet: root, and package mininet",
            Self::Dhcp => "addresses by DHCP: package dnsmasq-base",
            Self::Routers => {
                "routers: package frr; where this kernel lacks MPLS or VRF and they are needed, a guest"
            }
            Self::Macvlan => "macvlan: a kernel with it (module macvlan)",
            Self::Ipvlan => "ipvlan: a kernel with it (module ipvlan)",
            Self::Pasta => "networks in user space by pasta: package passt, /dev/net/tun",
            Self::Slirp4netns => "networks in user space by slirp4netns: package slirp4netns, /dev/net/tun",
            Self::Wireguard => "WireGuard: package wireguard-tools, a kernel with it (module wireguard)",
            Self::Vxlan => "VXLAN: a kernel with it (module vxlan)",
            Self::Nat => "published ports: package nftables, and a kernel with NAT by nftables",
            Self::Ssh => "a remote host: root, ssh, and a key that needs no password",
        };
        Cow::Borrowed(text)
    }

    /// Debian's packages of its programs; empty where there are none but the kernel's own.
    #[must_use]
    pub const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Service(service) => service.packages,
            Self::Container => &["crun", "runc"],
            Self::Uml => &["user-mode-linux"],
            Self::Vm => &["qemu-system-x86"],
            Self::OpenVSwitch => &["openvswitch-switch"],
            Self::Testcontroller => &["openvswitch-testcontroller"],
            Self::OsKen => &["python3-os-ken"],
            Self::Mininet => &["mininet"],
            Self::Ssh => &["openssh-client"],
            Self::Dhcp => &["dnsmasq-base"],
            Self::Routers => &["frr"],
            Self::Nat => &["nftables"],
            Self::Pasta => &["passt"],
            Self::Slirp4netns => &["slirp4netns"],
            Self::Wireguard => &["wireguard-tools"],
            Self::Namespaces
            | Self::Kvm
            | Self::Tbf
            | Self::Cgroups
            | Self::Vxlan
            | Self::Macvlan
            | Self::Ipvlan => &[],
        }
    }
}

/// `package a`, or `packages a, b and c`.
fn listed(packages: &[&str]) -> String {
    match packages.split_last() {
        Some((last, rest @ [_, ..])) => format!("packages {} and {last}", rest.join(", ")),
        _ => format!("package {}", packages.concat()),
    }
}
