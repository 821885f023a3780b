//! The network tests agree with iperf3 over the same path, one after the other.
//!
//! The path decides what is measured, not the machine: a cable with a rate far below what either can do.
//! Not under the test harness, which has threads: a controller is forked from a process with one.
#![allow(clippy::print_stdout, reason = "a test's report")]

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use vtax_lab::LinkProperties;
use vtax_sys::require::{Need, installed, need, possible, watched};
use vtax_testkit::cable::{Cable, apart, finish};
use vtax_units::BitRate;

/// Longest that one test may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a comparison is begun again on a machine that may be busy.
const ATTEMPTS: u32 = 8;
const PORT: &str = "5299";
/// Rate of the cable for TCP: a busy machine carries it all the same.
const TCP_MBIT: u64 = 50;
/// Window of both: enough to fill the cable, and too little to overflow its queue. What is sent again after a
/// loss arrives in lumps, so that a second of it may hold more than a second's worth.
const WINDOW: &str = "32K";
const TCP_PAIRS: usize = 5;
/// How far the medians may be apart.
const TCP_APART: f64 = 0.02;
/// Rate of the cable for datagrams, and at which they are offered: see [`datagrams_agree`]. So low that
/// a sender's own lateness on a busy machine is small beside their distance.
const UDP_MBIT: u64 = 1;
const UDP_OFFERED: &str = "1427000";
const UDP_PAIRS: usize = 3;
const UDP_APART: f64 = 0.05;
const DATAGRAM: &str = "1200";
/// Exit code of `vtax load` where the generator limited what it measured.
const GENERATOR_LIMITED: i32 = 3;

fn main() {
    if !need(&[Need::Ns]) || !installed(&["iperf3"]) {
        return;
    }
    apart(|| {
        // At once: neither wire leaves much to do.
        std::thread::scope(|scope| {
            scope.spawn(|| sooner_or_later(transfers_agree));
            sooner_or_later(datagrams_agree);
        });
        Ok(())
    })
    .unwrap();
    println!("ok");
}

/// A machine that is busy with something else delays either program's datagrams: that is no disagreement of
/// theirs. Only of an attempt that was left alone it is one.
fn sooner_or_later(agreement: fn() -> Result<(), String>) {
    let mut disagreement = None;
    for _ in 0..ATTEMPTS {
        match watched(agreement) {
            (Ok(()), _) => return,
            (Err(why), busy) => {
                println!("{why}");
                disagreement = disagreement.or((!busy).then_some(why));
            }
        }
    }
    if let Some(why) = disagreement {
        panic!("{why}");
    }
    let _ = possible(Some("this machine is too busy: no comparison with iperf3 was left alone"));
}

fn cable(mbit: u64) -> Cable {
    Cable::veth(LinkProperties { rate: Some(BitRate(mbit * 1_000_000)), ..LinkProperties::default() })
        .unwrap()
}

/// Runs server and client of one program at the ends of the cable; what the client printed. An error where vtax says that
/// it was held up itself.
fn both(cable: &Cable, program: &str, server: &[&str], client: &[&str]) -> Result<Value, String> {
    let server = cable.serve(1, Command::new(program).args(server), "listening").unwrap();
    let client = cable.start(0, Command::new(program).args(client)).unwrap();
    let ran = finish(client, PATIENCE).unwrap();
    // iperf3's ends by itself, vtax's when it is ended.
    finish(server, Duration::from_millis(100)).unwrap();
    let said = || format!("{program} {}: {}", ran.reaped.status, ran.output);
    if ran.reaped.status.code() == Some(GENERATOR_LIMITED) {
        return Err(said());
    }
    assert!(ran.reaped.status.success(), "{}", said());
    Ok(serde_json::from_str(&ran.output).unwrap())
}

fn vtax(cable: &Cable, kind: &str, duration: &str, more: &[&str]) -> Result<Value, String> {
    let to = format!("{}:{PORT}", cable.addresses[1]);
    let server = ["load", kind, "--server", "--listen", &to];
    let client = ["load", kind, &to, "--json", "--quiet", "--duration", duration];
    both(cable, env!("CARGO_BIN_EXE_vtax"), &server, &[&client, more].concat())
}

fn iperf(cable: &Cable, seconds: &str, more: &[&str]) -> Result<Value, String> {
    let host = cable.addresses[1].to_string();
    let server = ["-s", "-1", "-p", PORT, "-B", &host, "--forceflush"];
    let client = ["-c", &host, "-p", PORT, "-t", seconds, "--json", "--connect-timeout", "5000"];
    both(cable, "iperf3", &server, &[&client, more].concat())
}

fn number(of: &Value, pointer: &str) -> f64 {
    of.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer} in {of:#}"))
}

fn nanos(of: &Value, pointer: &str) -> f64 {
    let text =
        of.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no {pointer} in {of:#}"));
    text.parse::<vtax_units::Nanos>().unwrap().0 as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Says both medians; an error where they are further apart than they may be.
fn agree(what: &str, pairs: &[(f64, f64)], apart: f64) -> Result<(), String> {
    let ours = median(pairs.iter().map(|p| p.0).collect());
    let peer = median(pairs.iter().map(|p| p.1).collect());
    println!("{what}: vtax {ours:.4}, iperf3 {peer:.4}, apart by {:.2} %", (ours / peer - 1.0) * 100.0);
    if (ours / peer - 1.0).abs() <= apart { Ok(()) } else { Err(format!("{what}: {pairs:?}")) }
}

/// What a bulk transfer carries is the wire's to say.
fn transfers_agree() -> Result<(), String> {
    let cable = cable(TCP_MBIT);
    let pair = |_| -> Result<(f64, f64), String> {
        let ours = number(
            &vtax(&cable, "tcp", "1s", &["--warmup", "200ms", "--window", WINDOW])?,
            "/figures/up_bits_per_second",
        );
        let peer = number(&iperf(&cable, "1", &["-w", WINDOW])?, "/end/sum_received/bits_per_second");
        Ok((ours / 1e6, peer / 1e6))
    };
    let pairs = (0..TCP_PAIRS).map(pair).collect::<Result<Vec<_>, _>>()?;
    agree("TCP goodput, Mbit/s", &pairs, TCP_APART)
}

/// Where datagrams come one and a half times as fast as the wire takes them, a third is lost, and both the
/// loss and the jitter follow from that: those that get through leave the full queue the wire's time T
/// apart, and were sent in turn one and two gaps of 2/3 T apart, so the distance of any two changes by
/// T/3, which is what the jitter of RFC 3550 then settles at. The first few fill the queue: neither tool has
/// a warm-up here, so that both count them. T is 10.1 ms: 1,242 bytes with headers at
/// the 984 kbit/s that a wire of 1 Mbit/s has for frames.
fn datagrams_agree() -> Result<(), String> {
    let cable = cable(UDP_MBIT);
    let (mut loss, mut jitter) = (Vec::new(), Vec::new());
    for _ in 0..UDP_PAIRS {
        let ours = vtax(
            &cable,
            "udp",
            "2s",
            &["--warmup", "0s", "--rate", &format!("{UDP_OFFERED}bit"), "--size", DATAGRAM],
        )?;
        // Its own clock ticks every millisecond unless asked otherwise, which would be its jitter.
        let offered = ["-u", "-b", UDP_OFFERED, "-l", DATAGRAM, "--pacing-timer", "50"];
        let peer = iperf(&cable, "2", &offered)?;
        loss.push((number(&ours, "/figures/loss") * 100.0, number(&peer, "/end/sum/lost_percent")));
        let at_end = nanos(&ours, "/result/receiver/jitter") / 1e6;
        jitter.push((at_end, number(&peer, "/end/sum/jitter_ms")));
    }
    agree("UDP loss, %", &loss, UDP_APART)?;
    agree("UDP jitter, ms", &jitter, UDP_APART)?;
    // Nor are both wrong together.
    let of = |pairs: &[(f64, f64)]| median(pairs.iter().map(|p| p.0).collect());
    let (loss, jitter) = (of(&loss), of(&jitter));
    let as_it_must = (31.0..35.0).contains(&loss) && (3.2..3.53).contains(&jitter);
    if as_it_must { Ok(()) } else { Err(format!("{loss} % are lost, jitter {jitter} ms")) }
}
