//! Requests about queueing disciplines: the rate limit of an interface.

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
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
const TCA_NETEM_LATENCY64: u16 = 10;
const TC_H_ROOT: u32 = 0xffff_ffff;
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

fn root(operation: &'static str, index: u32, kind: &str) -> Request {
    let object = format!("interface {index}");
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    Request::new(operation, object, RTM_NEWQDISC, flags, &tcmsg(index, 0, TC_H_ROOT)).name(TCA_KIND, kind)
}

/// Limits the rate of an interface, in place of what its root was before.
#[must_use]
pub fn add_tbf(index: u32, tbf: &Tbf) -> Request {
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
    root("limit the rate of", index, "tbf").needs("token bucket filter (module sch_tbf)").nest(
        TCA_OPTIONS,
        &[],
        |options| {
            let mut options =
                options.attribute(TCA_TBF_PARMS, &parameters).u32(TCA_TBF_BURST, tbf.burst_bytes);
            if tbf.rate_bytes > u64::from(u32::MAX) {
                options = options.u64(TCA_TBF_RATE64, tbf.rate_bytes);
            }
            options
        },
    )
}

/// Has an interface drop everything that would leave it, without a sign to anybody: a queue with no room, which
/// every kernel has. It takes the place of what its root was before, a rate limit included.
#[must_use]
pub fn add_black_hole(index: u32) -> Request {
    // struct tc_fifo_qopt: how many packets may wait.
    root("silence", index, "pfifo").attribute(TCA_OPTIONS, &0_u32.to_ne_bytes())
}

/// A wire that is long, slow or loses packets: what netem does to those that leave an interface. It takes segments of
/// up to 64 KiB for packets where they come as such.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Netem {
    /// Time that each is held back.
    pub delay: Duration,
    /// Share, 0 to 1, that is lost, each independently of the others.
    pub loss: f64,
    /// Bytes per second, counted as the interface sees frames; `None`: unlimited.
    pub rate_bytes: Option<u64>,
}

/// Packets that may wait in netem without a rate: 1 Gbit/s of full ones for a quarter of a second.
const NETEM_ROOM: u32 = 20_000;
/// Bytes of the frames by which room is reckoned where there is a rate.
const FULL_FRAME: f64 = 1514.0;

impl Netem {
    /// Packets that may wait: those that are held back, and those of 10 ms beside them.
    fn room(&self) -> u32 {
        let Some(rate) = self.rate_bytes else { return NETEM_ROOM };
        let bytes = rate as f64 * (self.delay + QUEUE).as_secs_f64();
        (bytes / FULL_FRAME).clamp(16.0, f64::from(NETEM_ROOM)) as u32
    }
}

/// Has an interface hold back, lose and slow down what leaves it, in place of what its root was before.
#[must_use]
pub fn add_netem(index: u32, netem: &Netem) -> Request {
    // struct tc_netem_qopt: latency, limit in packets, loss as a part of 2^32, gap, duplicate, jitter.
    let mut options = [0_u8; 24];
    options[4..8].copy_from_slice(&netem.room().to_ne_bytes());
    let loss = (netem.loss.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32;
    options[8..12].copy_from_slice(&loss.to_ne_bytes());
    let delay = u64::try_from(netem.delay.as_nanos()).unwrap_or(u64::MAX);
    root("hold back and lose packets of", index, "netem").needs("netem (module sch_netem)").nest(
        TCA_OPTIONS,
        &options,
        |options| {
            let options = options.u64(TCA_NETEM_LATENCY64, delay);
            let Some(rate) = netem.rate_bytes else { return options };
            // struct tc_netem_rate: rate, bytes more of each packet, cells of ATM.
            let mut slow = [0_u8; 16];
            slow[..4].copy_from_slice(&u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
            let options = options.attribute(TCA_NETEM_RATE, &slow);
            if rate > u64::from(u32::MAX) { options.u64(TCA_NETEM_RATE64, rate) } else { options }
        },
    )
}

/// Takes the rate limit off an interface.
#[must_use]
pub fn delete_root_qdisc(index: u32) -> Request {
    let object = format!("interface {index}");
    Request::new("take the queueing discipline off", object, RTM_DELQDISC, 0, &tcmsg(index, 0, TC_H_ROOT))
}
