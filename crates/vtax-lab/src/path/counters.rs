//! What the kernel counts at each end of a path.

use std::sync::Arc;

use vtax_sys::netlink::{LinkStats, Mac, Netlink};
use vtax_sys::{NetNs, SysError};

use crate::error::{Result, While};

/// Counters of one end since it was made, as its node sees it: *sent* is what the node sent. Large segments
/// that are cut later count as one packet with one header.
pub type EndCounters = LinkStats;

/// Where an end is counted.
#[derive(Debug)]
pub(crate) enum End {
    /// At the node's own interface, in its network namespace.
    Inside {
        /// The namespace.
        netns: NetNs,
        /// The interface.
        interface: String,
    },
    /// At the switch's side of a guest's card, where its sending is receiving.
    Tap {
        /// The interface.
        interface: String,
        /// The network namespace that it is in; `None`: the lab's own.
        inside: Option<Arc<NetNs>>,
        /// MAC address of the guest's card.
        card: Mac,
    },
}

impl End {
    pub(crate) fn read(&self) -> Result<EndCounters> {
        let what = || "read the counters of a path's end".to_owned();
        match self {
            Self::Inside { netns, interface } => {
                Ok(Netlink::open_in(netns).and_then(|mut n| n.link(interface)).during(what)?.stats)
            }
            Self::Tap { interface, inside, .. } => {
                let opened = inside.as_ref().map_or_else(Netlink::open, |inside| Netlink::open_in(inside));
                let link = opened.and_then(|mut n| n.link(interface)).during(what)?;
                Ok(turned_round(link.stats))
            }
        }
    }

    /// Its interface's number, found out where `then` is called: in its network namespace.
    pub(crate) fn within<T: Send>(
        &self,
        then: impl FnOnce(u32) -> Result<T, SysError> + Send,
    ) -> Result<T, SysError> {
        let found = |interface: &str| then(Netlink::open()?.link(interface)?.index);
        match self {
            Self::Inside { netns, interface } => netns.run(|| found(interface)),
            Self::Tap { interface, inside: Some(inside), .. } => inside.run(|| found(interface)),
            Self::Tap { interface, inside: None, .. } => found(interface),
        }
    }

    /// MAC address of the node's card.
    pub(crate) fn card(&self) -> Result<Mac> {
        match self {
            Self::Inside { netns, interface } => {
                let link = Netlink::open_in(netns).and_then(|mut n| n.link(interface));
                Ok(link.during(|| "look at a path's end".to_owned())?.mac)
            }
            Self::Tap { card, .. } => Ok(*card),
        }
    }
}

const fn turned_round(stats: LinkStats) -> LinkStats {
    LinkStats {
        received_packets: stats.sent_packets,
        sent_packets: stats.received_packets,
        received_bytes: stats.sent_bytes,
        sent_bytes: stats.received_bytes,
        received_dropped: stats.sent_dropped,
        sent_dropped: stats.received_dropped,
    }
}
