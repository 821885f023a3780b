//! The SIP load generator beside sipp, and the embedded SIP server beside Kamailio.
//!
//! What counts is CPU time per call of the generator's process, with the same peer on another CPU;
//! and of the servers' processes, under the same calls.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use vtax_sys::{free_port, reap};

use super::kamailio;
use crate::place;
use crate::program::{Server, median, pinned, run_load};
use crate::sheet::{Row, Sheet};

const GENERATOR_CPU: &str = "0";
const PEER_CPU: &str = "1";
const ROUNDS: usize = 3;
/// Rates and attempts of the comparisons with sipp.
const CALL_RATE: u32 = 20_000;
const CALLS: u32 = 40_000;
const REGISTER_RATE: u32 = 20_000;
const REGISTRATIONS: u32 = 40_000;
/// Rates at which a clean run is looked for, in calls per second.
const LADDER: [u32; 12] =
    [5_000, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 80_000, 100_000, 120_000, 160_000, 200_000];
const CLEAN_RUNS: usize = 3;
/// Callers of vtax, of whom each makes one call at a time: enough for half a second at the highest rate.
const CALLERS: &str = "50000";
/// sipp's gaps between calls are equal.
const PACING: [&str; 2] = ["--arrivals", "constant"];
/// Length of a clean run, in seconds of calls.
const CLEAN_SECONDS: u32 = 3;
/// Share of its rate that a clean run makes, from the start of the generator's process to its end: a generator
/// that falls behind, or loses a message and has to send it again after half a second, takes longer.
const KEPT_UP: f64 = 0.9;
/// What sipp is told to ask for as its socket's buffers, in bytes: as much as vtax asks for. Its default, 64 KiB,
/// loses answers to its own pauses.
const SIPP_BUFFER: &str = "16777216";
/// Subscribers of the small and the large population, and messages per second among them.
const FEW: u32 = 10_000;
const MANY: u32 = 1_000_000;
const MESSAGE_RATE: u32 = 5_000;

const CPU_GOAL: f64 = 4.0;
const RATE_GOAL: f64 = 3.0;
const MEMORY_MIB_GOAL: f64 = 600.0;
const GROWTH_GOAL: f64 = 1.2;
const SERVER_GOAL: f64 = 3.0;

/// The rows of this bench.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    let vtax = place::vtax();
    ensure!(vtax.exists(), "{} is missing; run `make build`", vtax.display());
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    sheet.add(calls(directory.path())?)?;
    sheet.add(registrations(directory.path())?)?;
    sheet.add(highest_rate(directory.path())?)?;
    sheet.add_all(population()?)?;
    sheet.add(servers(&[kamailio::RATE])?)?;
    sheet.add(servers(&kamailio::HIGH_RATES)?)
}

/// CPU seconds of the generator per 1,000 attempts, vtax's and sipp's, taken in turn.
fn versus_sipp(name: String, pairs: &[(f64, f64)]) -> Row {
    let ratio = median(pairs.iter().map(|(ours, peer)| peer / ours).collect());
    Row {
        name,
        ours: median(pairs.iter().map(|p| p.0).collect()),
        peer: Some(median(pairs.iter().map(|p| p.1).collect())),
        unit: "CPU-s/1000".to_owned(),
        ratio: Some(ratio),
        goal: format!(">= {CPU_GOAL}x"),
        ok: ratio >= CPU_GOAL,
    }
}

/// The basic call, against vtax's own answering side.
fn calls(directory: &Path) -> Result<Row> {
    let uas = Peer::uas()?;
    let mut pairs = Vec::new();
    for _ in 0..ROUNDS {
        let ours = call(&uas.target(), CALL_RATE, CALLS)?;
        ensure!(ours.failed == 0.0, "{} of vtax's calls failed", ours.failed);
        let sipp = sipp(directory, &uas.target(), CALL_RATE, CALLS, &["-sn", "uac", "-d", "0"])?;
        pairs.push((ours.cpu_per_thousand, sipp.cpu_per_thousand));
    }
    Ok(versus_sipp(format!("SIP basic call, {CALL_RATE}/s, beside sipp"), &pairs))
}

/// REGISTER, 401, REGISTER with credentials, 200, against the embedded server.
fn registrations(directory: &Path) -> Result<Row> {
    fs::write(directory.join("users.csv"), users(REGISTRATIONS))?;
    fs::write(directory.join("register.xml"), REGISTER_XML)?;
    let mut pairs = Vec::new();
    for _ in 0..ROUNDS {
        let server = Peer::server(REGISTRATIONS)?;
        let (subscribers, rate) = (REGISTRATIONS.to_string(), format!("{REGISTER_RATE}/s"));
        let arguments = ["--subscribers", &subscribers, "--registered", "100%", "--registration-rate", &rate];
        // No more than a message or two follow.
        let rest = ["--rate", "1/s", "--duration", "10ms", "--scenario", "messaging", PACING[0], PACING[1]];
        let ours = vtax(&server.target(), &[&arguments[..], &rest].concat())?;
        let made = ours.of(0, "attempts")?;
        ensure!(ours.of(0, "succeeded")? == made, "some of vtax's registrations failed");
        drop(server);
        let server = Peer::server(REGISTRATIONS)?;
        let sipp = sipp(
            directory,
            &server.target(),
            REGISTER_RATE,
            REGISTRATIONS,
            &["-sf", "register.xml", "-inf", "users.csv"],
        )?;
        pairs.push((1e3 * ours.cpu_seconds / made, sipp.cpu_per_thousand));
    }
    Ok(versus_sipp(format!("SIP REGISTER with digest, {REGISTER_RATE}/s, beside sipp"), &pairs))
}

/// The highest rate of the ladder at which no call fails, three times of three; both sides by the same rules.
fn highest_rate(directory: &Path) -> Result<Row> {
    let uas = Peer::uas()?;
    let ours = climb(|rate, calls| call(&uas.target(), rate, calls))?;
    let arguments = ["-sn", "uac", "-d", "0"];
    let peer = climb(|rate, calls| sipp(directory, &uas.target(), rate, calls, &arguments))?;
    ensure!(peer > 0.0, "sipp had no clean run at {} calls/s; is the machine busy?", LADDER[0]);
    let ratio = ours / peer;
    Ok(Row {
        name: "SIP highest clean rate of calls, beside sipp".to_owned(),
        ours,
        peer: Some(peer),
        unit: "calls/s".to_owned(),
        ratio: Some(ratio),
        goal: format!(">= {RATE_GOAL}x"),
        ok: ratio >= RATE_GOAL,
    })
}

/// Climbs the ladder until a run isn't clean; 0 where the first one isn't.
fn climb(run: impl Fn(u32, u32) -> Result<Called>) -> Result<f64> {
    let mut highest = 0;
    for rate in LADDER {
        for _ in 0..CLEAN_RUNS {
            let run = run(rate, rate * CLEAN_SECONDS)?;
            if run.failed > 0.0 || run.effective < KEPT_UP * f64::from(rate) {
                return Ok(f64::from(highest));
            }
        }
        highest = rate;
    }
    Ok(f64::from(highest))
}

/// What a million subscribers cost in memory, and each message among them in CPU time.
fn population() -> Result<[Row; 2]> {
    let (mut growth, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let few = messages(FEW)?;
        let many = messages(MANY)?;
        growth.push(many.0 / few.0);
        memory.push(many.1);
    }
    let (growth, memory) = (median(growth), median(memory));
    Ok([
        Row {
            name: format!("SIP, {MANY} subscribers, memory"),
            ours: memory,
            peer: None,
            unit: "MiB".to_owned(),
            ratio: Some(memory / MEMORY_MIB_GOAL),
            goal: format!("at most {MEMORY_MIB_GOAL}"),
            ok: memory <= MEMORY_MIB_GOAL,
        },
        Row {
            name: format!("SIP, CPU of a message, {MANY} beside {FEW} subscribers"),
            ours: growth,
            peer: None,
            unit: "x".to_owned(),
            ratio: Some(growth),
            goal: format!("at most {GROWTH_GOAL}"),
            ok: growth <= GROWTH_GOAL,
        },
    ])
}

/// CPU time of the generator per message, and its memory in MiB.
fn messages(subscribers: u32) -> Result<(f64, f64)> {
    let server = Peer::server(subscribers)?;
    let (count, rate) = (subscribers.to_string(), format!("{MESSAGE_RATE}/s"));
    // A tenth of the million registers, so that the bench takes seconds; all of them have their
    // place in memory touched by the pools alone.
    let registered = f64::from(subscribers.min(100_000)) / f64::from(subscribers);
    let registered = format!("{}%", 100.0 * registered);
    let run = vtax(
        &server.target(),
        &[
            "--subscribers",
            &count,
            "--registered",
            &registered,
            "--registration-rate",
            "10000/s",
            "--rate",
            &rate,
            "--duration",
            "3s",
            "--scenario",
            "messaging",
        ],
    )?;
    let step = run.result.pointer("/result/phases/1/generator").context("no step")?;
    let seconds = ["cpu_user", "cpu_system"].iter().map(|key| nanos(step.get(*key))).sum::<Result<f64>>()?;
    Ok((seconds / run.of(1, "attempts")?, run.memory_mib))
}

/// The embedded server beside Kamailio under the same calls, at the first of the rates that both carry.
fn servers(rates: &[u32]) -> Result<Row> {
    for rate in rates {
        if let Some(pairs) = carried(*rate)? {
            return Ok(versus_kamailio(*rate, &pairs));
        }
    }
    bail!("no rate of {rates:?} calls per second is carried by both servers; is the machine busy?")
}

/// Calls per CPU second of both servers, taken in turn; `None` where one of them doesn't carry the rate.
fn carried(rate: u32) -> Result<Option<Vec<(f64, f64)>>> {
    let mut pairs = Vec::new();
    for _ in 0..ROUNDS {
        let server = Peer::server(kamailio::SUBSCRIBERS)?;
        let ours = kamailio::calls_per_cpu_second(server.server.id(), &server.target(), rate)?;
        drop(server);
        let Some(pair) = ours.zip(kamailio::kamailio(rate)?) else { return Ok(None) };
        pairs.push(pair);
    }
    Ok(Some(pairs))
}

fn versus_kamailio(rate: u32, pairs: &[(f64, f64)]) -> Row {
    let ratio = median(pairs.iter().map(|(ours, peer)| ours / peer).collect());
    Row {
        name: format!("SIP server, {rate} calls/s through it, beside Kamailio"),
        ours: median(pairs.iter().map(|p| p.0).collect()),
        peer: Some(median(pairs.iter().map(|p| p.1).collect())),
        unit: "calls/CPU-s".to_owned(),
        ratio: Some(ratio),
        goal: format!(">= {SERVER_GOAL}x"),
        ok: ratio >= SERVER_GOAL,
    }
}

/// What one run of a caller gave.
struct Called {
    cpu_per_thousand: f64,
    failed: f64,
    /// Calls per second of the process's life.
    effective: f64,
}

/// vtax calls the target, which answers.
fn call(target: &str, rate: u32, calls: u32) -> Result<Called> {
    let seconds = f64::from(calls) / f64::from(rate);
    let (rate_text, duration) = (format!("{rate}/s"), format!("{}ms", (1e3 * seconds).round()));
    let arguments = [
        "--unregistered",
        "--rate",
        &rate_text,
        "--duration",
        &duration,
        "--subscribers",
        CALLERS,
        PACING[0],
        PACING[1],
    ];
    let run = vtax(target, &arguments)?;
    let (made, succeeded) = (run.of(0, "attempts")?, run.of(0, "succeeded")?);
    Ok(Called {
        cpu_per_thousand: 1e3 * run.cpu_seconds / made,
        failed: made - succeeded,
        effective: succeeded / run.seconds,
    })
}

/// What one run of `vtax load sip` gave.
pub(crate) struct Loaded {
    pub(crate) result: Value,
    pub(crate) cpu_seconds: f64,
    memory_mib: f64,
    /// From its start to its end.
    seconds: f64,
}

impl Loaded {
    /// A figure of the only scenario of a phase.
    pub(crate) fn of(&self, phase: usize, key: &str) -> Result<f64> {
        let pointer = format!("/result/phases/{phase}/scenarios/0/{key}");
        self.result.pointer(&pointer).and_then(Value::as_f64).with_context(|| format!("no {pointer}"))
    }
}

pub(crate) fn vtax(target: &str, arguments: &[&str]) -> Result<Loaded> {
    let mut command = pinned(GENERATOR_CPU, &place::vtax().display().to_string());
    command.args(["load", "sip", target, "--json", "--quiet", "--cpus", GENERATOR_CPU, "--drain", "5s"]);
    let begun = Instant::now();
    let (result, reaped) = run_load(command.args(arguments))?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Loaded {
        result,
        cpu_seconds: reaped.cpu.total().as_secs_f64(),
        memory_mib: reaped.resident_bytes_max as f64 / f64::from(1 << 20),
        seconds,
    })
}

/// A duration as JSON has it.
fn nanos(value: Option<&Value>) -> Result<f64> {
    let text = value.and_then(Value::as_str).context("no duration")?;
    Ok(text.parse::<vtax_units::Nanos>()?.as_secs_f64())
}

fn sipp(directory: &Path, target: &str, rate: u32, calls: u32, arguments: &[&str]) -> Result<Called> {
    let port = free_port().to_string();
    let (rate, count) = (rate.to_string(), calls.to_string());
    let mut command = pinned(GENERATOR_CPU, "sipp");
    command.current_dir(directory).env("TERM", "dumb").stdin(Stdio::null());
    command.args([target, "-i", "127.0.0.1", "-p", &port, "-r", &rate, "-m", &count, "-l", "1000000"]);
    command.args(["-nostdin", "-timeout", "60s", "-buff_size", SIPP_BUFFER]).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let begun = Instant::now();
    let mut child = command.spawn().context("starting sipp (in Debian: apt install sip-tester)")?;
    let output = std::io::read_to_string(child.stdout.take().context("no pipe")?)?;
    let reaped = reap::wait(child)?;
    let took = begun.elapsed().as_secs_f64();
    // The last screen has the totals in its second column.
    let total = |label: &str| -> Result<f64> {
        let line =
            output.lines().rfind(|line| line.contains(label)).with_context(|| format!("no {label}"))?;
        let figure = line.split('|').nth(2).with_context(|| format!("no total in `{line}`"))?;
        Ok(figure.trim().parse()?)
    };
    let (succeeded, failed) = (total("Successful call")?, total("Failed call")?);
    Ok(Called {
        cpu_per_thousand: 1e3 * reaped.cpu.total().as_secs_f64() / (succeeded + failed).max(1.0),
        failed: failed + (f64::from(calls) - succeeded - failed),
        effective: succeeded / took,
    })
}

/// One of vtax's own servers on the other CPU, for as long as this lives.
struct Peer {
    server: Server,
    port: u16,
}

impl Peer {
    fn uas() -> Result<Self> {
        Self::start(&["load", "sip", "--uas"], &[], true)
    }

    fn server(subscribers: u32) -> Result<Self> {
        Self::start(&["service", "sip"], &["--subscribers", &subscribers.to_string()], false)
    }

    /// `positional`: the address comes without `--listen`.
    fn start(command: &[&str], arguments: &[&str], positional: bool) -> Result<Self> {
        let port = free_port();
        let listen = format!("127.0.0.1:{port}");
        let mut program = pinned(PEER_CPU, &place::vtax().display().to_string());
        program
            .args(command)
            .args(if positional { &[][..] } else { &["--listen"] })
            .arg(&listen)
            .args(arguments);
        let mut server = Server::start(&mut program, &format!("vtax {}", command.join(" ")))?;
        server.wait(|said| said.contains('\n'))?;
        Ok(Self { server, port })
    }

    fn target(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// sipp's list of users: those of the embedded server.
fn users(count: u32) -> String {
    let user = |i: u32| format!("subs{i:06};[authentication username=subs{i:06} password=vtax]\n");
    std::iter::once("SEQUENTIAL\n".to_owned()).chain((0..count).map(user)).collect()
}

/// A registration as sipp does it.
const REGISTER_XML: &str = r#"<?xml version="1.0" encoding="ISO-8859-1" ?>
<scenario name="register">
  <send retrans="500"><![CDATA[
REGISTER sip:vtax.test SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
Max-Forwards: 70
From: <sip:[field0]@vtax.test>;tag=[call_number]
To: <sip:[field0]@vtax.test>
Call-ID: [call_id]
CSeq: 1 REGISTER
Contact: <sip:[field0]@[local_ip]:[local_port]>
Expires: 3600
Content-Length: 0

]]></send>
  <recv response="100" optional="true"></recv>
  <recv response="401" auth="true"></recv>
  <send retrans="500"><![CDATA[
REGISTER sip:vtax.test SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
Max-Forwards: 70
From: <sip:[field0]@vtax.test>;tag=[call_number]
To: <sip:[field0]@vtax.test>
Call-ID: [call_id]
CSeq: 2 REGISTER
[field1]
Contact: <sip:[field0]@[local_ip]:[local_port]>
Expires: 3600
Content-Length: 0

]]></send>
  <recv response="100" optional="true"></recv>
  <recv response="200"></recv>
</scenario>
"#;
