//! How a link behaves: rate, queue, MTU and offloads.

use std::time::Duration;

use vtax_plan::model::NetPath;
use vtax_sys::netlink::{ETHERNET_HEADER, Tbf, WIRE_ONLY};
use vtax_units::BitRate;

/// Headers of IPv4 and TCP with timestamps.
const IP_AND_TCP: f64 = 20.0 + 32.0;
/// Headers of IPv4 and UDP.
const IP_AND_UDP: f64 = 20.0 + 8.0;

/// How a link behaves, the same in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkProperties {
    /// MTU of both ends in bytes.
    pub mtu: u32,
    /// Rate of the emulated link, preamble and gaps included; `None`: as fast as the host can.
    pub rate: Option<BitRate>,
    /// The longest a frame waits at a port with a rate; `None`: 10 ms.
    pub queue: Option<Duration>,
    /// Whether segmentation and checksums may be left to others.
    pub offloads: bool,
}

impl Default for LinkProperties {
    fn default() -> Self {
        Self { mtu: 1500, rate: None, queue: None, offloads: true }
    }
}

impl LinkProperties {
    /// How the links of a path behave.
    #[must_use]
    pub fn of(path: &NetPath) -> Self {
        Self {
            mtu: path.mtu,
            rate: path.rate,
            queue: path.queue.map(Duration::from),
            offloads: path.offloads,
        }
    }

    /// The properties without a limit of the rate.
    #[must_use]
    pub const fn unlimited(self) -> Self {
        Self { rate: None, queue: None, ..self }
    }

    /// Goodput of TCP over this link in bits per second: what is left of the rate beside preamble, gap,
    /// Ethernet, IP and TCP headers with timestamps (RFC 7323), in segments of full size.
    #[must_use]
    pub fn tcp_goodput(&self) -> Option<f64> {
        self.payload_rate(IP_AND_TCP)
    }

    /// Goodput of UDP in datagrams of full size.
    #[must_use]
    pub fn udp_goodput(&self) -> Option<f64> {
        self.payload_rate(IP_AND_UDP)
    }

    fn payload_rate(&self, headers: f64) -> Option<f64> {
        let mtu = f64::from(self.mtu);
        Some(self.rate?.0 as f64 * (mtu - headers) / (mtu + ETHERNET_HEADER + WIRE_ONLY))
    }

    /// The token bucket that gives full-size frames the rate they would have on the wire.
    #[must_use]
    pub fn tbf(&self) -> Option<Tbf> {
        Some(Tbf::of_wire(self.rate?, self.mtu, self.queue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigabit_is_what_a_gigabit_wire_carries() {
        let tbf =
            LinkProperties { rate: Some(BitRate(1_000_000_000)), ..LinkProperties::default() }.tbf().unwrap();
        assert_eq!(tbf.rate_bytes * 8 / 1000, 984_395);
        assert!((130_000..132_000).contains(&tbf.burst_bytes), "{tbf:?}");
        assert!(LinkProperties::default().tbf().is_none());
    }

    #[test]
    fn a_gigabit_carries_its_known_goodput() {
        let gigabit = LinkProperties { rate: Some(BitRate(1_000_000_000)), ..LinkProperties::default() };
        assert_eq!((gigabit.tcp_goodput().unwrap() / 1e6).round(), 941.0);
        assert_eq!((gigabit.udp_goodput().unwrap() / 1e6).round(), 957.0);
        assert!(LinkProperties::default().tcp_goodput().is_none());
    }

    #[test]
    fn slow_links_still_pass_whole_frames() {
        let tbf =
            LinkProperties { rate: Some(BitRate(1_000_000)), ..LinkProperties::default() }.tbf().unwrap();
        assert!(tbf.burst_bytes >= 3000);
    }
}
