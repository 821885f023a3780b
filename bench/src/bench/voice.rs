//! Streams of voice beside sipp's `rtp_stream`: CPU time of the calling end for a thousand streams both ways, and how late packets leave.
//!
//! Both callers run in turn, in a namespace of their own, with the other end on another CPU. Of sipp 3.6 both ends send, but neither
//! reads what comes: its sockets fill, and the kernel drops the rest. vtax hears every packet and compares its sound.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vtax_testkit::cable::{Cable, apart, finish};

use crate::place;
use crate::program::{median, pinned};
use crate::sheet::{Row, Sheet};

const CALLER_CPU: &str = "0";
const OTHER_CPU: &str = "1";
const ROUNDS: usize = 3;
const STREAMS: u32 = 1_000;
/// How long each stream lasts; the pause of `voice/uac.xml`.
const SECONDS: u32 = 5;
const PACKETS_PER_SECOND: u32 = 50;
/// Share of its packets that sipp must have sent for its figure to count.
const SENT: f64 = 0.95;
const PATIENCE: Duration = Duration::from_secs(40);
const ADDRESS: &str = "127.0.0.1:5299";
const UAC: &str = include_str!("voice/uac.xml");
const UAS: &str = include_str!("voice/uas.xml");

/// sipp's CPU time beside ours: packets that are bundled, and packets on their own.
const BUNDLED_GOAL: f64 = 5.0;
const SINGLE_GOAL: f64 = 1.0;
const LATE_GOAL_MS: f64 = 1.0;

/// CPU seconds of the calling ends in one round, and the p99 of vtax's lateness in milliseconds.
#[derive(Serialize, Deserialize)]
struct Round {
    single: f64,
    bundled: f64,
    sipp: f64,
    late_ms: f64,
}

/// The rows of this bench.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    let vtax = place::vtax();
    ensure!(vtax.exists(), "{} is missing; run `make build`", vtax.display());
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    fs::write(directory.path().join("uac.xml"), UAC)?;
    fs::write(directory.path().join("uas.xml"), UAS)?;
    // A second of silence in mu-law, again and again.
    fs::write(directory.path().join("sound.raw"), [0xff; 8_000])?;
    let work = || (0..ROUNDS).map(|_| round(directory.path())).collect::<Result<Vec<_>>>();
    let rounds: Vec<Round> = apart(|| work().map_err(|e| format!("{e:#}")))
        .map_err(|e| anyhow::anyhow!("{}", vtax_sys::chain(&e)))?;
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    let row = |what: &str, figure: fn(&Round) -> f64, goal: f64| {
        let (ours, peer) = (of(figure), of(|round| round.sipp));
        Row {
            name: format!("{STREAMS} streams of voice both ways{what}, beside sipp, which hears none"),
            ours,
            peer: Some(peer),
            unit: format!("CPU-s in {SECONDS} s"),
            ratio: Some(peer / ours),
            goal: format!(">= {goal}x less"),
            ok: peer / ours >= goal,
        }
    };
    sheet.add(row(", bundled", |round| round.bundled, BUNDLED_GOAL))?;
    sheet.add(row("", |round| round.single, SINGLE_GOAL))?;
    let late = of(|round| round.late_ms);
    sheet.add(Row::at_most("voice, lateness of the caller's packets, p99", late, "ms", LATE_GOAL_MS))
}

fn round(directory: &Path) -> Result<Round> {
    let (single, late_ms) = ours(&[])?;
    let (bundled, _) = ours(&["--bundled"])?;
    Ok(Round { single, bundled, sipp: sipp(directory)?, late_ms })
}

/// CPU seconds of vtax's calling end, and the p99 of its lateness in milliseconds.
fn ours(more: &[&str]) -> Result<(f64, f64)> {
    let cable = Cable::loopback()?;
    let program = place::vtax().display().to_string();
    let mut server = pinned(OTHER_CPU, &program);
    server.args(["load", "voice", "--server", "--listen", ADDRESS]);
    let server = cable.serve(1, &mut server, "listening")?;
    let (streams, duration) = (STREAMS.to_string(), format!("{SECONDS}s"));
    let mut client = pinned(CALLER_CPU, &program);
    client.args(["load", "voice", ADDRESS, "--streams", &streams, "--duration", &duration]);
    client.args(["--warmup", "0s", "--json", "--quiet"]).args(more);
    let ran = finish(cable.start(0, &mut client)?, PATIENCE)?;
    finish(server, Duration::from_millis(300))?;
    let found: Value = serde_json::from_str(&ran.output)
        .with_context(|| format!("reading what vtax load voice printed: {}", ran.output))?;
    let count = |key: &str| found.pointer(key).and_then(Value::as_u64).context("no count");
    let (sent, came) = (count("/result/client/sent")?, count("/result/down/packets/received")?);
    let all = u64::from(STREAMS * SECONDS * PACKETS_PER_SECOND);
    ensure!(sent == all && came * 100 >= all * 99, "of {all} packets {sent} were sent and {came} came");
    let late = found.pointer("/result/client/lateness").and_then(Value::as_str).context("no lateness")?;
    let late = vtax_load::LatencyHistogram::from_base64(late).map_err(anyhow::Error::msg)?;
    Ok((ran.reaped.cpu.total().as_secs_f64(), late.quantile(0.99).0 as f64 * 1e-6))
}

/// CPU seconds of sipp's calling end, setting up and ending the calls included.
fn sipp(directory: &Path) -> Result<f64> {
    let cable = Cable::loopback()?;
    let calls = STREAMS.to_string();
    let command = |cpu: &str, scenario: &str, port: &str, media: &str| {
        let mut command = pinned(cpu, "sipp");
        command.current_dir(directory).env("TERM", "dumb").stderr(std::process::Stdio::null());
        command.args(["-sf", scenario, "-i", "127.0.0.1", "-mi", "127.0.0.1", "-p", port, "-mp", media]);
        command.args(["-nostdin", "-m", &calls, "-l", "100000", "-timeout", "30s", "-buff_size", "16777216"]);
        command
    };
    let uas = cable
        .start(1, &mut command(OTHER_CPU, "uas.xml", "5070", "20000"))
        .context("starting sipp (in Debian: apt install sip-tester)")?;
    thread::sleep(Duration::from_millis(500));
    let before = datagrams(&cable)?;
    let mut uac = command(CALLER_CPU, "uac.xml", "5071", "40000");
    uac.args(["-r", &calls, "127.0.0.1:5070"]);
    let uac = finish(cable.start(0, &mut uac)?, PATIENCE)?;
    finish(uas, Duration::from_secs(5))?;
    let sent = (datagrams(&cable)? - before) as f64;
    let all = f64::from(2 * STREAMS * SECONDS * PACKETS_PER_SECOND);
    ensure!(sent >= all * SENT, "sipp sent {sent} of {all} packets");
    Ok(uac.reaped.cpu.total().as_secs_f64())
}

/// Datagrams that were sent in the cable's namespace (/proc/net/snmp).
fn datagrams(cable: &Cable) -> Result<u64> {
    let ran = finish(cable.start(0, Command::new("cat").arg("/proc/net/snmp"))?, PATIENCE)?;
    let mut lines = ran.output.lines().filter(|line| line.starts_with("Udp: "));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let place = names.split(' ').position(|name| name == "OutDatagrams").context("no count of datagrams")?;
    Ok(values.split(' ').nth(place).context("no figure")?.parse()?)
}
