//! The latency that the generator tells beside that of a packet capture: from the packet with the input to the last one of its answer.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{SERVER_CPU, load};
use crate::program::{Server, pinned, run_load};
use crate::sheet::Row;

/// Length of the packets of a character: pressed, released.
const KEY: u32 = 16;
/// Actions that must be there to be compared.
const LEAST: usize = 50;
/// After this time what was captured is written.
const WRITTEN: Duration = Duration::from_secs(1);
/// How far the two may be apart, in seconds, and for what share of the actions.
const APART: f64 = 0.001;
const SHARE: f64 = 0.95;

/// Nobody listens here: what is tried is captured, and the server, which locks out who connects again and again without logging in,
/// doesn't see it.
const NOBODY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// The row of this comparison.
pub(super) fn row(server: SocketAddr) -> Result<Row> {
    let port = server.port().to_string();
    let mut command = pinned(SERVER_CPU, "tshark");
    command.args(["-i", "lo", "-f", &format!("tcp port {port}"), "-l", "-n", "-T", "fields"]);
    command.args(["-e", "frame.time_epoch", "-e", "tcp.srcport", "-e", "tcp.len"]);
    let mut tshark = Server::start(&mut command, "tshark")?;
    // It captures once it has seen something.
    tshark.wait(|said| TcpStream::connect((NOBODY, server.port())).is_err() && !said.is_empty())?;
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let samples = directory.path().join("samples.csv");
    let mut command = load(server);
    command.args(["--connections", "1", "--rate", "10/s", "--user-rate", "10/s", "--arrivals", "constant"]);
    command.args([
        "--actions",
        "type",
        "--slow-motion",
        "--warmup",
        "2s",
        "--duration",
        "10s",
        "--samples-out",
    ]);
    command.arg(&samples);
    run_load(&mut command)?;
    thread::sleep(WRITTEN);
    let told = latencies(&std::fs::read_to_string(&samples)?);
    let captured = answers(&tshark.said("stdout"), server.port());
    let count = told.len();
    ensure!(count >= LEAST && captured.len() >= count, "{count} samples, {} captured", captured.len());
    // Those before the recorded time come first.
    let captured = &captured[captured.len() - count..];
    let mut apart: Vec<f64> = told.iter().zip(captured).map(|(a, b)| (a - b).abs()).collect();
    apart.sort_by(f64::total_cmp);
    let most = apart[((count as f64 * SHARE).ceil() as usize).clamp(1, count) - 1];
    let middle = |values: &[f64]| crate::program::median(values.to_vec()) * 1e3;
    Ok(Row {
        name: format!("desktop, latency beside a capture, 95 % within {:.3} ms", most * 1e3),
        ours: middle(&told),
        peer: Some(middle(captured)),
        unit: "ms".to_owned(),
        ratio: None,
        goal: format!("<= {} ms apart", APART * 1e3),
        ok: most <= APART,
    })
}

/// Latency of each sample that was answered, in seconds.
fn latencies(samples: &str) -> Vec<f64> {
    let answered = samples.lines().filter_map(|line| line.strip_suffix(",ok"));
    answered.filter_map(|line| line.split(',').nth(1)?.parse::<f64>().ok()).map(|ns| ns / 1e9).collect()
}

/// From each packet with a character to the server's last one before the next, in seconds.
fn answers(lines: &str, port: u16) -> Vec<f64> {
    let mut all = Vec::new();
    let mut begun: Option<(f64, f64)> = None;
    for line in lines.lines() {
        let mut fields = line.split('\t');
        let (Some(time), Some(from), Some(length)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (Ok(time), Ok(from), Ok(length)) =
            (time.parse::<f64>(), from.parse::<u16>(), length.parse::<u32>())
        else {
            continue;
        };
        if from != port && length == KEY {
            all.extend(begun.map(|(key, last)| last - key));
            begun = Some((time, time));
        } else if let Some((_, last)) = begun.as_mut().filter(|_| from == port && length > 0) {
            *last = time;
        }
    }
    all.extend(begun.map(|(key, last)| last - key));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_gives_the_time_from_a_key_to_its_last_answer() {
        let lines = "1.0\t40000\t0\n1.5\t40000\t16\n1.51\t5901\t300\n1.52\t5901\t40\n1.53\t40000\t17\n2.0\t40000\t16\n2.25\t5901\t9\n2.3\t5901\t0\n";
        let found = answers(lines, 5901);
        assert!(
            found.len() == 2 && (found[0] - 0.02).abs() < 1e-9 && (found[1] - 0.25).abs() < 1e-9,
            "{found:?}"
        );
    }

    #[test]
    fn only_answered_samples_have_a_latency() {
        assert_eq!(latencies("start_ns,latency_ns,outcome\n1,2000000,ok\n2,9,client-timeout\n"), [0.002]);
    }
}
