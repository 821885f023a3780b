//! Bringing up a node's interfaces.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use vtax_sys::netlink::{Link, Mac, Netlink, add_address, rename, set_mtu, set_up};
use vtax_sys::{SysError, ethtool};

use crate::message::{FindInterface, InterfaceSetup};

/// A guest's driver may still be probing when the agent is asked.
const APPEAR_WITHIN: Duration = Duration::from_secs(5);

/// Why a node has no network.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkError {
    #[error(transparent)]
    Sys(#[from] SysError),
    #[error("interface {name}: the node has none that fits, it has {present}")]
    NoInterface { name: String, present: String },
}

/// Brings loopback and these interfaces up, with their addresses.
///
/// IPv6 is switched off on interfaces without an IPv6 address: its neighbour and router discovery
/// would put packets into the measurement that no workload sent.
pub(crate) fn configure(interfaces: &[InterfaceSetup]) -> Result<(), NetworkError> {
    let mut netlink = Netlink::open()?;
    netlink.send(set_up("lo"))?;
    for interface in interfaces {
        let link = find(&mut netlink, interface)?;
        if link.name != interface.name {
            netlink.send(rename(link.index, &interface.name))?;
        }
        if !interface.addresses.iter().any(|(address, _)| matches!(address, IpAddr::V6(_))) {
            // Kernels without IPv6 have no such file, and nothing to switch off.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", interface.name), "1");
        }
        netlink.send(set_mtu(&interface.name, interface.mtu))?;
        if !interface.offloads {
            ethtool::set_all(&interface.name, false)?;
        }
        let addresses = interface.addresses.iter();
        netlink.send_all(addresses.map(|(address, prefix)| add_address(link.index, *address, *prefix)))?;
        netlink.send(set_up(&interface.name))?;
    }
    Ok(())
}

fn find(netlink: &mut Netlink, interface: &InterfaceSetup) -> Result<Link, NetworkError> {
    let deadline = Instant::now() + APPEAR_WITHIN;
    loop {
        let links = netlink.links()?;
        if let Some(link) = links.iter().find(|link| fits(link, &interface.find)) {
            return Ok(link.clone());
        }
        if Instant::now() >= deadline {
            let present: Vec<String> = links.iter().map(|l| format!("{} ({})", l.name, l.mac)).collect();
            return Err(NetworkError::NoInterface {
                name: interface.name.clone(),
                present: present.join(", "),
            });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn fits(link: &Link, find: &FindInterface) -> bool {
    match find {
        FindInterface::Name(name) => link.name == *name,
        FindInterface::Mac(mac) => link.mac == Mac(*mac),
    }
}
