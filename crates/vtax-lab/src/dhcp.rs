//! A DHCP server on the systems' switch: dnsmasq of the testbed's own, in a network namespace of its own, without a file.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use vtax_agent::message::InterfaceSetup;
use vtax_sys::NetNs;
use vtax_units::CpuSet;

use crate::attachment::Attachment;
use crate::error::{Result, While};
use crate::fabric::{Fabric, Switch};
use crate::link::LinkProperties;
use crate::naming::{PREFIX, mac_of};
use crate::node::Node;
use crate::program::{Daemon, Program};

/// The server.
pub(crate) const DNSMASQ: Program = Program { name: "dnsmasq", package: "dnsmasq-base" };
/// Its address: the last of the lab's network, which no node has.
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 255, 254));
/// How long an address is leased, in seconds. Nodes don't renew, and none stands for a day.
const LEASE_SECONDS: u32 = 86_400;
/// How long it may take to start.
const START_WITHIN: Duration = Duration::from_secs(10);
/// How long it may take to tell its version.
const VERSION_WITHIN: Duration = Duration::from_secs(5);

/// A DHCP server; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct DhcpServer {
    daemon: Daemon,
    version: String,
}

/// Why there can be none on this host, with the way out; `None` where there can.
pub(crate) fn obstacle() -> Option<String> {
    DNSMASQ.find().err().map(|e| e.to_string())
}

/// Has the agent of a node ask for the address of its newest interface; the address, which it is to get.
pub(crate) fn ask(node: &mut Node) -> Option<IpAddr> {
    let attachment: &mut Attachment = node.as_mut();
    let setup: &mut InterfaceSetup = attachment.interfaces.as_mut()?.last_mut()?;
    setup.dhcp = true;
    setup.addresses.first().map(|(address, _)| *address)
}

impl DhcpServer {
    /// Starts one on a switch that leases each of these addresses to the host that it was made for, and to nobody else.
    pub(crate) fn start(
        fabric: &mut Fabric,
        switch: &mut Switch,
        properties: LinkProperties,
        addresses: &[IpAddr],
        cpus: &CpuSet,
    ) -> Result<Self> {
        let inside = NetNs::create().during(|| "make the DHCP server's network".to_owned())?;
        fabric.plug_namespace(&inside, "eth0", switch, properties.unlimited(), (ADDRESS, PREFIX))?;
        let version = DNSMASQ.run(DNSMASQ.command(["--version"])?, VERSION_WITHIN)?;
        let spawn = DNSMASQ.command(arguments(addresses))?.join_net(inside.into());
        let daemon = Daemon::start(DNSMASQ.name, spawn, cpus)?;
        let sockets = format!("/proc/{}/net/udp", daemon.pid());
        daemon
            .wait_ready(START_WITHIN, || std::fs::read_to_string(&sockets).is_ok_and(|all| listens(&all)))?;
        Ok(Self { daemon, version: version_in(&version) })
    }

    /// What there is to say about it now.
    pub(crate) fn facts(&self) -> [(String, String); 2] {
        let alive = self.daemon.alive().to_string();
        [("path.dhcp.server".to_owned(), self.version.clone()), ("path.dhcp.alive".to_owned(), alive)]
    }
}

/// dnsmasq(8)'s arguments: nothing but leases, no file is read or written.
fn arguments(addresses: &[IpAddr]) -> Vec<String> {
    let network = Ipv4Addr::new(10, 97, 0, 0);
    let mut arguments: Vec<String> = [
        // Stays where it was started, as who started it.
        "--no-daemon",
        "--conf-file=/dev/null",
        "--no-resolv",
        "--no-hosts",
        // No name server.
        "--port=0",
        "--interface=eth0",
        "--except-interface=lo",
        "--bind-interfaces",
        "--leasefile-ro",
        "--pid-file=",
        "--dhcp-authoritative",
        // The addresses are free: nobody has to be asked for 3 s first.
        "--no-ping",
        // Nodes have no way out of their network.
        "--dhcp-option=option:router",
        "--dhcp-option=option:dns-server",
    ]
    .map(str::to_owned)
    .into();
    arguments.push(format!("--dhcp-range={network},static,255.255.0.0,{LEASE_SECONDS}"));
    arguments.extend(addresses.iter().filter_map(|address| {
        let mac = mac_of(*address)?;
        Some(format!("--dhcp-host={mac},{address}"))
    }));
    arguments
}

/// Whether a list of UDP sockets, as the kernel shows it, has one at the servers' port (67).
fn listens(sockets: &str) -> bool {
    let local = |line: &str| Some(line.split_whitespace().nth(1)?.ends_with(":0043"));
    sockets.lines().any(|line| local(line) == Some(true))
}

/// `dnsmasq 2.90` of what it says about itself.
fn version_in(text: &str) -> String {
    let number = text.split_whitespace().skip_while(|word| *word != "version").nth(1);
    format!("{} {}", DNSMASQ.name, number.unwrap_or("of an unknown version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_its_own_address_and_no_file_is_named() {
        let addresses = ["10.97.0.2", "10.97.1.3"].map(|text| text.parse().expect("an address"));
        let arguments = arguments(&addresses);
        assert_eq!(
            arguments[arguments.len() - 3..],
            [
                "--dhcp-range=10.97.0.0,static,255.255.0.0,86400",
                "--dhcp-host=02:76:74:00:00:02,10.97.0.2",
                "--dhcp-host=02:76:74:00:01:03,10.97.1.3",
            ]
        );
        assert!(arguments.iter().all(|word| !word.contains('/') || word == "--conf-file=/dev/null"));
    }

    #[test]
    fn the_servers_port_is_found_in_the_kernels_list() {
        let list = "  sl  local_address rem_address   st\n 101: 00000000:0043 00000000:0000 07\n";
        assert!(listens(list));
        assert!(!listens("  sl  local_address rem_address   st\n 101: 00000000:0044 00000000:0043 07\n"));
        assert!(!listens(""));
    }

    #[test]
    fn its_version_is_told() {
        assert_eq!(version_in("Dnsmasq version 2.90  Copyright (c) 2000-2024"), "dnsmasq 2.90");
        assert_eq!(version_in(""), "dnsmasq of an unknown version");
    }
}
