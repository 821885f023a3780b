//! Proof of an emulated link: what a path's rate, delay and loss really are, measured before it is
//! used, by the same instrument that will measure over it.
//!
//! Two empty namespaces are joined as the client and the system under test will be, less the switches
//! under study, which are not the link. Properties that were proved once in a run are not measured again in it.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use vtax_load::network::{
    Direction, NetworkResult, NetworkSpec, NetworkTestKind, PingTest, Probe, ServerOptions, SocketOptions,
    TcpTest, UdpResult, UdpTest, run, serve,
};
use vtax_load::{ArrivalProcess, Control};
use vtax_plan::model::NetPath;
use vtax_probe::noise::{Disturbance, StealWatch};
use vtax_sys::sync::joined;
use vtax_sys::{NetNs, SysError, chain};
use vtax_units::{BitRate, Bytes, CpuSet, Nanos, Rate, fact};

use super::{Emulation, LinkEmulator, LinkProperties};
use crate::error::{LabError, Result, While};
use crate::fabric::Fabric;
use crate::naming::{PREFIX, address};

/// How far a measured figure may be from the one asked for.
const TOLERANCE: f64 = 0.02;
/// Delays that differ by less can't be told from the time it takes a thread to wake.
const DELAY_TOLERANCE: Nanos = Nanos(100_000);
/// A busy host spoils a measurement and never makes it better than the truth: the best of a few counts. Only a delay can come out too
/// short: what the path takes without it is measured and taken off.
const ATTEMPTS: usize = 4;
/// How long a link that seems too slow, or its delay too short, is measured again: a machine whose CPUs are taken away gets them back.
const PATIENCE: Duration = Duration::from_secs(15);
/// Port of the instrument's server.
const PORT: u16 = 5202;
/// Datagrams of full size, by the time that they take on a link, of the warm-up and of what counts. A link that was idle passes
/// two frames at once, which must be over before it is counted.
const WARMING: f64 = 6.0;
const COUNTED: f64 = 8.0;
/// What a datagram may take on a link for that to be done in reasonable time, in seconds: one of 1500 bytes takes so long at
/// 6 kbit/s. Over a slower link fewer datagrams are counted, and the proof may refuse it.
const MOST_EACH: f64 = 2.0;
/// From here on, in seconds a datagram, a tenth too much would fill the queue too late.
const SLOW: f64 = 0.002;

/// What was measured; facts of every trial on such a path.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Proof {
    /// Goodput asked for and measured, in bits per second.
    rate: Option<[f64; 2]>,
    /// How far chance alone may take that rate from what was asked, as a share of it: which of few datagrams are lost. 0 where
    /// the link loses none.
    chance: f64,
    /// One-way delay asked for and measured.
    delay: Option<[Nanos; 2]>,
    /// Share lost asked for and measured, and the packets it is of.
    loss: Option<([f64; 2], u64)>,
}

/// What makes two emulated links the same.
#[derive(Debug, Clone, PartialEq)]
struct Key {
    properties: LinkProperties,
    delay: Nanos,
    loss: f64,
}

impl Key {
    fn of(path: &NetPath) -> Self {
        Self { properties: LinkProperties::of(path), delay: path.delay, loss: path.loss.0 }
    }
}

/// The emulated links that were proved so far, in this run.
#[derive(Debug, Default)]
pub(crate) struct Proofs(Vec<(Key, Proof)>);

impl Proofs {
    /// The proof of an equal link.
    pub(crate) fn find(&self, path: &NetPath) -> Option<&Proof> {
        let key = Key::of(path);
        self.0.iter().find(|(known, _)| *known == key).map(|(_, proof)| proof)
    }

    pub(crate) fn add(&mut self, path: &NetPath, proof: Proof) {
        self.0.push((Key::of(path), proof));
    }
}

impl Proof {
    pub(crate) fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = BTreeMap::new();
        let mut add = |what: &str, asked: String, measured: String| {
            facts.insert(fact::asked(what), asked);
            facts.insert(fact::proved(what), measured);
        };
        if let Some([asked, measured]) = self.rate {
            add(fact::PROOF_GOODPUT, format!("{asked:.0}"), format!("{measured:.0}"));
        }
        if let Some([asked, measured]) = self.delay {
            add(fact::PROOF_DELAY, asked.0.to_string(), measured.0.to_string());
        }
        if let Some(([asked, measured], packets)) = self.loss {
            add(fact::PROOF_LOSS, asked.to_string(), format!("{measured:.6}"));
            facts.insert(fact::proved("loss_packets"), packets.to_string());
        }
        facts
    }

    /// How far the rate may be from what was asked, as a share of it.
    fn rate_tolerance(&self) -> f64 {
        TOLERANCE + self.chance
    }

    /// Whether it carried too little or took too long, as any link does on a machine that is busy.
    fn is_slow(&self) -> bool {
        let least = 1.0 - self.rate_tolerance();
        let little = self.rate.is_some_and(|[asked, measured]| measured < asked * least);
        little || self.delay.is_some_and(|[asked, measured]| measured.saturating_sub(asked) > DELAY_TOLERANCE)
    }

    /// Whether its delay seems too short: the machine may have been busy while what the path takes anyway was measured.
    fn seems_short(&self) -> bool {
        self.delay.is_some_and(|[asked, measured]| asked.saturating_sub(measured) > delay_tolerance(asked))
    }

    /// Whether what it carried too little may be what a hypervisor took of the CPUs, as a share: enough to be beyond
    /// the tolerance, and not a link that carries next to nothing of what it should.
    fn may_be_due_to(&self, stolen: f64) -> bool {
        let carries = self.rate.map_or(1.0, |[asked, measured]| measured / asked);
        self.is_slow() && stolen > TOLERANCE && carries > (1.0 - stolen) / 4.0
    }

    /// What is not as asked for.
    fn objection(&self) -> Option<String> {
        let is_off = |[asked, measured]: &[f64; 2]| (measured / asked - 1.0).abs() > self.rate_tolerance();
        if let Some([asked, measured]) = self.rate.filter(is_off) {
            return Some(format!(
                "its rate should carry {:.4} Mbit/s of payload and carries {:.4}",
                asked / 1e6,
                measured / 1e6
            ));
        }
        if let Some([asked, measured]) = self.delay
            && asked.0.abs_diff(measured.0) > delay_tolerance(asked).0
        {
            return Some(format!("its delay should be {asked} each way and is {measured}"));
        }
        if let Some(([asked, measured], packets)) = self.loss {
            let error = (asked * (1.0 - asked) / packets.max(1) as f64).sqrt();
            if (measured - asked).abs() > (asked * TOLERANCE).max(3.0 * error) {
                return Some(format!(
                    "it should lose {:.4} % and lost {:.4} % of {packets} packets",
                    asked * 100.0,
                    measured * 100.0
                ));
            }
        }
        None
    }
}

/// How far a measured delay may be from the one asked for.
fn delay_tolerance(asked: Nanos) -> Nanos {
    Nanos((asked.0 as f64 * TOLERANCE) as u64).max(DELAY_TOLERANCE)
}

/// Measures a path's emulated link.
///
/// # Errors
///
/// [`LabError::PathRefused`] with what was asked for and what was measured; [`LabError::PathDisturbed`]
/// where it seems too slow on CPUs that were taken away meanwhile.
pub(crate) fn prove(path: &NetPath, fabric: Fabric, cpus: [&CpuSet; 2]) -> Result<Proof> {
    let bench = Bench::build(path, fabric, cpus)?;
    // `None` where the host doesn't tell.
    let mut steal = StealWatch::start(CpuSet::of(cpus.iter().flat_map(|c| c.iter()))).ok();
    let until = Instant::now() + PATIENCE;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let proof =
            bench.measure(path).map_err(|e| refusal(path, format!("it could not be measured: {e}"), None))?;
        let Some(reason) = proof.objection() else { return Ok(proof) };
        if attempts < ATTEMPTS || ((proof.is_slow() || proof.seems_short()) && Instant::now() < until) {
            continue;
        }
        let noise = steal.as_mut().and_then(|watch| watch.so_far().ok());
        let noise = noise.filter(|noise| proof.may_be_due_to(noise.steal));
        return Err(refusal(path, reason, noise.as_ref()));
    }
}

/// Why a path can't be used: the machine's trouble, where there was enough to explain it, or the link.
fn refusal(path: &NetPath, reason: String, noise: Option<&Disturbance>) -> LabError {
    let path = path.name.clone();
    match noise {
        Some(noise) => LabError::PathDisturbed { path, noise: noise.reasons.join("; "), reason },
        None => LabError::PathRefused { path, reason },
    }
}

/// How datagrams are sent to measure something.
#[derive(Debug, Clone, Copy)]
struct Course {
    rate: BitRate,
    /// Time at the start that isn't counted.
    warmup: Nanos,
    /// Time that is.
    duration: Nanos,
}

/// Seconds that a datagram takes on a link of this goodput in bits per second, at most [`MOST_EACH`].
fn each(goodput: f64, size: u32) -> f64 {
    (f64::from(size) * 8.0 / goodput.max(1.0)).min(MOST_EACH)
}

/// Seconds that are counted of datagrams that take so long.
fn counted(each: f64) -> f64 {
    (COUNTED * each).max(0.3)
}

impl Course {
    /// What shows that a link has this goodput in bits per second, by datagrams of this size in bytes: more than it carries, so
    /// that its queue is full and what comes out is its rate. A slow link's first two frames weigh much: it is offered half too
    /// much, any other a tenth.
    fn of(goodput: f64, size: u32, loss: f64) -> Self {
        let each = each(goodput, size);
        let more = if each > SLOW { 1.5 } else { 1.1 };
        Self {
            rate: BitRate((goodput * more / (1.0 - loss)) as u64),
            warmup: Nanos::from_secs_f64((WARMING * each).max(0.05)),
            duration: Nanos::from_secs_f64(counted(each)),
        }
    }
}

/// Bits per second of what came in, by when it came in. How many found room in a full queue just before the end is no part of it:
/// of few datagrams that is one in eight.
fn arrived(found: &UdpResult) -> f64 {
    found.receiver.bytes as f64 * 8.0 / found.receiver.time.as_secs_f64().max(1e-9)
}

/// How far chance alone may take the rate of what arrives: three standard deviations of how many datagrams of full size come
/// through.
fn chance(goodput: f64, path: &NetPath) -> f64 {
    let (each, loss) = (each(goodput, path.mtu - 28), path.loss.0);
    let datagrams = (counted(each) / each.max(1e-9)).max(1.0);
    3.0 * (loss / ((1.0 - loss) * datagrams)).sqrt()
}

/// Two namespaces with the emulated link between them.
struct Bench<'a> {
    ends: [NetNs; 2],
    target: SocketAddr,
    emulator: Option<LinkEmulator>,
    cpus: [&'a CpuSet; 2],
    properties: LinkProperties,
    _fabric: Fabric,
}

impl<'a> Bench<'a> {
    fn build(path: &NetPath, mut fabric: Fabric, cpus: [&'a CpuSet; 2]) -> Result<Self> {
        let what = || "prepare an emulated link's proof".to_owned();
        let properties = LinkProperties::of(path);
        let ends = [NetNs::create().during(what)?, NetNs::create().during(what)?];
        let mut near = fabric.add_switch(properties.mtu)?;
        let place = |number: u16| (address(number), PREFIX);
        // From the end of the lab's network, where no node is.
        let numbers = [u16::MAX - 2, u16::MAX - 1];
        fabric.plug_namespace(&ends[0], "eth0", &mut near, properties, place(numbers[0]))?;
        let emulator = if let Some(spec) = Emulation::of(path) {
            let mut far = fabric.add_switch(properties.mtu)?;
            fabric.plug_namespace(&ends[1], "eth0", &mut far, properties, place(numbers[1]))?;
            let taps = fabric.taps([&mut near, &mut far], properties, spec.loss == 0.0)?;
            fabric.start(&far)?;
            Some(LinkEmulator::start(taps.map(|(tap, _)| tap), spec, cpus[0])?)
        } else {
            fabric.plug_namespace(&ends[1], "eth0", &mut near, properties, place(numbers[1]))?;
            None
        };
        fabric.start(&near)?;
        let target = SocketAddr::new(address(numbers[1]), PORT);
        Ok(Self { ends, target, emulator, cpus, properties, _fabric: fabric })
    }

    fn measure(&self, path: &NetPath) -> Result<Proof, String> {
        let stop = AtomicBool::new(false);
        let [near, far] = &self.ends;
        let target = self.target;
        // Where the threads can't be bound they may get in each other's way. Then the link shows less than it can do, and is refused
        // with what it showed.
        let serving = || {
            let _ = vtax_sys::sched::bind_this_thread(self.cpus[1]);
            let listener =
                TcpListener::bind(target).map_err(|e| SysError::call("listen on", target.to_string(), e))?;
            // What ends a test early is told at the other end.
            let _ = serve(&listener, ServerOptions { tests: 2 }, &stop);
            Ok(())
        };
        thread::scope(|scope| {
            let server = scope.spawn(|| far.run(serving));
            let client = near.run(|| {
                let _ = vtax_sys::sched::bind_this_thread(self.cpus[0]);
                Ok(self.figures(path))
            });
            stop.store(true, Ordering::Relaxed);
            joined(server).map_err(|e| chain(&e))?;
            client.map_err(|e| chain(&e))?
        })
    }

    /// On a thread in the client's namespace.
    fn figures(&self, path: &NetPath) -> Result<Proof, String> {
        let mut proof = Proof::default();
        if let Some(emulator) = self.emulator.as_ref().filter(|_| path.delay > Nanos::ZERO) {
            // What the path takes anyway is no part of the delay.
            emulator.set_delay(Nanos::ZERO);
            let base = self.round_trip(Nanos::ZERO)?;
            emulator.set_delay(path.delay);
            let whole = self.round_trip(path.delay)?;
            proof.delay = Some([path.delay, Nanos(whole.0.saturating_sub(base.0) / 2)]);
        }
        if path.loss.0 > 0.0 {
            proof.loss = Some(self.lost(path)?);
        }
        if let Some(rate) = path.rate {
            proof.rate = Some(self.rate(path, rate)?);
            proof.chance = chance(self.properties.udp_goodput().unwrap_or_default(), path);
        }
        Ok(proof)
    }

    fn test(&self, test: NetworkTestKind, warmup: Nanos, duration: Nanos) -> Result<NetworkResult, String> {
        let spec = NetworkSpec { target: self.target, test, seed: 1, warmup, duration, interval: duration };
        // The server may be just starting.
        let until = std::time::Instant::now() + Duration::from_secs(5);
        loop {
            match run(&spec, &Control::default(), &|_| {}) {
                Ok(result) => return Ok(result),
                Err(e @ vtax_load::network::NetworkError::Connect { .. })
                    if std::time::Instant::now() > until =>
                {
                    return Err(chain(&e));
                }
                Err(vtax_load::network::NetworkError::Connect { .. }) => {
                    thread::sleep(Duration::from_millis(5))
                }
                Err(e) => return Err(chain(&e)),
            }
        }
    }

    /// The median round-trip time of ICMP echo.
    fn round_trip(&self, delay: Nanos) -> Result<Nanos, String> {
        let ping = PingTest {
            probe: Probe::Icmp,
            rate: Rate(500.0),
            arrivals: ArrivalProcess::Constant,
            size: 56,
            timeout: Nanos(1_000_000_000 + 2 * delay.0),
        };
        match self.test(NetworkTestKind::Ping(ping), Nanos::from_millis(20), Nanos::from_millis(120))? {
            NetworkResult::Ping(found) if found.answered > 0 => Ok(found.rtt.quantile(0.5)),
            _ => Err("no echo came back".to_owned()),
        }
    }

    fn datagrams(&self, size: u32, course: Course) -> Result<UdpResult, String> {
        let buffer = Some(Bytes::from_mib(4));
        let test = UdpTest { rate: Some(course.rate), size, direction: Direction::Up, buffer };
        match self.test(NetworkTestKind::Udp(test), course.warmup, course.duration)? {
            NetworkResult::Udp(found) => Ok(found),
            _ => Err("the instrument gave another test's result".to_owned()),
        }
    }

    /// Share lost of small datagrams, of which a slow link carries enough.
    fn lost(&self, path: &NetPath) -> Result<([f64; 2], u64), String> {
        const SIZE: u32 = 64;
        /// On the wire: the payload, and headers, preamble and gap of UDP over Ethernet.
        const ON_WIRE: f64 = SIZE as f64 + 28.0 + 38.0;
        let most = path.rate.map_or(f64::INFINITY, |rate| rate.0 as f64 / 8.0 / ON_WIRE / 2.0);
        let packets = most.min(20_000.0);
        let rate = BitRate((packets * f64::from(SIZE) * 8.0).max(8.0) as u64);
        let course = Course { rate, warmup: Nanos::from_millis(50), duration: Nanos::from_millis(400) };
        let found = self.datagrams(SIZE, course)?;
        // What the receiver had no room for isn't the link's loss.
        let lost = found.sender.sent.saturating_sub(found.receiver.received + found.receiver.no_room);
        let sent = found.sender.sent;
        Ok(([path.loss.0, lost as f64 / sent.max(1) as f64], sent))
    }

    /// Goodput asked for and measured.
    fn rate(&self, path: &NetPath, rate: BitRate) -> Result<[f64; 2], String> {
        let unsteady = path.loss.0 > 0.0 || path.delay > Nanos::from_millis(1);
        if unsteady || rate < BitRate(400_000_000) {
            // TCP would take long to find the rate, and so many datagrams every host can send.
            let asked = self.properties.udp_goodput().unwrap_or_default();
            let size = path.mtu - 28;
            let found = self.datagrams(size, Course::of(asked, size, path.loss.0))?;
            return Ok([asked * (1.0 - path.loss.0), arrived(&found)]);
        }
        let asked = self.properties.tcp_goodput().unwrap_or_default();
        let test = TcpTest {
            streams: 1,
            direction: Direction::Up,
            socket: SocketOptions::default(),
            bytes: None,
            block: Bytes(128 << 10),
            copy: false,
        };
        match self.test(NetworkTestKind::Tcp(test), Nanos::from_millis(100), Nanos::from_millis(300))? {
            NetworkResult::Tcp(found) => Ok([asked, found.up.map_or(0.0, |flow| flow.goodput())]),
            _ => Err("the instrument gave another test's result".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use vtax_plan::model::PathKind;

    use super::*;

    fn proof(rate: Option<[f64; 2]>, delay: Option<[u64; 2]>, loss: Option<([f64; 2], u64)>) -> Proof {
        Proof { rate, chance: 0.0, delay: delay.map(|d| d.map(Nanos)), loss }
    }

    /// Goodput that a link with a token bucket shows where datagrams are sent on such a course, as a share of its own.
    fn shown(rate: u64, mtu: u32) -> f64 {
        let properties = LinkProperties { mtu, rate: Some(BitRate(rate)), ..LinkProperties::default() };
        let (bucket, asked) = (properties.tbf().unwrap(), properties.udp_goodput().unwrap());
        let size = mtu - 28;
        let Course { rate, warmup, duration } = Course::of(asked, size, 0.0);
        let gap = f64::from(size) * 8.0 / rate.0 as f64;
        let (bytes, frame) = (bucket.rate_bytes as f64, f64::from(mtu) + 14.0);
        let burst = f64::from(bucket.burst_bytes);
        let room = bytes * bucket.latency.as_secs_f64() + burst;
        // Bytes that may leave now, below zero what is promised to those that wait.
        let (mut tokens, mut last) = (burst, 0.0);
        let mut left: Vec<f64> = Vec::new();
        for number in 0..((warmup.as_secs_f64() + duration.as_secs_f64()) / gap) as u64 {
            let now = number as f64 * gap;
            tokens = (tokens + (now - last) * bytes).min(burst);
            last = now;
            if frame - tokens <= room {
                tokens -= frame;
                if now >= warmup.as_secs_f64() {
                    left.push(now + (-tokens).max(0.0) / bytes);
                }
            }
        }
        let gaps = (left.len() - 1) as f64;
        gaps * f64::from(size) * 8.0 / (left[left.len() - 1] - left[0]) / asked
    }

    #[test]
    fn a_link_of_any_rate_shows_its_rate() {
        for mtu in [576, 1500, 9000] {
            for rate in [8_000, 64_000, 256_000, 1_000_000, 6_000_000, 20_000_000, 399_000_000] {
                // A datagram takes longer than there is time for.
                if mtu == 9000 && rate == 8_000 {
                    continue;
                }
                let shown = shown(rate, mtu);
                assert!((shown - 1.0).abs() < TOLERANCE, "{rate} bit/s at {mtu} bytes: {shown}");
            }
        }
    }

    #[test]
    fn a_proof_of_a_slow_link_lasts_for_a_dozen_datagrams_and_ends() {
        let course = |goodput| Course::of(goodput, 1472, 0.0);
        let fast = course(95.7e6);
        assert_eq!((fast.warmup, fast.duration), (Nanos::from_millis(50), Nanos::from_millis(300)));
        assert_eq!(fast.rate, BitRate(105_270_000));
        // 46 ms each.
        let slow = course(256_000.0);
        assert_eq!((slow.warmup, slow.duration), (Nanos::from_millis(276), Nanos::from_millis(368)));
        assert_eq!(slow.rate, BitRate(384_000));
        let never = Course::of(7_900.0, 65_507, 0.0);
        assert!(never.warmup.0 + never.duration.0 <= Nanos::from_secs(28).0, "{never:?}");
        assert_eq!(Course::of(1e6, 1472, 0.5).rate, BitRate(3_000_000), "half of it is lost");
    }

    #[test]
    fn a_rate_is_judged_by_what_so_few_datagrams_can_tell() {
        let path = |loss| NetPath { loss: vtax_units::Share(loss), ..NetPath::new("slow", PathKind::Bridge) };
        assert_eq!(chance(256_000.0, &path(0.0)), 0.0);
        // Eight datagrams, of which one is lost or none, and two thousand.
        let few = chance(256_000.0, &path(0.02));
        assert!((0.14..0.16).contains(&few), "{few}");
        assert!(chance(95.7e6, &path(0.02)) < 0.01);
        let off = proof(Some([250e3, 222e3]), None, None);
        assert!(off.is_slow() && off.objection().is_some());
        let by_chance = Proof { chance: few, ..off };
        assert!(!by_chance.is_slow());
        assert_eq!(by_chance.objection(), None);
    }

    #[test]
    fn two_per_cent_pass_and_more_is_told() {
        assert_eq!(proof(Some([941e6, 925e6]), None, None).objection(), None);
        let slow = proof(Some([941e6, 900e6]), None, None).objection().unwrap();
        assert!(slow.contains("941.0000") && slow.contains("900.0000"), "{slow}");
        assert!(proof(Some([941e6, 965e6]), None, None).objection().is_some(), "nor too fast");
        assert_eq!(proof(None, Some([20_000_000, 20_390_000]), None).objection(), None);
        assert!(proof(None, Some([20_000_000, 20_410_000]), None).objection().is_some());
        assert_eq!(proof(None, Some([1_000_000, 1_090_000]), None).objection(), None);
    }

    #[test]
    fn a_link_is_not_blamed_for_what_a_hypervisor_took() {
        let slow = proof(Some([941e6, 900e6]), None, None);
        assert!(slow.may_be_due_to(0.3) && !slow.may_be_due_to(0.01));
        assert!(!proof(Some([941e6, 965e6]), None, None).may_be_due_to(0.3), "CPUs are taken, never given");
        assert!(!proof(Some([9.4e12, 1e10]), None, None).may_be_due_to(0.3), "nor takes a thousandfold");
        assert!(proof(None, Some([1_000_000, 3_000_000]), None).may_be_due_to(0.3));
        let path = NetPath::new("gigabit", PathKind::Bridge);
        let noise = Disturbance { reasons: vec!["30 % taken".into()], ..Disturbance::default() };
        assert!(matches!(refusal(&path, "carries 900".into(), None), LabError::PathRefused { .. }));
        let disturbed = refusal(&path, "carries 900".into(), Some(&noise));
        assert!(matches!(disturbed, LabError::PathDisturbed { .. }), "{disturbed}");
        let text = disturbed.to_string();
        assert!(text.contains("30 % taken") && text.contains("carries 900"), "{text}");
    }

    #[test]
    fn loss_is_judged_by_what_so_many_packets_can_tell() {
        assert_eq!(proof(None, None, Some(([0.01, 0.0115], 8_000))).objection(), None);
        assert!(proof(None, None, Some(([0.01, 0.02], 8_000))).objection().is_some());
        assert!(proof(None, None, Some(([0.01, 0.0], 8_000))).objection().is_some(), "it must lose some");
        assert!(proof(None, None, Some(([0.1, 0.103], 10_000_000))).objection().is_some());
    }
}
