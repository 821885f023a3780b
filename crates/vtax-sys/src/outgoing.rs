//! Datagrams that wait to be sent from one socket, and leave it together.
//!
//! A datagram's way through the network code costs several times what copying it does. Datagrams of one
//! length that go to one place take it as one, and the kernel cuts them apart at its end (UDP
//! segmentation offload, udp(7)): on the wire, and for a receiver that doesn't [`coalesce`], nothing
//! is different. A capture on this host sees them before they are cut, as it does with TCP, so a bundle
//! looks like one long datagram there. Hence they are made only where it is worth it.
//!
//! [`coalesce`]: crate::datagrams::coalesce

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::datagrams::{BATCH_MAX, write_name};

/// Longest datagram that is bundled: what fits a link of the smallest MTU that IPv6 allows. A longer
/// one may have to be fragmented, which the kernel refuses to do with bundles.
const BUNDLED_BYTES_MAX: usize = 1_232;
/// Most bytes of a bundle: a little less than the longest datagram of IPv4.
const BUNDLE_BYTES_MAX: usize = 64_000;
/// `CMSG_SPACE(sizeof(uint16_t))`: a header of 16 bytes, and the length of a segment.
const CONTROL_BYTES: usize = 24;

/// What names datagrams of which none may overtake another.
pub type Flow = u32;

/// One datagram that waits.
#[derive(Debug, Clone, Copy)]
struct Item {
    start: usize,
    end: usize,
    flow: Flow,
    to: Option<SocketAddr>,
}

impl Item {
    fn length(&self) -> usize {
        self.end - self.start
    }
}

/// Datagrams that wait to be sent from one socket.
#[derive(Debug, Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    items: Vec<Item>,
    plan: Plan,
    /// The kernel knows how, and has not refused yet.
    can_bundle: bool,
    call: Call,
}

impl Outgoing {
    /// For datagrams of that socket.
    #[must_use]
    pub fn new(socket: BorrowedFd<'_>) -> Self {
        Self { can_bundle: knows_segments(socket), ..Self::default() }
    }

    /// Has `write` append one datagram, to go to `to`, or where the socket is connected to. Where it appends
    /// nothing, nothing is sent.
    pub fn push(&mut self, to: Option<SocketAddr>, flow: Flow, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        if self.bytes.len() > start {
            self.items.push(Item { start, end: self.bytes.len(), flow, to });
        }
    }

    /// Nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// As many wait as one call can send.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.items.len() >= BATCH_MAX
    }

    /// The datagrams that wait and where they go, in the order in which they came.
    pub fn waiting(&self) -> impl Iterator<Item = (Option<SocketAddr>, &[u8])> {
        self.items.iter().map(|item| (item.to, &self.bytes[item.start..item.end]))
    }

    /// Forgets what waits.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
    }

    /// Sends what waits, without waiting itself; in bundles where that is wanted and can be done. `refused` is
    /// told each error and how many datagrams were lost by it: 0 where it is about an earlier one
    /// (`ConnectionRefused`).
    pub fn flush(
        &mut self,
        socket: BorrowedFd<'_>,
        in_bundles: bool,
        mut refused: impl FnMut(&io::Error, usize),
    ) {
        let mut from = 0;
        while from < self.items.len() {
            let until = (from + BATCH_MAX).min(self.items.len());
            self.plan.make(&self.items[from..until], in_bundles && self.can_bundle);
            self.send_planned(socket, from, until, &mut refused);
            from = until;
        }
        self.clear();
    }

    fn send_planned(
        &mut self,
        socket: BorrowedFd<'_>,
        from: usize,
        until: usize,
        refused: &mut impl FnMut(&io::Error, usize),
    ) {
        let mut done = 0;
        while let Some(next) = self.plan.bundles.get(done).copied() {
            let sent = self.call.send(socket, &self.bytes, &self.items[from..until], &self.plan, done);
            let error = match sent {
                Ok(sent) => {
                    done += sent.max(1);
                    continue;
                }
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::ConnectionRefused => refused(&error, 0),
                // Where the way out can't cut bundles, nothing but bundles is refused.
                ErrorKind::WouldBlock => {
                    refused(&error, next.count);
                    done += 1;
                }
                _ if next.count > 1 => {
                    self.can_bundle = false;
                    self.plan.unbundle(done);
                }
                _ => {
                    refused(&error, 1);
                    done += 1;
                }
            }
        }
    }
}

/// Some datagrams that leave as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bundle {
    /// Place of the first in [`Plan::order`].
    first: usize,
    count: usize,
    /// Length of all but the last, which may be shorter.
    length: usize,
}

/// Which of some datagrams leave together, in which order.
#[derive(Debug, Default)]
struct Plan {
    /// Numbers of the datagrams.
    order: Vec<u8>,
    bundles: Vec<Bundle>,
    /// While they are gathered: the number of each datagram's bundle, and the bundles.
    chosen: Vec<u8>,
    open: Vec<Open>,
}

/// A bundle that more datagrams may join.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Number of its first datagram.
    leader: usize,
    count: usize,
    bytes: usize,
}

impl Plan {
    /// Plans at most [`BATCH_MAX`] datagrams.
    fn make(&mut self, items: &[Item], bundles: bool) {
        self.order.clear();
        self.bundles.clear();
        if !bundles {
            self.order.extend(0..items.len() as u8);
            let single = |(first, item): (usize, &Item)| Bundle { first, count: 1, length: item.length() };
            self.bundles.extend(items.iter().enumerate().map(single));
            return;
        }
        self.gather(items);
        for (number, open) in self.open.iter().enumerate() {
            let first = self.order.len();
            let members =
                self.chosen.iter().enumerate().filter(|(_, chosen)| usize::from(**chosen) == number);
            self.order.extend(members.map(|(at, _)| at as u8));
            self.bundles.push(Bundle { first, count: open.count, length: items[open.leader].length() });
        }
        self.join_single(items);
    }

    /// Puts each datagram into the first bundle of its length that doesn't have it overtake another of
    /// its flow.
    fn gather(&mut self, items: &[Item]) {
        self.chosen.clear();
        self.open.clear();
        for (at, item) in items.iter().enumerate() {
            let before = self.chosen.iter().zip(items).filter(|(_, other)| other.flow == item.flow);
            let earliest = before.map(|(chosen, _)| usize::from(*chosen)).max().unwrap_or(0);
            let length = item.length();
            let joins = |open: &Open| {
                let leader = &items[open.leader];
                leader.length() == length && leader.to == item.to && open.bytes + length <= BUNDLE_BYTES_MAX
            };
            let found = self.open[earliest..].iter().position(joins).filter(|_| length <= BUNDLED_BYTES_MAX);
            let number = match found {
                Some(found) => {
                    let open = &mut self.open[earliest + found];
                    open.count += 1;
                    open.bytes += length;
                    earliest + found
                }
                None => {
                    self.open.push(Open { leader: at, count: 1, bytes: length });
                    self.open.len() - 1
                }
            };
            self.chosen.push(number as u8);
        }
    }

    /// Has a datagram that is alone go as the last of the bundle before it, which may be a shorter one.
    fn join_single(&mut self, items: &[Item]) {
        let mut kept: usize = 0;
        for number in 1..self.bundles.len() {
            let (bundle, into) = (self.bundles[number], self.bundles[kept]);
            let item = |bundle: Bundle, at: usize| &items[usize::from(self.order[bundle.first + at])];
            let (leader, last, single) = (item(into, 0), item(into, into.count - 1), item(bundle, 0));
            let joins = bundle.count == 1
                && into.count < BATCH_MAX
                && leader.to == single.to
                && last.length() == into.length
                && bundle.length < into.length
                && into.length <= BUNDLED_BYTES_MAX
                && into.length * into.count + bundle.length <= BUNDLE_BYTES_MAX;
            if joins {
                self.bundles[kept].count += 1;
            } else {
                kept += 1;
                self.bundles[kept] = bundle;
            }
        }
        self.bundles.truncate(kept + 1);
    }

    /// Has what is in the bundles from that number on leave one by one.
    fn unbundle(&mut self, from: usize) {
        let rest = self.bundles.split_off(from);
        for bundle in rest {
            // Only the place counts of one that is alone.
            self.bundles.extend((0..bundle.count).map(|at| Bundle {
                first: bundle.first + at,
                count: 1,
                length: bundle.length,
            }));
        }
    }
}

/// Room for a control message with the length of segments; aligned as the kernel reads it.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

impl Control {
    fn of(length: u16) -> Self {
        let mut control = Self([0; CONTROL_BYTES]);
        // struct cmsghdr: length without padding (8 bytes), level, type (4 each).
        control.0[..8].copy_from_slice(&18_u64.to_ne_bytes());
        control.0[8..12].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
        control.0[12..16].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
        control.0[16..18].copy_from_slice(&length.to_ne_bytes());
        control
    }
}

/// What a call of sendmmsg(2) needs, kept for the next.
struct Call {
    names: Box<[libc::sockaddr_storage]>,
    pieces: Box<[libc::iovec]>,
    controls: Box<[Control]>,
    headers: Box<[libc::mmsghdr]>,
}

// SAFETY: the pointers in it are set anew before each use, within one call.
unsafe impl Send for Call {}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

impl Default for Call {
    fn default() -> Self {
        // SAFETY: all three are plain data, for which all zeros is a value.
        let (name, piece, header) = unsafe { (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed()) };
        Self {
            names: vec![name; BATCH_MAX].into_boxed_slice(),
            pieces: vec![piece; BATCH_MAX].into_boxed_slice(),
            controls: vec![Control([0; CONTROL_BYTES]); BATCH_MAX].into_boxed_slice(),
            headers: vec![header; BATCH_MAX].into_boxed_slice(),
        }
    }
}

impl Call {
    /// Sends the plan's bundles from that number on; how many of them the kernel took.
    fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        bytes: &[u8],
        items: &[Item],
        plan: &Plan,
        from: usize,
    ) -> io::Result<usize> {
        for (piece, at) in self.pieces.iter_mut().zip(&plan.order) {
            let item = &items[usize::from(*at)];
            let part = &bytes[item.start..item.end];
            // The kernel only reads from a piece that is sent.
            *piece = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
        }
        let bundles = &plan.bundles[from..];
        for (number, bundle) in bundles.iter().enumerate() {
            let header = &mut self.headers[number].msg_hdr;
            header.msg_iov = self.pieces[bundle.first..bundle.first + bundle.count].as_mut_ptr();
            header.msg_iovlen = bundle.count;
            let to = items[usize::from(plan.order[bundle.first])].to;
            (header.msg_name, header.msg_namelen) = match to {
                Some(to) => {
                    let name = &mut self.names[number];
                    ((&raw mut *name).cast(), write_name(to, name))
                }
                None => (std::ptr::null_mut(), 0),
            };
            (header.msg_control, header.msg_controllen) = if bundle.count > 1 {
                let control = &mut self.controls[number];
                // At most BUNDLED_BYTES_MAX.
                *control = Control::of(bundle.length as u16);
                ((&raw mut *control).cast(), CONTROL_BYTES)
            } else {
                (std::ptr::null_mut(), 0)
            };
        }
        // SAFETY: there are as many headers as said; they point to pieces of `bytes`, which lives through the
        // call, and to names and controls of this value or none; the kernel writes only lengths into them.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                bundles.len() as u32,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Whether the kernel cuts bundles apart (since Linux 4.18). One that doesn't know how would send them as
/// they are.
fn knows_segments(socket: BorrowedFd<'_>) -> bool {
    let mut size: libc::c_int = 0;
    let mut length = size_of_val(&size) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `size`, a plain number.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw mut size).cast(),
            &raw mut length,
        )
    };
    result == 0
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use proptest::prelude::*;

    use super::*;
    use crate::datagrams::{Inbox, coalesce};

    /// What the plan has leave together, as numbers of datagrams.
    fn bundles(plan: &Plan) -> Vec<Vec<u8>> {
        plan.bundles.iter().map(|b| plan.order[b.first..b.first + b.count].to_vec()).collect()
    }

    fn items(datagrams: &[(usize, Flow, u16)]) -> Vec<Item> {
        let mut start = 0;
        let item = |(length, flow, port): &(usize, Flow, u16)| {
            let to = (*port > 0).then(|| ([127, 0, 0, 1], *port).into());
            let item = Item { start, end: start + length, flow: *flow, to };
            start += length;
            item
        };
        datagrams.iter().map(item).collect()
    }

    fn plan(datagrams: &[(usize, Flow, u16)]) -> Plan {
        let mut plan = Plan::default();
        plan.make(&items(datagrams), true);
        plan
    }

    #[test]
    fn equals_leave_together_and_none_overtakes_its_own() {
        assert_eq!(bundles(&plan(&[(5, 0, 0), (9, 1, 0), (5, 2, 0), (9, 3, 0)])), [[0, 2], [1, 3]]);
        // Flow 2 has sent 9 bytes after flow 1: its 5 bytes may not go before them.
        assert_eq!(bundles(&plan(&[(5, 1, 0), (9, 2, 0), (9, 3, 0), (5, 2, 0)])), [vec![0], vec![1, 2, 3]]);
        assert_eq!(bundles(&plan(&[(5, 1, 7), (5, 2, 8), (5, 3, 7)])), [vec![0, 2], vec![1]]);
        // The last one of a bundle may be shorter, but not longer.
        assert_eq!(bundles(&plan(&[(9, 1, 0), (5, 1, 0), (7, 1, 0)])), [vec![0, 1], vec![2]]);
        assert_eq!(bundles(&plan(&[(2_000, 1, 0), (2_000, 2, 0), (5, 3, 0)])), [[0], [1], [2]]);
        let mut one = plan(&[(5, 1, 0), (5, 1, 0), (5, 1, 0)]);
        one.unbundle(0);
        assert_eq!(bundles(&one), [[0], [1], [2]]);
    }

    proptest! {
        #[test]
        fn a_plan_is_one_the_kernel_takes(
            datagrams in proptest::collection::vec((prop_oneof![1_usize..6, 1_200..1_300_usize], 0_u32..5, 0_u16..3), 0..BATCH_MAX),
        ) {
            let items = items(&datagrams);
            let plan = plan(&datagrams);
            let mut all = plan.order.clone();
            all.sort_unstable();
            prop_assert_eq!(all, (0..items.len() as u8).collect::<Vec<_>>());
            prop_assert_eq!(plan.bundles.iter().map(|b| b.count).sum::<usize>(), items.len());
            let mut first = 0;
            for bundle in &plan.bundles {
                prop_assert_eq!(bundle.first, first);
                first += bundle.count;
                let members: Vec<&Item> =
                    plan.order[bundle.first..first].iter().map(|at| &items[usize::from(*at)]).collect();
                let (last, others) = members.split_last().unwrap();
                prop_assert!(others.iter().all(|i| i.length() == bundle.length && i.to == last.to));
                prop_assert!(last.length() <= bundle.length);
                prop_assert!(bundle.count == 1 || bundle.length <= BUNDLED_BYTES_MAX);
                prop_assert!(members.iter().map(|i| i.length()).sum::<usize>() <= BUNDLE_BYTES_MAX);
            }
            for flow in 0..5 {
                let of = |at: &&u8| items[usize::from(**at)].flow == flow;
                let sent: Vec<u8> = plan.order.iter().filter(of).copied().collect();
                prop_assert!(sent.is_sorted(), "{:?}", sent);
            }
        }
    }

    #[test]
    fn datagrams_arrive_as_they_were_pushed() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiver.local_addr().unwrap();
        let mut outgoing = Outgoing::new(sender.as_fd());
        assert!(outgoing.can_bundle, "the tests' kernels are all new enough");
        let texts: Vec<String> = (0..200).map(|i| format!("{i}{}", "x".repeat(100 * (i % 3)))).collect();
        let all = |outgoing: &mut Outgoing, in_bundles| {
            for (flow, text) in texts.iter().enumerate() {
                outgoing.push(Some(to), flow as Flow, |out| out.extend_from_slice(text.as_bytes()));
            }
            assert!(outgoing.is_full() && outgoing.waiting().count() == texts.len());
            outgoing.flush(sender.as_fd(), in_bundles, |e, _| panic!("{e}"));
            assert!(outgoing.is_empty());
        };
        let mut inbox = Inbox::new(BATCH_MAX, 65_536);
        for (coalesces, in_bundles) in [(false, false), (false, true), (true, false), (true, true)] {
            if coalesces {
                coalesce(receiver.as_fd()).unwrap();
            }
            all(&mut outgoing, in_bundles);
            let (mut found, mut calls) = (Vec::new(), 0);
            while let Ok(count) = inbox.receive(receiver.as_fd()) {
                calls += count;
                for datagram in (0..count).filter_map(|i| inbox.get(i)) {
                    let size = inbox.segment(&datagram).unwrap_or(datagram.bytes.len().max(1));
                    found.extend(datagram.bytes.chunks(size).map(|c| String::from_utf8(c.to_vec()).unwrap()));
                }
            }
            assert_eq!(calls < texts.len() / 4, coalesces && in_bundles, "{calls}");
            let mut expected = texts.clone();
            expected.sort();
            found.sort();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_is_lost_is_told() {
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(nobody).unwrap();
        let mut outgoing = Outgoing::new(sender.as_fd());
        let (mut earlier, mut lost) = (0, 0);
        // One at a time: within one call the kernel keeps such errors to itself.
        for length in [10, 20, 30, 70_000] {
            outgoing.push(None, 0, |out| out.resize(out.len() + length, b'x'));
            outgoing.flush(sender.as_fd(), true, |e, count| match e.kind() {
                ErrorKind::ConnectionRefused => earlier += 1,
                _ => lost += count,
            });
        }
        // Each tells of the one before; the last is longer than any datagram.
        assert!(earlier >= 1 && lost == 1, "{earlier} {lost}");
    }
}
