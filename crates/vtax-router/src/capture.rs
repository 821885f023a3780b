//! Packets of an interface of a node, as a file of libpcap's format.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use vtax_sys::datagrams::{BATCH_MAX, Inbox};
use vtax_sys::netlink::Netlink;
use vtax_sys::{NetNs, packets};
use vtax_units::Nanos;
use vtax_wire::pcap::{Reader, file_header, packet_header};

use crate::error::{Result, RouterError, While};

/// Bytes kept of each packet: every header, labels included.
const KEPT: u32 = 160;
/// Bytes of packets that may wait.
const BUFFER: usize = 16 << 20;
/// A capture that is so large is over.
const LARGEST: usize = 4 << 20;
/// The longest time it lasts.
const LONGEST: Duration = Duration::from_secs(60);

/// A capture that has begun: packets wait until they are taken.
pub struct Capture {
    socket: OwnedFd,
    interface: String,
}

impl Capture {
    /// Begins at an interface of a node.
    ///
    /// # Errors
    ///
    /// Where there is no such interface, or packets may not be captured.
    pub fn begin(node: &NetNs, interface: &str) -> Result<Self> {
        let socket = node
            .run(|| {
                let index = Netlink::open()?.link(interface)?.index;
                packets::open(index, BUFFER)
            })
            .during(|| format!("capture packets of {interface}"))?;
        Ok(Self { socket, interface: interface.to_owned() })
    }

    /// Captures for a time, or until there are 4 MiB, which [`full_after`] tells; the bytes of the file.
    ///
    /// # Errors
    ///
    /// Where packets can't be received.
    pub fn run(self, duration: Duration) -> Result<Vec<u8>> {
        let until = Instant::now() + duration.min(LONGEST);
        let mut inbox = Inbox::new(BATCH_MAX, KEPT as usize);
        let mut file = file_header(KEPT).to_vec();
        while file.len() < LARGEST {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let got = match inbox.receive(self.socket.as_fd()) {
                Ok(got) => got,
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    let left = Timespec::try_from(left).ok();
                    // Interrupted or not: the loop looks again.
                    let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], left.as_ref());
                    continue;
                }
                // An interface that is down, as by a cut, says so once.
                Err(e) if e.raw_os_error() == Some(Errno::NETDOWN.raw_os_error()) => continue,
                Err(e) => {
                    return Err(RouterError::Unknown(format!("capture packets of {}: {e}", self.interface)));
                }
            };
            for datagram in (0..got).filter_map(|index| inbox.get(index)) {
                let at = inbox.arrival(&datagram).unwrap_or_default().0;
                let kept = datagram.bytes.len() as u32;
                file.extend(packet_header(at, kept, (datagram.length as u32).max(kept)));
                file.extend_from_slice(datagram.bytes);
            }
        }
        Ok(file)
    }
}

/// How long a capture lasted, from its first packet to its last, where it was over because it was large enough.
#[must_use]
pub fn full_after(file: &[u8]) -> Option<Nanos> {
    let packets = Reader::new(file).ok().filter(|_| file.len() >= LARGEST)?;
    let mut times = packets.flatten().map(|packet| packet.at_ns);
    let first = times.next()?;
    Some(Nanos(times.last().unwrap_or(first).saturating_sub(first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_that_was_full_is_told_from_one_whose_time_was_over() {
        let of = |packets: u64| {
            let mut file = file_header(KEPT).to_vec();
            for number in 0..packets {
                file.extend(packet_header(5_000_000_000 + number * 100_000, KEPT, KEPT));
                file.extend([0; KEPT as usize]);
            }
            file
        };
        // 176 bytes each: 23,831 are 4 MiB.
        assert_eq!(full_after(&of(23_000)), None);
        assert_eq!(full_after(&of(24_001)), Some(Nanos::from_millis(2_400)));
        assert_eq!(full_after(&[]), None);
    }
}
