//! A load's result in the text form of httperf (Mosberger and Jin, 1998), so that what reads that reads this.
//!
//! Figures that a load doesn't have are 0, as httperf prints them then: `ftab-full` always; times of connections and
//! replies where nobody looked at them. What httperf calls a reply is an answer, whatever its status. Sizes of requests are
//! those on the connection, what TLS adds included; of replies, only where nobody looked at them. The rate of replies is of
//! those that came within the recorded time, whenever their requests began; their number is of requests that began within it.

use std::fmt::{self, Write};

use vtax_load::{LatencyHistogram, LoadResult};

/// How long each of httperf's samples of the reply rate is.
const SAMPLE_SECONDS: f64 = 5.0;

/// The text.
pub(super) fn text(result: &LoadResult, connections: u32) -> String {
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = put(&mut out, result, connections);
    out
}

fn put(out: &mut String, result: &LoadResult, concurrent: u32) -> fmt::Result {
    let counts = &result.counts;
    let http = result.details.as_ref().and_then(|details| details.http.as_deref());
    let exchanges = http.and_then(|http| http.exchanges.as_ref());
    let seconds = result.duration.as_secs_f64().max(1e-9);
    let replies = counts.ok + counts.errors.status + counts.errors.unexpected;
    let per = |n: u64| n as f64 / seconds;
    let each = |n: u64| if n == 0 { 0.0 } else { seconds * 1e3 / n as f64 };
    let share = |sum: u64, n: u64| if n == 0 { 0.0 } else { sum as f64 / n as f64 };
    writeln!(
        out,
        "Total: connections {} requests {} replies {replies} test-duration {seconds:.3} s\n",
        counts.connects, counts.sent
    )?;
    writeln!(
        out,
        "Connection rate: {:.1} conn/s ({:.1} ms/conn, <={concurrent} concurrent connections)",
        per(counts.connects),
        each(counts.connects)
    )?;
    let none = LatencyHistogram::new();
    let lifetime = http.map_or(&none, |http| &http.lifetime);
    writeln!(
        out,
        "Connection time [ms]: min {:.1} avg {:.1} max {:.1} median {:.1} stddev {:.1}",
        lifetime.quantile(0.0).as_secs_f64() * 1e3,
        mean(lifetime),
        lifetime.max().as_secs_f64() * 1e3,
        lifetime.quantile(0.5).as_secs_f64() * 1e3,
        if lifetime.is_empty() { 0.0 } else { lifetime.0.stdev() / 1e6 }
    )?;
    writeln!(out, "Connection time [ms]: connect {:.1}", http.map_or(0.0, |http| mean(&http.connect)))?;
    writeln!(out, "Connection length [replies/conn]: {:.3}\n", share(replies, counts.connects))?;
    writeln!(out, "Request rate: {:.1} req/s ({:.1} ms/req)", per(counts.sent), each(counts.sent))?;
    writeln!(out, "Request size [B]: {:.1}\n", share(counts.bytes_sent, counts.sent))?;
    put_rates(out, result)?;
    let (response, transfer) =
        exchanges.map_or((0.0, 0.0), |found| (mean(&found.response), mean(&found.transfer)));
    writeln!(out, "Reply time [ms]: response {response:.1} transfer {transfer:.1}")?;
    let (head, body) = exchanges.map_or((0, 0), |found| (found.head_bytes, found.body_bytes));
    let whole = if exchanges.is_some() { head + body } else { counts.bytes_received };
    writeln!(
        out,
        "Reply size [B]: header {:.1} content {:.1} footer 0.0 (total {:.1})",
        share(head, replies),
        share(body, replies),
        share(whole, replies)
    )?;
    let [first, second, third, fourth, fifth] = counts.status;
    writeln!(out, "Reply status: 1xx={first} 2xx={second} 3xx={third} 4xx={fourth} 5xx={fifth}\n")?;
    put_end(out, result, seconds)
}

/// The rate of replies, by samples of five seconds, as far as the result's intervals tell.
fn put_rates(out: &mut String, result: &LoadResult) -> fmt::Result {
    let mut rates: Vec<f64> = Vec::new();
    let (mut began, mut replies) = (0.0, 0);
    let starts = result.intervals.iter().skip(1).map(|interval| interval.start.as_secs_f64());
    let ends = starts.chain([result.duration.as_secs_f64()]);
    for (interval, end) in result.intervals.iter().zip(ends) {
        // What came after the end is among the last interval's outcomes, but no part of a rate.
        replies += interval.counts.replies_in_time;
        if end - began >= SAMPLE_SECONDS {
            rates.push(replies as f64 / (end - began));
            (began, replies) = (end, 0);
        }
    }
    let n = rates.len() as f64;
    let average = if rates.is_empty() { 0.0 } else { rates.iter().sum::<f64>() / n };
    let squares: f64 = rates.iter().map(|rate| (rate - average).powi(2)).sum();
    let deviation = if rates.len() < 2 { 0.0 } else { (squares / (n - 1.0)).sqrt() };
    let least = rates.iter().copied().reduce(f64::min).unwrap_or(0.0);
    let most = rates.iter().copied().reduce(f64::max).unwrap_or(0.0);
    writeln!(
        out,
        "Reply rate [replies/s]: min {least:.1} avg {average:.1} max {most:.1} stddev {deviation:.1} ({} samples)",
        rates.len()
    )
}

/// CPU time, bytes and errors.
fn put_end(out: &mut String, result: &LoadResult, seconds: f64) -> fmt::Result {
    let (counts, generator) = (&result.counts, &result.generator);
    let (user, system) = (generator.cpu_user.as_secs_f64(), generator.cpu_system.as_secs_f64());
    let percent = |time: f64| 100.0 * time / seconds;
    writeln!(
        out,
        "CPU time [s]: user {user:.2} system {system:.2} (user {:.1}% system {:.1}% total {:.1}%)",
        percent(user),
        percent(system),
        percent(user + system)
    )?;
    let bytes = (counts.bytes_received + counts.bytes_sent) as f64 / seconds;
    writeln!(out, "Net I/O: {:.1} KB/s ({:.1}*10^6 bps)\n", bytes / 1024.0, bytes * 8.0 / 1e6)?;
    let errors = &counts.errors;
    // Replies of any status are none of httperf's errors.
    let other = errors.protocol + errors.other + errors.lost + errors.stale + errors.corrupt;
    let client = errors.client_timeout + counts.missed + counts.unfinished;
    let total = client + errors.refused + errors.reset + errors.no_descriptors + errors.no_addresses + other;
    writeln!(
        out,
        "Errors: total {total} client-timo {client} socket-timo 0 connrefused {} connreset {}",
        errors.refused, errors.reset
    )?;
    writeln!(
        out,
        "Errors: fd-unavail {} addrunavail {} ftab-full 0 other {other}",
        errors.no_descriptors, errors.no_addresses
    )
}

fn mean(histogram: &LatencyHistogram) -> f64 {
    histogram.mean().as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use vtax_load::{Counts, Errors, Interval, merged};
    use vtax_units::Nanos;

    use super::*;

    #[test]
    fn the_text_has_the_lines_of_httperf() {
        let mut result = merged(&[]);
        result.duration = Nanos::from_secs(10);
        // In the last interval are five that came after the end.
        result.intervals = [(0, 485), (5, 495)]
            .map(|(second, ok)| Interval {
                start: Nanos::from_secs(second),
                counts: Counts { ok, status: [0, ok, 0, 5, 0], replies_in_time: 490, ..Counts::default() },
                latency: LatencyHistogram::new(),
                begun: None,
            })
            .to_vec();
        let errors = Errors { refused: 3, status: 10, ..Errors::default() };
        result.counts = Counts {
            sent: 1_000,
            ok: 980,
            errors,
            unfinished: 7,
            status: [0, 980, 0, 10, 0],
            connects: 10,
            bytes_sent: 62_000,
            ..Counts::default()
        };
        let text = text(&result, 8);
        for line in [
            "Total: connections 10 requests 1000 replies 990 test-duration 10.000 s",
            "Connection rate: 1.0 conn/s (1000.0 ms/conn, <=8 concurrent connections)",
            "Request rate: 100.0 req/s (10.0 ms/req)",
            "Request size [B]: 62.0",
            "Reply rate [replies/s]: min 98.0 avg 98.0 max 98.0 stddev 0.0 (2 samples)",
            "Reply status: 1xx=0 2xx=980 3xx=0 4xx=10 5xx=0",
            "Errors: total 10 client-timo 7 socket-timo 0 connrefused 3 connreset 0",
            "Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0",
        ] {
            assert!(text.lines().any(|own| own == line), "`{line}` is missing in\n{text}");
        }
    }
}
