//! What network tests print.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Context;
use serde::Serialize;
use vtax_load::LatencyHistogram;
use vtax_load::network::{
    ConnectionFacts, Live, NetworkResult, NetworkSpec, NetworkTestKind, PingResult, RrResult, TcpFlow,
    TcpResult, UdpResult, VoiceDirection, VoiceEnd, VoiceResult,
};
use vtax_units::Nanos;

use crate::cmd::load::end::LoadEnd;
use crate::exit::Failure;
use crate::out;

const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// Prints a line of output; a reader that has gone away is no error.
pub(super) fn line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints a line of progress.
pub(super) fn live(spec: &NetworkSpec, live: &Live) {
    let seconds = live.seconds.max(1e-9);
    let rate = bits(live.bytes as f64 * 8.0 / seconds);
    let events = live.events as f64 / seconds;
    let rtt = live.rtt.map(|rtt| format!("  mean {}", time(rtt))).unwrap_or_default();
    let what = match spec.test {
        NetworkTestKind::Tcp(_) => rate,
        NetworkTestKind::Udp(_) => format!("{rate}  {events:.0} datagrams/s"),
        NetworkTestKind::Rr(_) => format!("{events:.0} transactions/s{rtt}"),
        NetworkTestKind::Ping(_) => format!("{events:.0} answers/s{rtt}"),
        NetworkTestKind::Voice(_) => format!("{events:.0} packets/s came"),
    };
    let warm = if live.at_seconds <= 0.0 { "  (warm-up)" } else { "" };
    let at = live.at_seconds + spec.warmup.as_secs_f64();
    let _ = writeln!(std::io::stderr(), "{at:>6.1} s  {what}{warm}");
}

/// Prints the result for people.
pub(super) fn text(test: &NetworkTestKind, result: &NetworkResult, end: &LoadEnd) -> Result<(), Failure> {
    let mut text = String::new();
    let written = match result {
        NetworkResult::Tcp(result) => tcp(&mut text, result),
        NetworkResult::Udp(datagrams) => {
            // Where it is this end that couldn't send, the last line says so.
            let far_end = datagrams.sender.limited.as_deref().filter(|_| result.doubt(test).is_none());
            udp(&mut text, datagrams, far_end)
        }
        NetworkResult::Rr(result) => rr(&mut text, result),
        NetworkResult::Ping(result) => ping(&mut text, result),
        NetworkResult::Voice(result) => voice(&mut text, result),
    };
    written.context("writing the result")?;
    out::text(&(text + &end.lines()))
}

fn tcp(out: &mut String, result: &TcpResult) -> std::fmt::Result {
    for (name, flow) in [("up", &result.up), ("down", &result.down)] {
        let Some(flow) = flow else { continue };
        writeln!(
            out,
            "{name}: {} goodput, {} in {}",
            bits(flow.goodput()),
            bytes(flow.receiver.counted_bytes),
            seconds(flow.receiver.counted_time)
        )?;
        // The kernel and the scheduler count from the first byte on, not from where counting begins.
        let again = |c: &ConnectionFacts| u64::from(c.retransmissions);
        writeln!(
            out,
            "  with warm-up     {}, {} segments sent again; CPU {} sender, {} receiver: {} for each second of it",
            bytes(flow.receiver.total_bytes),
            flow.sender.connections.iter().map(again).sum::<u64>(),
            seconds(flow.sender.cpu.total()),
            seconds(flow.receiver.cpu.total()),
            amount(bits_by_cpu(flow))
        )?;
        for (number, (from, to)) in flow.sender.connections.iter().zip(&flow.receiver.connections).enumerate()
        {
            writeln!(
                out,
                "  connection {number}     {}, MSS {}, RTT {}, buffers: {} to send, {} to receive",
                from.congestion,
                from.mss,
                time(from.rtt),
                bytes(from.send_buffer),
                bytes(to.receive_buffer)
            )?;
        }
        if flow.disagreement.is_none() {
            writeln!(out, "  check            programs and kernels of both ends agree")?;
        }
    }
    Ok(())
}

/// Bits of the whole transfer for each second of both ends' CPU.
fn bits_by_cpu(flow: &TcpFlow) -> f64 {
    let cpu = flow.sender.cpu.total().as_secs_f64() + flow.receiver.cpu.total().as_secs_f64();
    flow.receiver.total_bytes as f64 * 8.0 / cpu.max(1e-9)
}

/// `far_end`: why that couldn't send at the rate, where it couldn't.
fn udp(out: &mut String, result: &UdpResult, far_end: Option<&str>) -> std::fmt::Result {
    let (sender, receiver) = (&result.sender, &result.receiver);
    writeln!(
        out,
        "{} of {} datagrams received, {:.3} % lost; {}",
        receiver.received,
        sender.sent,
        result.loss() * 100.0,
        bits(result.goodput())
    )?;
    writeln!(out, "  reordered        {}", receiver.reordered)?;
    writeln!(out, "  duplicates       {}", receiver.duplicates)?;
    writeln!(out, "  no room          {} of the lost: the receiving socket dropped them", receiver.no_room)?;
    // It takes two to differ; and without a rate, that many leave and arrive together makes them.
    let none = receiver.received < 2 || sender.lateness.is_empty();
    let jitter = |of: Nanos| if none { "-".to_owned() } else { time(of) };
    writeln!(
        out,
        "  jitter           {} at the end, {} on average",
        jitter(receiver.jitter),
        jitter(receiver.jitter_mean)
    )?;
    if !sender.lateness.is_empty() {
        writeln!(out, "  sent late by     {}", quantiles(&sender.lateness))?;
    }
    if let Some(why) = far_end {
        writeln!(out, "  far end          {why}")?;
    }
    let each = |cpu: Nanos, count: u64| match count {
        0 => "-".to_owned(),
        count => time(Nanos(cpu.0 / count)),
    };
    let (sends, receives) =
        (each(sender.cpu.total(), sender.total), each(receiver.cpu.total(), receiver.total));
    writeln!(out, "  CPU              {sends} to send one, {receives} to receive one")
}

fn rr(out: &mut String, result: &RrResult) -> std::fmt::Result {
    let rate = result.transactions as f64 / result.time.as_secs_f64().max(1e-9);
    writeln!(out, "{rate:.0} transactions/s, {} in {}", result.transactions, seconds(result.time))?;
    writeln!(out, "  latency          {}", quantiles(&result.latency))?;
    let (client, server) = (seconds(result.client_cpu.total()), seconds(result.server_cpu.total()));
    writeln!(out, "  CPU              {client} client, {server} server, warm-up included")
}

fn ping(out: &mut String, result: &PingResult) -> std::fmt::Result {
    let lost = result.intended.saturating_sub(result.answered);
    let share = lost as f64 / result.intended.max(1) as f64 * 100.0;
    writeln!(out, "{} of {} probes answered, {share:.3} % lost", result.answered, result.intended)?;
    writeln!(out, "  round trip       {}", quantiles(&result.rtt))?;
    writeln!(out, "  from intended    {}", quantiles(&result.latency))?;
    writeln!(out, "  sent late by     {}", quantiles(&result.lateness))?;
    if result.duplicates > 0 {
        writeln!(out, "  duplicates       {}", result.duplicates)?;
    }
    Ok(())
}

fn voice(out: &mut String, result: &VoiceResult) -> std::fmt::Result {
    writeln!(out, "{} streams each way, {}", result.streams, seconds(result.time))?;
    voice_way(out, "up", &result.up)?;
    voice_way(out, "down", &result.down)?;
    writeln!(out, "round trip         {}", quantiles(&result.round_trip))?;
    for (name, end) in [("client", &result.client), ("server", &result.server)] {
        writeln!(out, "{name}")?;
        writeln!(out, "  sent late by     {}", quantiles(&end.lateness))?;
        if end.refused > 0 {
            writeln!(out, "  refused          {} packets, by its own kernel", end.refused)?;
        }
        writeln!(out, "  CPU              {} to send one and hear one", voice_cpu(end))?;
    }
    Ok(())
}

fn voice_way(out: &mut String, name: &str, way: &VoiceDirection) -> std::fmt::Result {
    let packets = &way.packets;
    let share = |of: u64| of as f64 / packets.intended.max(1) as f64 * 100.0;
    writeln!(
        out,
        "{name}: {} of {} packets came, {:.3} % lost, {:.3} % late",
        packets.received,
        packets.intended,
        share(packets.lost()),
        share(packets.late)
    )?;
    writeln!(
        out,
        "  disorder         {} reordered, {} duplicates, {} damaged, {} dropped for want of room",
        packets.reordered, packets.duplicates, packets.damaged, packets.no_room
    )?;
    let at = |quantile| time(way.jitter.quantile(quantile));
    writeln!(
        out,
        "  jitter           p50 {}  p99 {} of the streams at their end, {} the highest",
        at(0.5),
        at(0.99),
        time(way.jitter_max.max())
    )?;
    let rating = &way.rating;
    writeln!(
        out,
        "  estimate         R {:.1}, MOS {:.2}; the worst stream {:.1}, {:.2} (G.107, {} from mouth to ear)",
        rating.mean,
        rating.mos,
        rating.worst,
        rating.mos_worst,
        time(rating.delay)
    )
}

/// CPU time to send a packet and hear another.
fn voice_cpu(end: &VoiceEnd) -> String {
    let pairs = end.total_sent.saturating_add(end.total_received) / 2;
    match pairs {
        0 => "-".to_owned(),
        pairs => time(Nanos(end.cpu.total().0 / pairs)),
    }
}

fn quantiles(histogram: &LatencyHistogram) -> String {
    if histogram.is_empty() {
        return "-".to_owned();
    }
    let each = QUANTILES.map(|(name, q)| format!("{name} {}", time(histogram.quantile(q))));
    each.join("  ")
}

/// The result with the figures a script wants without decoding histograms.
#[derive(Serialize)]
struct Report<'a> {
    host: &'a str,
    spec: &'a NetworkSpec,
    #[serde(flatten)]
    end: &'a LoadEnd,
    figures: Figures,
    /// `None` where the test was interrupted before anything was measured.
    result: Option<&'a NetworkResult>,
}

#[derive(Default, Serialize)]
struct Figures {
    #[serde(skip_serializing_if = "Option::is_none")]
    up_bits_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    down_bits_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bits_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mos: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unheard: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ns: Option<Vec<(&'static str, u64)>>,
}

impl Figures {
    fn of(result: &NetworkResult) -> Self {
        let ns = |h: &LatencyHistogram| {
            (!h.is_empty()).then(|| QUANTILES.map(|(name, q)| (name, h.quantile(q).0)).to_vec())
        };
        match result {
            NetworkResult::Tcp(tcp) => Self {
                up_bits_per_second: tcp.up.as_ref().map(TcpFlow::goodput),
                down_bits_per_second: tcp.down.as_ref().map(TcpFlow::goodput),
                ..Self::default()
            },
            NetworkResult::Udp(udp) => {
                Self { bits_per_second: Some(udp.goodput()), loss: Some(udp.loss()), ..Self::default() }
            }
            NetworkResult::Rr(rr) => Self {
                per_second: Some(rr.transactions as f64 / rr.time.as_secs_f64().max(1e-9)),
                latency_ns: ns(&rr.latency),
                ..Self::default()
            },
            NetworkResult::Ping(ping) => Self { latency_ns: ns(&ping.rtt), ..Self::default() },
            NetworkResult::Voice(voice) => Self {
                loss: Some(voice.loss()),
                unheard: Some(voice.unheard()),
                jitter_ns: Some(voice.jitter().0),
                mos: Some(voice.mos()),
                latency_ns: ns(&voice.round_trip),
                ..Self::default()
            },
        }
    }
}

/// Prints the result for programs.
pub(super) fn json(
    host: &str,
    spec: &NetworkSpec,
    result: Option<&NetworkResult>,
    end: &LoadEnd,
) -> Result<(), Failure> {
    let figures = result.map(Figures::of).unwrap_or_default();
    out::json(&Report { host, spec, end, figures, result })
}

fn bits(per_second: f64) -> String {
    amount(per_second) + "/s"
}

fn amount(bits: f64) -> String {
    let (figure, unit) = match bits {
        b if b >= 1e9 => (b / 1e9, "Gbit"),
        b if b >= 1e6 => (b / 1e6, "Mbit"),
        b if b >= 1e3 => (b / 1e3, "kbit"),
        b => (b, "bit"),
    };
    format!("{figure:.3} {unit}")
}

fn bytes(count: u64) -> String {
    let (figure, unit) = match count as f64 {
        c if c >= 1_073_741_824.0 => (c / 1_073_741_824.0, "GiB"),
        c if c >= 1_048_576.0 => (c / 1_048_576.0, "MiB"),
        c if c >= 1_024.0 => (c / 1_024.0, "KiB"),
        c => return format!("{c} B"),
    };
    format!("{figure:.1} {unit}")
}

fn time(nanos: Nanos) -> String {
    match nanos.0 as f64 {
        n if n >= 1e9 => format!("{:.2} s", n / 1e9),
        n if n >= 1e6 => format!("{:.2} ms", n / 1e6),
        n if n >= 1e3 => format!("{:.1} us", n / 1e3),
        n => format!("{n} ns"),
    }
}

fn seconds(nanos: Nanos) -> String {
    format!("{:.2} s", nanos.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use vtax_load::network::{NetworkCpu, TcpSide, UdpReceiver, UdpSender};

    use super::*;

    /// A transfer of four seconds, of which one counts.
    #[test]
    fn bytes_beside_cpu_time_are_those_of_the_whole_transfer() {
        let cpu = |ms| NetworkCpu { user: Nanos::ZERO, system: Nanos::from_millis(ms) };
        let connection = ConnectionFacts { retransmissions: 7, ..ConnectionFacts::default() };
        let side = |ms| TcpSide {
            total_bytes: 4_000_000_000,
            counted_bytes: 1_000_000_000,
            counted_time: Nanos::from_secs(1),
            cpu: cpu(ms),
            connections: vec![connection.clone()],
            ..TcpSide::default()
        };
        let flow = TcpFlow { sender: side(500), receiver: side(1_500), disagreement: None };
        let mut text = String::new();
        tcp(&mut text, &TcpResult { up: Some(flow), down: None }).unwrap();
        assert!(text.starts_with("up: 8.000 Gbit/s goodput, 953.7 MiB in 1.00 s\n"), "{text}");
        // 32 Gbit took two seconds of CPU.
        let whole = "with warm-up     3.7 GiB, 7 segments sent again; CPU 0.50 s sender, 1.50 s receiver: \
                     16.000 Gbit for each second of it";
        assert!(text.contains(whole), "{text}");
    }

    #[test]
    fn what_found_no_room_is_told_as_part_of_what_is_lost() {
        let result = UdpResult {
            sender: UdpSender { sent: 100, time: Nanos::from_secs(1), ..UdpSender::default() },
            receiver: UdpReceiver { received: 60, no_room: 30, ..UdpReceiver::default() },
        };
        let mut text = String::new();
        udp(&mut text, &result, Some("so slow")).unwrap();
        assert!(text.starts_with("60 of 100 datagrams received, 40.000 % lost"), "{text}");
        assert!(text.contains("no room          30 of the lost"), "{text}");
        assert!(text.contains("far end          so slow\n"), "{text}");
    }

    #[test]
    fn jitter_is_told_where_there_is_a_rate() {
        let told = |sender| {
            let jitter = Nanos::from_millis(3);
            let receiver =
                UdpReceiver { received: 60, jitter, jitter_mean: jitter, ..UdpReceiver::default() };
            let mut text = String::new();
            udp(&mut text, &UdpResult { sender, receiver }, None).unwrap();
            text
        };
        let mut at_a_rate = UdpSender { sent: 60, ..UdpSender::default() };
        let as_fast_as_it_can = at_a_rate.clone();
        at_a_rate.lateness.record(Nanos(1));
        let text = told(at_a_rate);
        assert!(text.contains("jitter           3.00 ms at the end, 3.00 ms on average"), "{text}");
        let text = told(as_fast_as_it_can);
        assert!(text.contains("jitter           - at the end, - on average"), "{text}");
    }

    #[test]
    fn the_95th_percentile_stands_beside_the_99th() {
        let mut histogram = LatencyHistogram::new();
        histogram.record(Nanos::from_millis(1));
        let text = quantiles(&histogram);
        let place = |name: &str| text.find(name).unwrap_or_else(|| panic!("no {name}: {text}"));
        assert!(place("p95") < place("p99"));
    }
}
