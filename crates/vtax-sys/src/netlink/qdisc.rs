//! Requests about queueing disciplines: the rate limit of an interface, its delay and loss.

use std::time::Duration;

use vtax_units::BitRate;

use super::message::{NLM_F_CREATE, Request};

const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TCA_NETEM_LATENCY64: u16 = 10;
const TC_H_ROOT: u32 = 0xffff_ffff;
/// The handle that netem has as an interface's root, so that another can be put below it.
const NETEM: u32 = 0x0001_0000;
/// Its only class, whose discipline takes what was held back (netem_dequeue in the kernel's sch_netem.c).
const BELOW_NETEM: u32 = 0x0001_0001;
const LINKLAYER_ETHERNET: u8 = 1;
const NLM_F_REPLACE: u16 = 0x100;

/// A token bucket: limits what leaves an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tbf {
    /// Bytes per second, counted as the interface sees frames: without preamble, gap and checksum.
    pub rate_bytes: u64,
    /// Bytes that may leave at once after a pause.
    pub burst_bytes: u32,
    /// The longest a frame may wait before frames are dropped.
    pub latency: Duration,
}

/// Preamble, start of frame, checksum and gap: bytes on the wire that an interface doesn't count
/// (IEEE 802.3, clauses 3 and 4).
pub const WIRE_ONLY: f64 = 24.0;
/// Ethernet header, which it does count.
pub const ETHERNET_HEADER: f64 = 14.0;
/// Bytes that may leave at once, as time at the full rate. At 1 Gbit/s this is 128 KiB: a quarter
/// of it loses 10 % of TCP's goodput, as one 64 KiB segment no longer fits.
const BURST: Duration = Duration::from_micros(1065);
/// The longest a frame waits before frames are dropped, as on a switch port with a small buffer.
const QUEUE: Duration = Duration::from_millis(10);

impl Tbf {
    /// The token bucket that gives full-size frames of this MTU in bytes the rate they would have on an Ethernet;
    /// without a queue of its own, frames wait 10 ms at most.
    #[must_use]
    pub fn of_wire(rate: BitRate, mtu: u32, queue: Option<Duration>) -> Self {
        let wire_bytes = rate.0 as f64 / 8.0;
        let frame = f64::from(mtu) + ETHERNET_HEADER;
        let rate = wire_bytes * frame / (frame + WIRE_ONLY);
        let burst = (rate * BURST.as_secs_f64()).max(2.0 * frame);
        Self { rate_bytes: rate as u64, burst_bytes: burst as u32, latency: queue.unwrap_or(QUEUE) }
    }
}

/// `struct tcmsg`: family, index, handle, parent, info.
fn tcmsg(index: u32, handle: u32, parent: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&handle.to_ne_bytes());
    bytes[12..16].copy_from_slice(&parent.to_ne_bytes());
    bytes
}

/// A discipline in its place. One of the same kind that is there is changed, any other goes.
fn place(operation: &'static str, kind: &str, index: u32, handle: u32, parent: u32) -> Request {
    let object = format!("interface {index}");
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    Request::new(operation, object, RTM_NEWQDISC, flags, &tcmsg(index, handle, parent)).name(TCA_KIND, kind)
}

/// Limits the rate of an interface, in place of what its root was before.
#[must_use]
pub fn add_tbf(index: u32, tbf: &Tbf) -> Request {
    limit(index, tbf, TC_H_ROOT)
}

/// Limits the rate of an interface whose root [`add_netem`] made: what netem held back waits below it for its turn.
#[must_use]
pub fn add_tbf_below(index: u32, tbf: &Tbf) -> Request {
    limit(index, tbf, BELOW_NETEM)
}

fn limit(index: u32, tbf: &Tbf, parent: u32) -> Request {
    let queue = tbf.rate_bytes as f64 * tbf.latency.as_secs_f64();
    let limit = (queue as u64).saturating_add(tbf.burst_bytes.into());
    // struct tc_tbf_qopt: rate and peak rate (struct tc_ratespec: cell_log, linklayer, overhead,
    // cell_align, mpu, rate), limit, buffer, mtu. The link layer tells the kernel not to want the
    // rate tables of old; the buffer comes as TCA_TBF_BURST, in bytes instead of ticks.
    let mut parameters = [0_u8; 36];
    parameters[1] = LINKLAYER_ETHERNET;
    let rate32 = u32::try_from(tbf.rate_bytes).unwrap_or(u32::MAX);
    parameters[8..12].copy_from_slice(&rate32.to_ne_bytes());
    parameters[24..28].copy_from_slice(&u32::try_from(limit).unwrap_or(u32::MAX).to_ne_bytes());
    let request = place("limit the rate of", "tbf", index, 0, parent);
    request.needs("token bucket filter (module sch_tbf)").nest(TCA_OPTIONS, &[], |options| {
        let mut options = options.attribute(TCA_TBF_PARMS, &parameters).u32(TCA_TBF_BURST, tbf.burst_bytes);
        if tbf.rate_bytes > u64::from(u32::MAX) {
            options = options.u64(TCA_TBF_RATE64, tbf.rate_bytes);
        }
        options
    })
}

/// Has an interface drop everything that would leave it, without a sign to anybody: a queue with no room, which
/// every kernel has. It takes the place of what its root was before, a rate limit included.
#[must_use]
pub fn add_black_hole(index: u32) -> Request {
    // struct tc_fifo_qopt: how many packets may wait.
    place("silence", "pfifo", index, 0, TC_H_ROOT).attribute(TCA_OPTIONS, &0_u32.to_ne_bytes())
}

/// A wire that is long or loses packets: what netem does to those that leave an interface. It takes segments of up to
/// 64 KiB for packets where they come as such.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Netem {
    /// Time that each is held back.
    pub delay: Duration,
    /// Share, 0 to 1, that is lost, each independently of the others.
    pub loss: f64,
    /// Bytes per second of the limit below it ([`add_tbf_below`]), by which its room is reckoned; `None`: there is none.
    pub rate_bytes: Option<u64>,
}

/// Packets that may wait in netem where there is no rate: 1 Gbit/s of full ones for a quarter of a second.
const NETEM_ROOM: u32 = 20_000;
/// The least and the most room where there is one; full frames of the most are 1.5 GB.
const ROOM: [f64; 2] = [1_000.0, 1_000_000.0];
/// Bytes of the smallest frames that an Ethernet has, without checksum (IEEE 802.3).
const LEAST_FRAME: f64 = 60.0;

impl Netem {
    /// Packets that may wait, however small they are: its room is told in packets, and those that it holds back count.
    fn room(&self) -> u32 {
        match self.rate_bytes {
            None => NETEM_ROOM,
            // None waits in netem itself. Kernels before 6.13 count what the limit below made of a large segment and never forget
            // it, so that any number would be reached once (f8d4bc455047).
            Some(_) if self.delay.is_zero() => u32::MAX,
            Some(rate) => {
                let bytes = rate as f64 * (self.delay + QUEUE).as_secs_f64();
                (bytes / LEAST_FRAME).clamp(ROOM[0], ROOM[1]) as u32
            }
        }
    }
}

/// Has an interface hold back and lose what leaves it, in place of what its root was before. Where that was this already, a limit
/// below it stays.
#[must_use]
pub fn add_netem(index: u32, netem: &Netem) -> Request {
    // struct tc_netem_qopt: latency, limit in packets, loss as a part of 2^32, gap, duplicate, jitter.
    let mut options = [0_u8; 24];
    options[4..8].copy_from_slice(&netem.room().to_ne_bytes());
    let loss = (netem.loss.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32;
    options[8..12].copy_from_slice(&loss.to_ne_bytes());
    let delay = u64::try_from(netem.delay.as_nanos()).unwrap_or(u64::MAX);
    let request = place("hold back and lose packets of", "netem", index, NETEM, TC_H_ROOT);
    let request = request.needs("netem (module sch_netem)");
    request.nest(TCA_OPTIONS, &options, |options| options.u64(TCA_NETEM_LATENCY64, delay))
}

/// Takes the rate limit off an interface.
#[must_use]
pub fn delete_root_qdisc(index: u32) -> Request {
    let object = format!("interface {index}");
    Request::new("take the queueing discipline off", object, RTM_DELQDISC, 0, &tcmsg(index, 0, TC_H_ROOT))
}

#[cfg(test)]
mod tests {
    use super::super::message::{attributes, messages, u32_at};
    use super::*;

    /// Handle, parent, kind and options of a request.
    fn parts(mut request: Request) -> (u32, u32, Vec<u8>, Vec<u8>) {
        request.seal(1, 0);
        let message = messages(&request.bytes).next().unwrap();
        let of = |kind| attributes(&message.payload[20..]).find(|(k, _)| *k == kind).unwrap().1.to_vec();
        (u32_at(message.payload, 8), u32_at(message.payload, 12), of(TCA_KIND), of(TCA_OPTIONS))
    }

    #[test]
    fn a_rate_is_limited_below_what_is_held_back() {
        let tbf = Tbf::of_wire(BitRate(10_000_000), 1500, None);
        let netem = Netem { delay: Duration::from_millis(50), loss: 0.5, rate_bytes: Some(tbf.rate_bytes) };
        let (handle, parent, kind, options) = parts(add_netem(7, &netem));
        assert_eq!((handle, parent, kind.as_slice()), (NETEM, TC_H_ROOT, &b"netem\0"[..]));
        assert_eq!(u32_at(&options, 4), netem.room());
        assert_eq!(u32_at(&options, 8), u32::MAX / 2);
        let beside: Vec<_> = attributes(&options[24..]).collect();
        assert_eq!(beside, [(TCA_NETEM_LATENCY64, &50_000_000_u64.to_ne_bytes()[..])], "and no rate");
        let (_, parent, kind, below) = parts(add_tbf_below(7, &tbf));
        assert_eq!((parent, kind.as_slice()), (BELOW_NETEM, &b"tbf\0"[..]));
        let (_, parent, _, alone) = parts(add_tbf(7, &tbf));
        assert_eq!((parent, alone), (TC_H_ROOT, below));
    }

    #[test]
    fn room_is_for_the_smallest_packets() {
        let room = |milliseconds, rate_bytes| {
            Netem { delay: Duration::from_millis(milliseconds), loss: 0.0, rate_bytes }.room()
        };
        // 10 Mbit/s for 60 ms in frames of 60 bytes: 20,000 a second get through.
        assert_eq!(room(50, Some(1_250_000)), 1_250);
        assert_eq!(room(1, Some(1_000)), 1_000, "what netem has by itself");
        assert_eq!(room(2_000, Some(12_500_000_000)), 1_000_000);
        assert_eq!((room(0, Some(1_250_000)), room(50, None)), (u32::MAX, NETEM_ROOM));
    }
}
