//! The networks of a pair: the service's, the link for checkpoints, the second path.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use vtax_sys::netlink::{Netlink, Request, add_address, leave_switch, set_down, set_mtu, set_switch, set_up};
use vtax_sys::{Context, NetNs, SysError, tap};

use crate::error::{Result, While};
use crate::fabric::{Fabric, Switch};
use crate::shape::Shape;

/// UDP port at which heartbeats are heard.
pub(crate) const EAR_PORT: u16 = 7001;
/// Prefix length of the networks between hosts.
const PREFIX: u8 = 24;
/// The last part of the listener's address in both.
const EAR: u8 = 254;

/// Address of host `number` (from 1) on the link for checkpoints (`path` 0) or the second path (1).
/// The networks exist only inside the lab's namespaces.
pub(crate) const fn address(path: u8, number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 98, path, number)
}

/// The switches of a pair.
#[derive(Debug)]
pub(crate) struct PairNetwork {
    netlink: Mutex<Netlink>,
    service: u32,
    mtu: u32,
    taps: AtomicU32,
    /// Number in tap names, which tells pairs of one lab apart.
    number: u32,
    pub(crate) ears: [UdpSocket; 2],
}

impl PairNetwork {
    /// Builds the two networks between hosts, with the cables of these hosts, whose lab-side ports are
    /// returned.
    pub(crate) fn build(
        fabric: &mut Fabric,
        service: &Switch,
        mtu: u32,
        link: Shape,
        hosts: &[NetNs],
    ) -> Result<(Self, Vec<[String; 2]>)> {
        static PAIRS: AtomicU32 = AtomicU32::new(0);
        let what = || "build the networks between hosts".to_owned();
        let mut netlink = Netlink::open().during(what)?;
        let mut ports: Vec<[String; 2]> = vec![Default::default(); hosts.len()];
        for (path, shape) in [(0, link), (1, Shape::default())] {
            let mut switch = fabric.add_switch(shape.mtu)?;
            let ear = IpAddr::V4(address(path, EAR));
            netlink.send(add_address(switch.index(), ear, PREFIX)).during(what)?;
            for (number, inside) in (1..).zip(hosts) {
                let name = if path == 0 { "ft0" } else { "hb0" };
                let place = IpAddr::V4(address(path, number));
                let port = fabric.plug_namespace(inside, name, &mut switch, shape, (place, PREFIX))?;
                ports[usize::from(number) - 1][usize::from(path)] = port;
            }
            fabric.start(&switch)?;
        }
        let ear = |path| {
            let socket = UdpSocket::bind((address(path, EAR), EAR_PORT))?;
            socket.set_nonblocking(true)?;
            Ok::<_, std::io::Error>(socket)
        };
        let open = || Ok::<_, std::io::Error>([ear(0)?, ear(1)?]);
        let ears = open().context("listen for", "heartbeats").during(what)?;
        let number = PAIRS.fetch_add(1, Ordering::Relaxed);
        let (netlink, service) = (Mutex::new(netlink), service.index());
        Ok((Self { netlink, service, mtu, taps: AtomicU32::new(0), number, ears }, ports))
    }

    /// Where heartbeats are heard on each path.
    pub(crate) const fn ear_addresses() -> [IpAddr; 2] {
        [IpAddr::V4(address(0, EAR)), IpAddr::V4(address(1, EAR))]
    }

    fn netlink(&self) -> MutexGuard<'_, Netlink> {
        // A conversation that was broken off leaves answers that later ones skip.
        self.netlink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new tap for a guest's card; it isn't plugged in and goes with whoever holds the descriptor.
    pub(crate) fn new_tap(&self) -> Result<(OwnedFd, String)> {
        let name = format!("ft{}-{}", self.number, self.taps.fetch_add(1, Ordering::Relaxed));
        let what = || format!("build tap {name}");
        let tap = tap::create_bare(&name).during(what)?;
        self.netlink().send_all([set_mtu(&name, self.mtu), set_up(&name)]).during(what)?;
        Ok((tap, name))
    }

    /// Plugs a guest's card into the service network.
    pub(crate) fn plug(&self, tap: &str) -> Result<()> {
        let request = set_switch(tap, self.service);
        self.netlink().send(request).during(|| format!("plug {tap} into the service network"))
    }

    /// Cuts a guest's card off the service network, for good. A tap that went with its QEMU is cut off.
    pub(crate) fn cut(&self, tap: &str) -> Result<()> {
        let requests = [leave_switch(tap), set_down(tap)];
        gone_is_fine(self.netlink().send_all(requests))
            .during(|| format!("cut {tap} off the service network"))
    }

    /// Bytes that have left a switch by this port.
    pub(crate) fn sent_to(&self, port: &str) -> Result<u64> {
        let link = self.netlink().link(port).during(|| format!("read the counters of {port}"))?;
        Ok(link.stats.sent_bytes)
    }

    /// Switches ports on or off.
    pub(crate) fn switch_ports<'a>(&self, ports: impl Iterator<Item = (&'a str, bool)>) -> Result<()> {
        let requests: Vec<Request> =
            ports.map(|(port, on)| if on { set_up(port) } else { set_down(port) }).collect();
        gone_is_fine(self.netlink().send_all(requests)).during(|| "switch ports of a host".to_owned())
    }
}

fn gone_is_fine(done: Result<(), SysError>) -> Result<(), SysError> {
    match done {
        Err(e) if e.errno() == Some(rustix::io::Errno::NODEV.raw_os_error()) => Ok(()),
        other => other,
    }
}
