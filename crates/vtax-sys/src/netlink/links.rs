//! The list of interfaces.

use super::link::{
    IFLA_ADDRESS, IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_MASTER, IFLA_MTU, Mac, RTM_GETLINK,
    RTM_NEWLINK,
};
use super::message::{Request, attributes, u32_at, u64_at};
use super::socket::Netlink;
use crate::error::{Context, Result};

const IFLA_STATS64: u16 = 23;
const IFINFO: usize = 16;

/// Counters of an interface since it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkStats {
    /// Packets received.
    pub received_packets: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets dropped on the way in.
    pub received_dropped: u64,
    /// Packets dropped on the way out.
    pub sent_dropped: u64,
}

impl std::ops::Add for LinkStats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            received_packets: self.received_packets + other.received_packets,
            sent_packets: self.sent_packets + other.sent_packets,
            received_bytes: self.received_bytes + other.received_bytes,
            sent_bytes: self.sent_bytes + other.sent_bytes,
            received_dropped: self.received_dropped + other.received_dropped,
            sent_dropped: self.sent_dropped + other.sent_dropped,
        }
    }
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Link {
    /// Its number in its namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its MAC address; zeros where it has none.
    pub mac: Mac,
    /// MTU in bytes.
    pub mtu: u32,
    /// Brought up.
    pub up: bool,
    /// Up, with a carrier (IFF_RUNNING).
    pub running: bool,
    /// Index of the bridge it is plugged into.
    pub switch: Option<u32>,
    /// `veth`, `bridge`, `tun`, ...; empty for loopback and hardware.
    pub kind: String,
    /// Counters.
    pub stats: LinkStats,
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.split(|b| *b == 0).next().unwrap_or_default()).into_owned()
}

/// `struct rtnl_link_stats64`: rx/tx packets, bytes, errors, dropped, ...
fn stats(value: &[u8]) -> LinkStats {
    let number = |position: usize| u64_at(value, position * 8);
    LinkStats {
        received_packets: number(0),
        sent_packets: number(1),
        received_bytes: number(2),
        sent_bytes: number(3),
        received_dropped: number(6),
        sent_dropped: number(7),
    }
}

fn parse(payload: &[u8]) -> Option<Link> {
    let rest = payload.get(IFINFO..)?;
    let flags = u32_at(payload, 8);
    let mut link =
        Link { index: u32_at(payload, 4), up: flags & 1 != 0, running: flags & 0x40 != 0, ..Link::default() };
    for (kind, value) in attributes(rest) {
        match kind {
            IFLA_IFNAME => link.name = text(value),
            IFLA_ADDRESS => link.mac = value.try_into().map(Mac).unwrap_or_default(),
            IFLA_MTU => link.mtu = u32_at(value, 0),
            IFLA_MASTER => link.switch = Some(u32_at(value, 0)),
            IFLA_STATS64 => link.stats = stats(value),
            IFLA_LINKINFO => {
                let kind = attributes(value).find(|(k, _)| *k == IFLA_INFO_KIND);
                link.kind = kind.map(|(_, v)| text(v)).unwrap_or_default();
            }
            _ => {}
        }
    }
    Some(link)
}

impl Netlink {
    /// Every interface of the namespace.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn links(&mut self) -> Result<Vec<Link>> {
        let request = Request::new("list", "interfaces", RTM_GETLINK, 0, &[0; IFINFO]);
        let mut links = Vec::new();
        self.dump(request, |kind, payload| {
            if kind == RTM_NEWLINK {
                links.extend(parse(payload));
            }
        })?;
        Ok(links)
    }

    /// The interface with this name.
    ///
    /// # Errors
    ///
    /// ENODEV where there is none.
    pub fn link(&mut self, name: &str) -> Result<Link> {
        let found = self.links()?.into_iter().find(|l| l.name == name);
        found.ok_or(rustix::io::Errno::NODEV).context("find interface", name)
    }
}
