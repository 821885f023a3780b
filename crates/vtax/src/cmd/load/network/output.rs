//! What network tests print.

use std::fmt::Write as _;
use std::io::Write as _;

use serde::Serialize;
use vtax_load::LatencyHistogram;
use vtax_load::network::{
    ConnectionFacts, Live, NetworkResult, NetworkSpec, NetworkTestKind, PingResult, RrResult, TcpFlow,
    TcpResult, UdpResult,
};
use vtax_units::Nanos;

const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

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
    };
    let warm = if live.at_seconds <= 0.0 { "  (warm-up)" } else { "" };
    let at = live.at_seconds + spec.warmup.as_secs_f64();
    let _ = writeln!(std::io::stderr(), "{at:>6.1} s  {what}{warm}");
}

/// Prints the result for people.
pub(super) fn text(spec: &NetworkSpec, result: &NetworkResult) {
    let mut out = String::new();
    let written = match result {
        NetworkResult::Tcp(result) => tcp(&mut out, result),
        NetworkResult::Udp(result) => udp(&mut out, result),
        NetworkResult::Rr(result) => rr(&mut out, result),
        NetworkResult::Ping(result) => ping(&mut out, spec, result),
    };
    // Writing to a string can't fail.
    debug_assert!(written.is_ok());
    let _ = std::io::stdout().write_all(out.as_bytes());
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
        let total = |of: fn(&ConnectionFacts) -> u64| flow.sender.connections.iter().map(of).sum::<u64>();
        writeln!(out, "  retransmissions  {}", total(|c| u64::from(c.retransmissions)))?;
        writeln!(
            out,
            "  CPU              {} sender, {} receiver: {} per CPU-second",
            seconds(flow.sender.cpu.total()),
            seconds(flow.receiver.cpu.total()),
            bits(per_cpu(flow))
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
        match &flow.disagreement {
            None => writeln!(out, "  check            programs and kernels of both ends agree")?,
            Some(why) => writeln!(out, "  INVALID          {why}")?,
        }
    }
    Ok(())
}

/// Bits of the whole transfer for each CPU-second of both ends.
fn per_cpu(flow: &TcpFlow) -> f64 {
    let cpu = flow.sender.cpu.total().as_secs_f64() + flow.receiver.cpu.total().as_secs_f64();
    flow.receiver.total_bytes as f64 * 8.0 / cpu.max(1e-9)
}

fn udp(out: &mut String, result: &UdpResult) -> std::fmt::Result {
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
    writeln!(out, "  no room          {} dropped by the receiving socket", receiver.no_room)?;
    writeln!(
        out,
        "  jitter           {} at the end, {} on average",
        time(receiver.jitter),
        time(receiver.jitter_mean)
    )?;
    if !sender.lateness.is_empty() {
        writeln!(out, "  sent late by     {}", quantiles(&sender.lateness))?;
    }
    let each = |cpu: Nanos, count: u64| Nanos(cpu.0 / count.max(1));
    let (sends, receives) =
        (each(sender.cpu.total(), sender.total), each(receiver.cpu.total(), receiver.total));
    writeln!(out, "  CPU              {} to send one, {} to receive one", time(sends), time(receives))?;
    if let Some(why) = &sender.limited {
        writeln!(out, "  INVALID          {why}")?;
    }
    Ok(())
}

fn rr(out: &mut String, result: &RrResult) -> std::fmt::Result {
    let rate = result.transactions as f64 / result.time.as_secs_f64().max(1e-9);
    writeln!(out, "{rate:.0} transactions/s, {} in {}", result.transactions, seconds(result.time))?;
    writeln!(out, "  latency          {}", quantiles(&result.latency))?;
    let (client, server) = (seconds(result.client_cpu.total()), seconds(result.server_cpu.total()));
    writeln!(out, "  CPU              {client} client, {server} server")
}

fn ping(out: &mut String, spec: &NetworkSpec, result: &PingResult) -> std::fmt::Result {
    let lost = result.intended.saturating_sub(result.answered);
    let share = lost as f64 / result.intended.max(1) as f64 * 100.0;
    writeln!(out, "{} of {} probes answered, {share:.3} % lost", result.answered, result.intended)?;
    writeln!(out, "  round trip       {}", quantiles(&result.rtt))?;
    writeln!(out, "  from intended    {}", quantiles(&result.latency))?;
    writeln!(out, "  sent late by     {}", quantiles(&result.lateness))?;
    if result.duplicates > 0 {
        writeln!(out, "  duplicates       {}", result.duplicates)?;
    }
    if result.answered == 0 {
        writeln!(out, "  nothing came back from {}", spec.target.ip())?;
    }
    Ok(())
}

fn quantiles(histogram: &LatencyHistogram) -> String {
    let each = QUANTILES.map(|(name, q)| format!("{name} {}", time(histogram.quantile(q))));
    each.join("  ")
}

/// The result with the figures a script wants without decoding histograms.
#[derive(Serialize)]
struct Report<'a> {
    host: &'a str,
    spec: &'a NetworkSpec,
    figures: Figures,
    result: &'a NetworkResult,
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
    latency_ns: Option<Vec<(&'static str, u64)>>,
}

/// Prints the result for programs.
pub(super) fn json(host: &str, spec: &NetworkSpec, result: &NetworkResult) -> anyhow::Result<()> {
    let ns = |h: &LatencyHistogram| Some(QUANTILES.map(|(name, q)| (name, h.quantile(q).0)).to_vec());
    let figures = match result {
        NetworkResult::Tcp(tcp) => Figures {
            up_bits_per_second: tcp.up.as_ref().map(TcpFlow::goodput),
            down_bits_per_second: tcp.down.as_ref().map(TcpFlow::goodput),
            ..Figures::default()
        },
        NetworkResult::Udp(udp) => {
            Figures { bits_per_second: Some(udp.goodput()), loss: Some(udp.loss()), ..Figures::default() }
        }
        NetworkResult::Rr(rr) => Figures {
            per_second: Some(rr.transactions as f64 / rr.time.as_secs_f64().max(1e-9)),
            latency_ns: ns(&rr.latency),
            ..Figures::default()
        },
        NetworkResult::Ping(ping) => Figures { latency_ns: ns(&ping.rtt), ..Figures::default() },
    };
    line(&serde_json::to_string_pretty(&Report { host, spec, figures, result })?);
    Ok(())
}

fn bits(per_second: f64) -> String {
    let (figure, unit) = match per_second {
        r if r >= 1e9 => (r / 1e9, "Gbit/s"),
        r if r >= 1e6 => (r / 1e6, "Mbit/s"),
        r if r >= 1e3 => (r / 1e3, "kbit/s"),
        r => (r, "bit/s"),
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
