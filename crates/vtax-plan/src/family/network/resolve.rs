//! Network tests: their server, the tests of a trial, their measure.

use std::collections::BTreeMap;

use vtax_units::{Bytes, Nanos, Rate};

use super::limits;
use super::model::{
    Cut, Direction, NetworkMeasure, NetworkTest, NetworkTestKind, NetworkWorkload, PeerOptions, PingTest,
    Probe, RrTest, SocketOptions, TcpTest, UdpTest, VoiceLaw, VoiceTest,
};
use super::raw::{NetworkRaw, PeerRaw, PingRaw, RrRaw, TcpRaw, UdpRaw, VoiceRaw, WindowRaw};
use crate::decode::{Item, Many};
use crate::diagnose::{Report, shorten};
use crate::model::{Measure, MeasureKind, Service, ServiceKind, Workload};
use crate::raw::WorkloadRaw;
use crate::resolve::check::{
    LONGEST, SHORTEST_STEP, check_name, check_port, counts_in, duration_in, name_or,
};
use crate::resolve::variants::{Variants, service, slug};
use crate::source::{Span, Spanned};

/// More tests of one trial than this are taken for a slip.
const MOST_TESTS: usize = 200;
/// The network server where the plan names no service.
pub(crate) fn default_peer() -> Service {
    Service {
        name: "peer".to_owned(),
        kind: ServiceKind::Peer(PeerOptions { port: 5202 }),
        ready_timeout: Nanos::from_secs(30),
        stop_timeout: Nanos::from_secs(5),
    }
}

/// The network server.
pub(crate) fn peer(raw: &PeerRaw, report: &mut Report) -> Variants<Service> {
    let kind = ServiceKind::Peer(PeerOptions { port: check_port(&raw.port, report) });
    Variants::of(service(kind, raw.name.as_ref(), (&raw.ready_timeout, &raw.stop_timeout), report))
}

/// All tests as the one workload that they are together.
pub(crate) fn workload(raw: &Many<WorkloadRaw>, report: &mut Report) -> Variants<Workload> {
    let mut tests: Vec<NetworkTest> = Vec::new();
    let mut spans: Vec<Span> = Vec::new();
    for item in &raw.items {
        let (name, variants) = match &item.value {
            WorkloadRaw::Tcp(raw) => (&raw.name, tcp(raw, report)),
            WorkloadRaw::Udp(raw) => (&raw.name, udp(raw, report)),
            WorkloadRaw::Ping(raw) => (&raw.name, ping(raw, report)),
            WorkloadRaw::Rr(raw) => (&raw.name, rr(raw, report)),
            WorkloadRaw::Voice(raw) => (&raw.name, voice(raw, report)),
            // Those of other families have been reported.
            _ => continue,
        };
        let Some(first) = variants.0.first() else { continue };
        let (warmup, duration) = own_times(&item.value);
        let warmup = warmup.map(|w| duration_in(w, "warmup", Nanos::ZERO, LONGEST, report));
        let duration = duration.map(|d| duration_in(d, "duration", SHORTEST_STEP, LONGEST, report));
        let name = name_or(name.as_ref(), first.value.name(), report);
        for variant in &variants.0 {
            let mut full = name.clone();
            for (key, value) in &variant.parameters {
                full.push_str(&format!(".{key}-{}", slug(value)));
            }
            if let Some(other) = tests.iter().position(|test| test.name == full) {
                report
                    .error(item.span, format!("test `{full}` is in the plan twice"))
                    .help(format!("give this one a `name` of its own, such as `{name}-2`"))
                    .first_at(spans[other]);
                break;
            }
            let parameters: BTreeMap<String, String> =
                variant.parameters.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
            tests.push(NetworkTest { name: full, parameters, kind: variant.value.clone(), warmup, duration });
            spans.push(item.span);
        }
    }
    if let Some(span) = spans.get(MOST_TESTS) {
        report.error(*span, format!("the workload has {} tests, at most {MOST_TESTS}", tests.len()));
        tests.truncate(MOST_TESTS);
    }
    Variants::of(Workload::Network(NetworkWorkload { tests }))
}

/// The times that a test has of its own: warm-up and what counts.
fn own_times(raw: &WorkloadRaw) -> (Option<&Spanned<Nanos>>, Option<&Spanned<Nanos>>) {
    match raw {
        WorkloadRaw::Tcp(raw) => (raw.warmup.as_ref(), raw.duration.as_ref()),
        WorkloadRaw::Udp(raw) => (raw.warmup.as_ref(), raw.duration.as_ref()),
        WorkloadRaw::Ping(raw) => (raw.warmup.as_ref(), raw.duration.as_ref()),
        WorkloadRaw::Rr(raw) => (raw.warmup.as_ref(), raw.duration.as_ref()),
        WorkloadRaw::Voice(raw) => (raw.warmup.as_ref(), raw.duration.as_ref()),
        _ => (None, None),
    }
}

fn tcp(raw: &TcpRaw, report: &mut Report) -> Variants<NetworkTestKind> {
    counts_in(&raw.streams.value, "bytes need a connection", limits::STREAMS, report);
    check_socket(&raw.window.value, &raw.congestion.value, report);
    for mss in raw.mss.iter().flat_map(|m| &m.value.items) {
        within(mss.value, limits::SEGMENT, mss.span, "mss", report);
    }
    size_in(raw.bytes.as_ref(), "bytes", Bytes(u64::MAX), report);
    size_in(Some(&raw.block), "block", limits::BLOCK, report);
    let test = TcpTest {
        streams: 1,
        direction: Direction::Up,
        socket: SocketOptions { no_delay: raw.no_delay.value, ..SocketOptions::default() },
        bytes: raw.bytes.as_ref().map(|b| b.value),
        block: raw.block.value,
        copy: raw.copy.value,
    };
    Variants::of(test)
        .vary("streams", &raw.streams.value, report, |t, streams| t.streams = streams)
        .vary("direction", &raw.direction.value, report, |t, direction| t.direction = direction.0)
        .vary("congestion", &raw.congestion.value, report, |t, name| t.socket.congestion = algorithm(name))
        .vary_if("mss", raw.mss.as_ref(), report, |t, mss| t.socket.mss = Some(mss))
        .vary("window", &raw.window.value, report, |t, window| t.socket.window = window.0)
        .map(NetworkTestKind::Tcp)
}

fn udp(raw: &UdpRaw, report: &mut Report) -> Variants<NetworkTestKind> {
    for item in &raw.direction.value.items {
        if item.value.0 == Direction::Both {
            report
                .error(item.span, "UDP goes `up` or `down`: of both at once, none would be at its rate")
                .help("write `direction: [up, down]` for one test of each");
        }
    }
    let (slowest, fastest) = limits::RATE;
    for item in &raw.rate.value.items {
        if item.value.0.is_some_and(|rate| !(slowest..=fastest).contains(&rate)) {
            report.error(item.span, format!("a rate is {slowest} to {fastest}, or `max`"));
        }
    }
    sizes_in(&raw.size.value, report);
    size_in(raw.buffer.as_ref(), "buffer", limits::WINDOW, report);
    let buffer = raw.buffer.as_ref().map(|b| b.value);
    Variants::of(UdpTest { rate: None, size: limits::DATAGRAM.0, direction: Direction::Up, buffer })
        .vary("rate", &raw.rate.value, report, |t, rate| t.rate = rate.0)
        .vary("size", &raw.size.value, report, |t, size| t.size = size)
        .vary("direction", &raw.direction.value, report, |t, direction| t.direction = direction.0)
        .map(NetworkTestKind::Udp)
}

fn ping(raw: &PingRaw, report: &mut Report) -> Variants<NetworkTestKind> {
    for item in &raw.rate.value.items {
        if !(item.value.0 > 0.0 && item.value <= limits::PINGS) {
            report.error(item.span, format!("a rate is above 0/s and at most {}", limits::PINGS));
        }
    }
    sizes_in(&raw.size.value, report);
    let timeout = duration_in(&raw.timeout, "timeout", limits::TIMEOUT.0, limits::TIMEOUT.1, report);
    let arrivals = raw.arrivals.value.0;
    Variants::of(PingTest {
        probe: Probe::Icmp,
        rate: Rate(1.0),
        arrivals,
        size: limits::DATAGRAM.0,
        timeout,
    })
    .vary("probe", &raw.probe.value, report, |t, probe| t.probe = probe.0)
    .vary("rate", &raw.rate.value, report, |t, rate| t.rate = rate)
    .vary("size", &raw.size.value, report, |t, size| t.size = size)
    .map(NetworkTestKind::Ping)
}

fn rr(raw: &RrRaw, report: &mut Report) -> Variants<NetworkTestKind> {
    counts_in(&raw.streams.value, "transactions need a connection", limits::STREAMS, report);
    counts_in(&raw.request.value, "a request has at least one byte", limits::MESSAGE, report);
    counts_in(&raw.response.value, "a response has at least one byte", limits::MESSAGE, report);
    check_socket(&raw.window.value, &raw.congestion.value, report);
    Variants::of(RrTest { streams: 1, request: 1, response: 1, socket: SocketOptions::default() })
        .vary("streams", &raw.streams.value, report, |t, streams| t.streams = streams)
        .vary("request", &raw.request.value, report, |t, request| t.request = request)
        .vary("response", &raw.response.value, report, |t, response| t.response = response)
        .vary("congestion", &raw.congestion.value, report, |t, name| t.socket.congestion = algorithm(name))
        .vary("window", &raw.window.value, report, |t, window| t.socket.window = window.0)
        .map(NetworkTestKind::Rr)
}

fn voice(raw: &VoiceRaw, report: &mut Report) -> Variants<NetworkTestKind> {
    counts_in(&raw.streams.value, "voice needs a stream", limits::VOICE_STREAMS, report);
    for item in &raw.packet.value.items {
        check_packet(item.value, item.span, report);
    }
    for item in &raw.jitter_buffer.value.items {
        check_buffer(item.value, item.span, report);
    }
    if let Some(duration) = &raw.duration {
        duration_in(duration, "duration", limits::VOICE_TIME, LONGEST, report);
    }
    let packet = limits::VOICE_PACKETS[0];
    let bundled = raw.bundled.value;
    Variants::of(VoiceTest { streams: 1, packet, law: VoiceLaw::Mu, jitter_buffer: packet, bundled })
        .vary("codec", &raw.codec.value, report, |t, codec| t.law = codec.0)
        .vary("packet", &raw.packet.value, report, |t, packet| t.packet = packet)
        .vary("jitter_buffer", &raw.jitter_buffer.value, report, |t, buffer| t.jitter_buffer = buffer)
        .vary("streams", &raw.streams.value, report, |t, streams| t.streams = streams)
        .map(NetworkTestKind::Voice)
}

/// Reports packets of voice that there are none of.
pub(crate) fn check_packet(packet: Nanos, span: Span, report: &mut Report) {
    if !limits::VOICE_PACKETS.contains(&packet) {
        report
            .error(span, format!("a packet of voice has no {packet} of sound"))
            .help("write 10ms, 20ms, 30ms or 40ms");
    }
}

/// Reports a jitter buffer that is too long.
pub(crate) fn check_buffer(buffer: Nanos, span: Span, report: &mut Report) {
    if buffer > limits::JITTER_BUFFER {
        report.error(span, format!("`jitter_buffer` is at most {}", limits::JITTER_BUFFER));
    }
}

/// A congestion control by name; `default` is each kernel's own.
fn algorithm(name: String) -> Option<String> {
    (name != "default").then_some(name)
}

fn check_socket(windows: &Many<WindowRaw>, algorithms: &Many<String>, report: &mut Report) {
    for item in &windows.items {
        size_in(
            item.value.0.map(|value| Spanned { value, span: item.span }).as_ref(),
            "window",
            limits::WINDOW,
            report,
        );
    }
    for item in &algorithms.items {
        // The kernel's names have at most 15 characters; nothing else is passed on to a module loader.
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
        if item.value.is_empty() || item.value.len() > limits::CONGESTION || !item.value.chars().all(fits) {
            report
                .error(item.span, format!("`{}` is no congestion control", shorten(&item.value)))
                .help("write the kernel's name of one, such as `cubic`, `reno` or `bbr`, or `default`");
        }
    }
}

fn size_in(size: Option<&Spanned<Bytes>>, key: &str, most: Bytes, report: &mut Report) {
    if let Some(size) = size.filter(|size| size.value == Bytes(0) || size.value > most) {
        report.error(size.span, format!("`{key}` is at least 1B and at most {most}"));
    }
}

fn sizes_in(sizes: &Many<u32>, report: &mut Report) {
    for Item { value, span, .. } in &sizes.items {
        within(*value, limits::DATAGRAM, *span, "size", report);
    }
}

fn within(value: u32, (least, most): (u32, u32), span: Span, key: &str, report: &mut Report) {
    if !(least..=most).contains(&value) {
        report.error(span, format!("`{key}` is {least} to {most} bytes, not {value}"));
    }
}

pub(crate) fn measure(
    raw: &NetworkRaw,
    workload: Option<&Many<WorkloadRaw>>,
    report: &mut Report,
) -> Measure {
    duration_in(&raw.warmup, "warmup", Nanos::ZERO, LONGEST, report);
    let is_voice = |item: &Item<WorkloadRaw>| {
        matches!(item.value, WorkloadRaw::Voice(_)) && own_times(&item.value).1.is_none()
    };
    let of_voice = workload.is_some_and(|w| w.items.iter().any(is_voice));
    let least = if of_voice { limits::VOICE_TIME } else { SHORTEST_STEP };
    let duration = duration_in(&raw.duration, "duration", least, LONGEST, report);
    let cut = raw.cut.as_ref().and_then(|cut| {
        let raw = &cut.value;
        let at = raw.at.as_ref()?;
        let of_tests = workload.into_iter().flat_map(|w| &w.items).map(|item| own_times(&item.value).1);
        let (own, others): (Vec<_>, Vec<_>) = of_tests.partition(Option::is_some);
        for own in own.into_iter().flatten().filter(|own| at.value >= own.value) {
            report
                .error(own.span, format!("the path is cut after {}, when this test is over", at.value))
                .help("`cut.at` is from the start of the counted time of each test");
        }
        if at.value >= duration && !others.is_empty() {
            report
                .error(at.span, format!("the path would be cut after the test, which counts for {duration}"))
                .help("`at` is from the start of the counted time of each test");
        }
        if let Some(lasting) = &raw.lasting {
            duration_in(lasting, "lasting", Nanos::from_millis(1), LONGEST, report);
        }
        Some(Cut { at: at.value, lasting: raw.lasting.as_ref().map(|l| l.value) })
    });
    let name = raw.name.as_ref().map_or_else(|| "network".into(), |n| check_name(n, report));
    let kind = NetworkMeasure { warmup: raw.warmup.value, duration, capture: raw.capture.value, cut };
    Measure { name, kind: MeasureKind::Network(kind) }
}
