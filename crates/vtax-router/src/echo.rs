//! Asking an address for an echo (RFC 792) from inside a node, and what its answer and the frames on the way say.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto};
use vtax_sys::datagrams::{BATCH_MAX, Inbox};
use vtax_sys::netlink::Netlink;
use vtax_sys::{Context as _, NetNs, packets};
use vtax_wire::mpls;

/// Bytes kept of a frame: its stack and what is before it.
const KEPT: usize = 128;
/// Bytes of frames that may wait.
const BUFFER: usize = 1 << 20;
const REQUEST: u8 = 8;
const REPLY: u8 = 0;
/// Type, code, checksum, identifier, number.
const HEADER: usize = 8;

/// Asks once, from one address to another; the time to live of the answer, `None` where none came in time.
pub(crate) fn once(
    node: &NetNs,
    vrf: Option<&str>,
    [from, to]: [Ipv4Addr; 2],
    within: Duration,
) -> vtax_sys::Result<Option<u8>> {
    node.run(|| {
        let socket = socket(vrf)?;
        rustix::net::bind(&socket, &SocketAddrV4::new(from, 0))
            .context("ask for an echo from", from.to_string())?;
        let number = (std::process::id() & 0xffff) as u16;
        let request = message(REQUEST, number, 1);
        match rustix::net::sendto(&socket, &request, SendFlags::empty(), &SocketAddrV4::new(to, 0)) {
            Ok(_) => answer(&socket, to, number, within),
            // No route yet, or one whose interface is down.
            Err(Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN) => Ok(None),
            Err(e) => Err(e).context("ask for an echo", to.to_string()),
        }
    })
}

fn socket(vrf: Option<&str>) -> vtax_sys::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::RAW,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(ipproto::ICMP),
    )
    .context("open", "ICMP socket")?;
    if let Some(vrf) = vrf {
        packets::bind_to_interface(socket.as_fd(), vrf)?;
    }
    Ok(socket)
}

fn message(kind: u8, identifier: u16, number: u16) -> [u8; HEADER + 24] {
    let mut bytes = [0; HEADER + 24];
    bytes[0] = kind;
    bytes[4..6].copy_from_slice(&identifier.to_be_bytes());
    bytes[6..8].copy_from_slice(&number.to_be_bytes());
    let sum = checksum(&bytes);
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum =
        bytes.as_chunks::<2>().0.iter().map(|pair| u32::from(u16::from_be_bytes(*pair))).sum::<u32>();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

fn answer(
    socket: &OwnedFd,
    from: Ipv4Addr,
    identifier: u16,
    within: Duration,
) -> vtax_sys::Result<Option<u8>> {
    let until = Instant::now() + within;
    let mut buffer = [0; 2048];
    loop {
        match rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((length, _)) => {
                let ttl = reply(&buffer[..length], from, identifier);
                if ttl.is_some() {
                    return Ok(ttl);
                }
            }
            Err(Errno::AGAIN) => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Ok(None);
                }
                let left = Timespec::try_from(left).ok();
                // Interrupted or not: the loop looks again.
                let _ = poll(&mut [PollFd::new(socket, PollFlags::IN)], left.as_ref());
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e).context("hear from", "ICMP socket"),
        }
    }
}

/// The time to live of an echo's answer; a raw socket gets it with its IPv4 header.
fn reply(packet: &[u8], from: Ipv4Addr, identifier: u16) -> Option<u8> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let (ttl, sender) = (*packet.get(8)?, *packet.get(12..)?.first_chunk::<4>()?);
    let icmp = packet.get(header..)?;
    let number = u16::from_be_bytes(*icmp.get(4..)?.first_chunk()?);
    (Ipv4Addr::from(sender) == from && *icmp.first()? == REPLY && number == identifier).then_some(ttl)
}

/// Hears frames on an interface of a node.
pub(crate) struct FrameListener {
    socket: OwnedFd,
    inbox: Inbox,
}

impl FrameListener {
    /// Begins to listen.
    pub(crate) fn open(node: &NetNs, interface: &str) -> vtax_sys::Result<Self> {
        let socket = node.run(|| {
            let index = Netlink::open()?.link(interface)?.index;
            packets::open(index, BUFFER)
        })?;
        Ok(Self { socket, inbox: Inbox::new(BATCH_MAX, KEPT) })
    }

    /// The deepest stack of labels that was heard since the last call; empty where no frame had one.
    pub(crate) fn deepest(&mut self) -> Vec<u32> {
        let mut deepest = Vec::new();
        // Nothing that waits, or an interface that is down, is the end of what there is to hear.
        while let Ok(count) = self.inbox.receive(self.socket.as_fd()) {
            for frame in (0..count).filter_map(|index| self.inbox.get(index)) {
                let labels: Vec<u32> = mpls::stack(frame.bytes).map(|entry| entry.label).collect();
                if labels.len() > deepest.len() {
                    deepest = labels;
                }
            }
        }
        deepest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_checksum_that_makes_its_sum_nothing() {
        let bytes = message(REQUEST, 0x1234, 7);
        assert_eq!(checksum(&bytes), 0);
        assert_eq!(&bytes[4..8], [0x12, 0x34, 0, 7]);
    }

    #[test]
    fn only_the_answer_that_was_asked_for_counts() {
        let from = Ipv4Addr::new(10, 96, 2, 1);
        let mut packet = vec![0x45, 0, 0, 52, 0, 0, 0, 0, 62, 1, 0, 0, 10, 96, 2, 1, 10, 96, 1, 1];
        packet.extend(message(REPLY, 9, 1));
        assert_eq!(reply(&packet, from, 9), Some(62));
        assert_eq!(reply(&packet, from, 8), None);
        assert_eq!(reply(&packet, Ipv4Addr::LOCALHOST, 9), None);
        for length in 0..packet.len() {
            let _ = reply(&packet[..length], from, 9);
        }
    }
}
