//! The networks of a pair: the service's, the link for checkpoints, the second path.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use vtax_plan::model::HostCards;
use vtax_sys::netlink::{
    Netlink, Request, add_address, add_tbf, leave_switch, set_down, set_mtu, set_switch, set_up,
};
use vtax_sys::sync::lock;
use vtax_sys::{Context, NetNs, SysError, sysctl, tap};
use vtax_vm::ft::heartbeat::HeartbeatListener;

use crate::error::{Result, While};
use crate::fabric::{Fabric, Switch};
use crate::link::LinkProperties;

/// UDP port at which heartbeats are heard.
pub(crate) const HEARTBEAT_PORT: u16 = 7001;
/// How soon a host asks again for another's address, in milliseconds.
const ASK_AGAIN_MS: &str = "20";
/// Prefix length of the networks between hosts.
const PREFIX: u8 = 24;
/// The last part of the listener's address in both.
const LISTENER: u8 = 254;

/// Which of a fabric's pairs one is, from 0: each has two networks of its own. They exist only inside the lab's namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PairNumber(u8);

impl PairNumber {
    /// More would have no networks of their own.
    const MOST: u8 = 128;

    /// `None` where there are too many.
    pub(crate) const fn new(number: u8) -> Option<Self> {
        if number < Self::MOST { Some(Self(number)) } else { None }
    }

    /// Address of host `number` (from 1) on the link for checkpoints (`path` 0) or the second path (1).
    pub(crate) const fn address(self, path: u8, number: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 98, 2 * self.0 + path, number)
    }
}

/// The switches of a pair.
#[derive(Debug)]
pub(crate) struct PairNetwork {
    netlink: Mutex<Netlink>,
    /// The switch that a guest's card is plugged into on each host: the service's, or the host's own where it has one card for all.
    entries: Vec<u32>,
    /// How the guest's cable behaves.
    cable: LinkProperties,
    taps: AtomicU32,
    /// Number in tap names, which tells pairs of one lab apart.
    number: u32,
    /// Which of the fabric's pairs it belongs to.
    which: PairNumber,
    /// Where heartbeats are heard on each path.
    pub(crate) listeners: Mutex<[HeartbeatListener; 2]>,
}

impl PairNetwork {
    /// Builds the two networks between hosts, with the cables of these hosts, whose lab-side ports are
    /// returned. With one card for all traffic of a host, the guest and the link for checkpoints are on a switch of the host's,
    /// of which a cable with the link's rate leads to the service network.
    pub(crate) fn build(
        fabric: &mut Fabric,
        service: &mut Switch,
        cable: LinkProperties,
        (link, cards): (LinkProperties, HostCards),
        hosts: &[NetNs],
    ) -> Result<(Self, Vec<[String; 2]>)> {
        static PAIRS: AtomicU32 = AtomicU32::new(0);
        let what = || "build the networks between hosts".to_owned();
        let which = fabric.take_pair()?;
        let mut netlink = Netlink::open().during(what)?;
        let mut ports: Vec<[String; 2]> = vec![Default::default(); hosts.len()];
        let mut entries = vec![service.index(); hosts.len()];
        for (path, properties) in [(0, link), (1, LinkProperties::default())] {
            let name = if path == 0 { "ft0" } else { "hb0" };
            let shared = path == 0 && cards == HostCards::Shared;
            let mut switch = if shared { None } else { Some(fabric.add_switch(properties.mtu)?) };
            let heard_at = switch.as_ref().map_or(service.index(), Switch::index);
            let listener = IpAddr::V4(which.address(path, LISTENER));
            netlink.send(add_address(heard_at, listener, PREFIX)).during(what)?;
            for (number, inside) in hosts.iter().enumerate() {
                let place = (IpAddr::V4(which.address(path, number as u8 + 1)), PREFIX);
                ports[number][usize::from(path)] = match &mut switch {
                    Some(switch) => fabric.plug_namespace(inside, name, switch, properties, place)?,
                    None => {
                        let card = LinkProperties { mtu: properties.mtu.max(cable.mtu), ..properties };
                        let mut own = fabric.add_switch(card.mtu)?;
                        let port = fabric.plug_namespace(inside, name, &mut own, card.unlimited(), place)?;
                        fabric.uplink(&mut own, service, card)?;
                        fabric.start(&own)?;
                        entries[number] = own.index();
                        port
                    }
                };
            }
            if let Some(switch) = &switch {
                fabric.start(switch)?;
            }
        }
        for inside in hosts {
            // A host whose cable was out asks for others' addresses at this interval; by default it is a second,
            // for which it can't be connected to. Kernels that don't let us only are slower.
            let set = || {
                let _ = sysctl::set("ipv4/neigh/ft0/retrans_time_ms", ASK_AGAIN_MS);
                Ok(())
            };
            inside.run(set).during(what)?;
        }
        let listener = |path| HeartbeatListener::open((which.address(path, LISTENER), HEARTBEAT_PORT).into());
        let open = || Ok::<_, std::io::Error>([listener(0)?, listener(1)?]);
        let listeners = Mutex::new(open().context("listen for", "heartbeats").during(what)?);
        let number = PAIRS.fetch_add(1, Ordering::Relaxed);
        let netlink = Mutex::new(netlink);
        Ok((Self { netlink, entries, cable, taps: AtomicU32::new(0), number, which, listeners }, ports))
    }

    /// Where heartbeats are heard on each path.
    pub(crate) const fn listener_addresses(&self) -> [IpAddr; 2] {
        [IpAddr::V4(self.which.address(0, LISTENER)), IpAddr::V4(self.which.address(1, LISTENER))]
    }

    /// Address of host `number` (from 1) on the link for checkpoints (`path` 0) or the second path (1).
    pub(crate) const fn address(&self, path: u8, number: u8) -> Ipv4Addr {
        self.which.address(path, number)
    }

    fn netlink(&self) -> MutexGuard<'_, Netlink> {
        // A conversation that was broken off leaves answers that later ones skip.
        lock(&self.netlink)
    }

    /// A new tap for a guest's card; it isn't plugged in and ends with its descriptor.
    pub(crate) fn new_tap(&self) -> Result<(OwnedFd, String)> {
        let name = format!("ft{}-{}", self.number, self.taps.fetch_add(1, Ordering::Relaxed));
        let what = || format!("build tap {name}");
        let tap = tap::create_bare(&name).during(what)?;
        let mut netlink = self.netlink();
        netlink.send_all([set_mtu(&name, self.cable.mtu), set_up(&name)]).during(what)?;
        if let Some(tbf) = self.cable.tbf() {
            let index = netlink.link(&name).during(what)?.index;
            netlink.send(add_tbf(index, &tbf)).during(what)?;
        }
        drop(netlink);
        Ok((tap, name))
    }

    /// Plugs a guest's card on the host with this number, from 0, into the service network.
    pub(crate) fn plug(&self, host: usize, tap: &str) -> Result<()> {
        let request = set_switch(tap, self.entries[host]);
        self.netlink().send(request).during(|| format!("plug {tap} into the service network"))
    }

    /// Plugs a guest's card in whose fate is undecided: it may have been cut off.
    pub(crate) fn plug_again(&self, host: usize, tap: &str) -> Result<()> {
        let requests = [set_up(tap), set_switch(tap, self.entries[host])];
        gone_is_fine(self.netlink().send_all(requests))
            .during(|| format!("plug {tap} into the service network again"))
    }

    /// Number of a guest's card in the lab's network namespace; `None` once it went with its QEMU.
    pub(crate) fn index_of(&self, tap: &str) -> Option<u32> {
        self.netlink().link(tap).ok().map(|link| link.index)
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
