//! Packages of the programs that paths are made of.

use vtax_plan::estimate::Requirement;
use vtax_plan::model::{CardSharing, Controller, MininetSwitch, OvsOptions, UserNetwork};
use vtax_sys::check::{Check, name};
use vtax_sys::{caps, chain};
use vtax_topology::blueprint::Needs;

use super::{nat, nic, rootless, shared, vxlan, wireguard};
use crate::error::{LabError, Result};
use crate::program::Program;
use crate::{dhcp, mininet, ovs};

/// What installs the packages of paths.
const INSTALL: &str = "vtax setup --paths";

/// A package that some path needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathPackage {
    /// Its name in Debian.
    pub name: &'static str,
    /// A program of it.
    pub program: &'static str,
    /// The system's own service that comes along; vtax starts its own.
    pub unit: Option<&'static str>,
    /// Whether it needs nothing but the C library, so that it runs from where it is unpacked as well.
    pub runs_unpacked: bool,
}

impl PathPackage {
    const fn new(name: &'static str, program: &'static str) -> Self {
        Self { name, program, unit: None, runs_unpacked: false }
    }

    const fn with_unit(self, unit: &'static str) -> Self {
        Self { unit: Some(unit), ..self }
    }

    const fn or_unpacked(self) -> Self {
        Self { runs_unpacked: true, ..self }
    }
}

/// The packages of all kinds of path.
#[must_use]
pub fn packages() -> Vec<PathPackage> {
    let of = PathPackage::new;
    vec![
        of("openvswitch-switch", "ovs-vswitchd").with_unit("openvswitch-switch.service"),
        of("openvswitch-testcontroller", "ovs-testcontroller")
            .with_unit("openvswitch-testcontroller.service"),
        of("python3-os-ken", "osken-manager"),
        of("mininet", "mnexec"),
        // Mininet's LinuxBridge is made by it, which its package doesn't depend on.
        of("bridge-utils", "brctl"),
        of("openssh-client", "ssh"),
        // The daemon alone: the system's own is in another package.
        of("dnsmasq-base", "dnsmasq"),
        of("nftables", "nft"),
        of("passt", "pasta").or_unpacked(),
        of("slirp4netns", "slirp4netns"),
        of("wireguard-tools", "wg").or_unpacked(),
    ]
}

/// The packages of routed labs, and what is asked for first in one that stands.
#[must_use]
pub fn lab_packages() -> Vec<PathPackage> {
    vec![
        // Its daemons are in no directory of programs; its tool is.
        PathPackage::new(vtax_router::PACKAGE, "vtysh").with_unit("frr.service"),
        PathPackage::new("iputils-ping", "ping"),
    ]
}

/// The program by which it is told that a path can have what it needs; `None` where it needs no program of its own.
pub(crate) fn program_of(needed: Requirement) -> Option<Program> {
    Some(match needed {
        Requirement::OpenVSwitch => ovs::SWITCH,
        Requirement::Testcontroller => ovs::TESTCONTROLLER,
        Requirement::Mininet => mininet::ENTER,
        Requirement::Ssh => nic::SSH,
        Requirement::Dhcp => dhcp::DNSMASQ,
        Requirement::Nat => nat::NFT,
        Requirement::Pasta => rootless::program(UserNetwork::Pasta),
        Requirement::Slirp4netns => rootless::program(UserNetwork::Slirp4netns),
        Requirement::Wireguard => wireguard::WG,
        _ => return None,
    })
}

/// What paths can be built of here, for `vtax doctor`, where that is no matter of namespaces.
#[must_use]
pub fn checks() -> Vec<Check> {
    let point = |name: String, found: &str, obstacle: Option<String>| match obstacle {
        None => Check::ok(name, found),
        Some(reason) => Check::missing(name, reason, INSTALL),
    };
    let open_vswitch = match ovs::obstacle(OvsOptions::default()) {
        Some(reason) => Check::missing(name::path("ovs"), reason, INSTALL),
        None if ovs::kernel_has_datapath() => Check::ok(name::path("ovs"), "Open vSwitch, in the kernel"),
        None => Check::degraded(
            name::path("ovs"),
            "Open vSwitch, in user space: this kernel has no datapath for it",
            "sudo modprobe openvswitch",
        ),
    };
    let sdn = |word: &str, controller| {
        let name = name::path(&format!("sdn ({word})"));
        point(name, "installed", ovs::controller_obstacle(controller))
    };
    vec![
        open_vswitch,
        sdn("testcontroller", Controller::Testcontroller),
        sdn("os-ken", Controller::OsKen),
        point("addresses by DHCP".to_owned(), "dnsmasq is installed", dhcp::obstacle()),
        point(name::path("nic"), "ssh is installed", nic::SSH.find().err().map(|e| e.to_string())),
    ]
}

/// What this kernel has for paths, each tried in a network namespace of its own. Call it where these can be made: in a
/// controller, as a run has it, since some of it is another there for an ordinary user.
pub(crate) fn kernel_checks() -> Vec<Check> {
    let point = |word: &str, found: &str, obstacle: Option<String>, fix: &str| match obstacle {
        None => Check::ok(name::path(word), found),
        Some(reason) => Check::missing(name::path(word), reason, fix),
    };
    let sharing = |sharing: CardSharing| {
        let (word, fix) = match sharing {
            CardSharing::Macvlan => ("macvlan", "sudo modprobe macvlan"),
            CardSharing::Ipvlan => ("ipvlan", "sudo modprobe ipvlan"),
        };
        point(word, "an interface that shares a card was made", shared::obstacle(sharing), fix)
    };
    let rootless = |network: UserNetwork| {
        let fix = rootless_fix(rootless::program(network).find().is_ok());
        point(network.word(), "its program is there", rootless::obstacle(network), fix)
    };
    // No package lets an ordinary user have it.
    let of_mininet = if caps::in_initial_user_namespace() { INSTALL } else { "run vtax as root" };
    vec![
        point("mininet", "installed", mininet::obstacle(MininetSwitch::LinuxBridge), of_mininet),
        tried("nat", "nftables took rules that translate addresses", nat::tried(), NAT_MODULES),
        point("vxlan", "an end of a tunnel was made", vxlan::obstacle(), "sudo modprobe vxlan"),
        sharing(CardSharing::Macvlan),
        sharing(CardSharing::Ipvlan),
        rootless(UserNetwork::Pasta),
        rootless(UserNetwork::Slirp4netns),
        tried("wireguard", "an end of a tunnel was made", wireguard::tried(), "sudo modprobe wireguard"),
        routers(),
    ]
}

/// The way to a network in user space: where its program is there, it is the tap that it can't make.
const fn rootless_fix(is_installed: bool) -> &'static str {
    if is_installed { "sudo modprobe tun; sudo chmod 666 /dev/net/tun" } else { INSTALL }
}

/// What loads the modules of nftables that translate addresses.
const NAT_MODULES: &str = "sudo modprobe -a nf_tables nft_chain_nat nft_nat nft_masq nft_ct";

/// A path that was tried: what isn't installed can be, what the kernel refused it may have a module for.
fn tried(word: &str, found: &str, outcome: Result<()>, modules: &str) -> Check {
    let name = name::path(word);
    match outcome {
        Ok(()) => Check::ok(name, found),
        Err(missing @ LabError::NotInstalled { .. }) => Check::missing(name, missing.to_string(), INSTALL),
        Err(refused) => Check::missing(name, chain(&refused), modules),
    }
}

/// Whether routers can be had, and where those of an MPLS VPN would run.
fn routers() -> Check {
    if !vtax_router::installed() {
        return Check::missing(name::path("routed"), "FRR is not installed", "vtax setup --labs");
    }
    let vpn = Needs { labels: true, vrfs: true, tunnels: true, routers: true, wires: false, rates: false };
    match vtax_router::obstacle(vpn) {
        None => Check::ok(name::path("routed"), "FRR, and a kernel with MPLS and VRF"),
        Some(reason) => Check::degraded(
            name::path("routed"),
            format!("FRR; topologies with MPLS or VRF run in a guest: {reason}"),
            "sudo modprobe -a mpls_router mpls_iptunnel vrf ip_gre",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs tell the versions of the packages that a requirement names.
    #[test]
    fn a_requirement_names_the_package_of_its_program() {
        for needed in [
            Requirement::OpenVSwitch,
            Requirement::Testcontroller,
            Requirement::Mininet,
            Requirement::Ssh,
            Requirement::Dhcp,
            Requirement::Nat,
            Requirement::Pasta,
            Requirement::Slirp4netns,
            Requirement::Wireguard,
        ] {
            let package = program_of(needed).map(|program| program.package);
            assert_eq!(package.as_slice(), needed.packages(), "{needed:?}");
        }
        assert_eq!(Requirement::Routers.packages(), [vtax_router::PACKAGE]);
        let of_paths = packages();
        let is_installed = |name: &str| of_paths.iter().any(|package| package.name == name);
        assert!(Requirement::OsKen.packages().iter().all(|name| is_installed(name)));
    }

    #[test]
    fn what_is_not_installed_is_installed_and_what_is_refused_is_loaded() {
        let fix = |outcome| tried("wireguard", "made", outcome, "sudo modprobe wireguard").fix;
        let missing = LabError::NotInstalled { program: "wg", package: "wireguard-tools" };
        let refused = LabError::Tool {
            tool: "nft".to_owned(),
            how: "exit code 1".to_owned(),
            output: "Operation not supported".to_owned(),
        };
        assert_eq!(fix(Ok(())), None);
        assert_eq!(fix(Err(missing)).as_deref(), Some(INSTALL));
        assert_eq!(fix(Err(refused)).as_deref(), Some("sudo modprobe wireguard"));
        assert_eq!(rootless_fix(false), INSTALL);
        assert!(
            rootless_fix(true).contains("chmod 666 /dev/net/tun"),
            "a program that is there isn't installed again"
        );
    }
}
