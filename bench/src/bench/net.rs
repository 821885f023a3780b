//! The network tests beside iperf3: bits and datagrams for each CPU-second of both ends, over
//! loopback and over a virtual cable; and what ping adds to a round trip.
//!
//! Both programs run in turn, in the same namespaces and on the same CPUs. Counted is what arrived,
//! and the CPU time of both processes from their start to their end.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vtax_lab::LinkProperties;
use vtax_testkit::cable::{Cable, apart, finish};

use crate::place;
use crate::program::median;
use crate::sheet::{Row, Sheet};

const PAIRS: usize = 5;
const SECONDS: u32 = 1;
/// Longest that one test may take.
const PATIENCE: Duration = Duration::from_secs(20);
const PORT: u16 = 5299;
/// Client and server; where there is a second CPU.
const CPUS: [&str; 2] = ["0", "1"];
/// Payload of a datagram: what fits a frame of Ethernet.
const DATAGRAM: &str = "1448";
const PINGS_PER_SECOND: u32 = 1_000;

const TCP_GOAL: f64 = 1.2;
const COPY_GOAL: f64 = 1.0;
const UDP_GOAL: f64 = 2.0;
const PING_GOAL_US: f64 = 10.0;

/// The rows of this bench.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    let vtax = place::vtax();
    ensure!(vtax.exists(), "{} is missing; run `make build`", vtax.display());
    let found: Found = apart(|| compare().map_err(|e| format!("{e:#}")))
        .map_err(|e| anyhow::anyhow!("{}", vtax_sys::chain(&e)))?;
    sheet.add_all(found.comparisons.iter().map(Comparison::row))?;
    let overhead = median(found.ping_over_bare_us.clone());
    sheet.add(Row {
        name: format!(
            "ping over loopback, median beyond a bare send and receive{}",
            range(&found.ping_over_bare_us)
        ),
        ours: overhead,
        peer: None,
        unit: "us".to_owned(),
        ratio: Some(overhead / PING_GOAL_US),
        goal: format!("below {PING_GOAL_US}"),
        ok: overhead < PING_GOAL_US,
    })
}

#[derive(Serialize, Deserialize)]
struct Found {
    comparisons: Vec<Comparison>,
    /// By round, in microseconds.
    ping_over_bare_us: Vec<f64>,
}

#[derive(Serialize, Deserialize)]
struct Comparison {
    name: String,
    unit: String,
    goal: f64,
    /// vtax's figure and iperf3's, by round.
    pairs: Vec<(f64, f64)>,
}

impl Comparison {
    fn row(&self) -> Row {
        let ratios: Vec<f64> = self.pairs.iter().map(|(ours, peer)| ours / peer).collect();
        let ratio = median(ratios.clone());
        Row {
            name: format!("{}, beside iperf3{}", self.name, range(&ratios)),
            ours: median(self.pairs.iter().map(|p| p.0).collect()),
            peer: Some(median(self.pairs.iter().map(|p| p.1).collect())),
            unit: self.unit.clone(),
            ratio: Some(ratio),
            goal: format!(">= {}x", self.goal),
            ok: ratio >= self.goal,
        }
    }
}

/// ` (1.31 to 1.52)`: the lowest and the highest.
fn range(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!(" ({low:.2} to {high:.2})")
}

fn compare() -> Result<Found> {
    let loopback = Cable::loopback()?;
    let veth = Cable::veth(LinkProperties::default())?;
    let mut comparisons = Vec::new();
    for (cable, over) in [(&loopback, "loopback"), (&veth, "veth")] {
        let name = |what: &str| format!("{what} over {over}");
        let gbit = "Gbit/CPU-s";
        comparisons.push(pairs(
            cable,
            name("TCP bulk"),
            gbit,
            TCP_GOAL,
            (&Test::tcp(&[]), &Test::iperf_tcp()),
        )?);
        let copying = Test::tcp(&["--copy"]);
        let tests = (&copying, &Test::iperf_tcp());
        comparisons.push(pairs(cable, name("TCP bulk, both ends copy,"), gbit, COPY_GOAL, tests)?);
        let tests = (&Test::udp(), &Test::iperf_udp());
        comparisons.push(pairs(cable, name("UDP as fast as it goes"), "1000/CPU-s", UDP_GOAL, tests)?);
    }
    let ping_over_bare_us = (0..PAIRS).map(|_| ping(&loopback)).collect::<Result<_>>()?;
    Ok(Found { comparisons, ping_over_bare_us })
}

fn pairs(
    cable: &Cable,
    name: String,
    unit: &str,
    goal: f64,
    (ours, peer): (&Test, &Test),
) -> Result<Comparison> {
    let mut pairs = Vec::new();
    for round in 0..PAIRS {
        // In turn, and who is first changes: a host that gets slower is not always slower to the same.
        let first = if round % 2 == 0 { ours } else { peer };
        let second = if round % 2 == 0 { peer } else { ours };
        let (a, b) = (first.per_cpu_second(cable)?, second.per_cpu_second(cable)?);
        pairs.push(if round % 2 == 0 { (a, b) } else { (b, a) });
    }
    Ok(Comparison { name, unit: unit.to_owned(), goal, pairs })
}

/// One program's test.
struct Test {
    program: String,
    server: Vec<String>,
    client: Vec<String>,
    /// What arrived, in the unit of its row.
    arrived: fn(&Value) -> Option<f64>,
}

fn texts(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

impl Test {
    fn vtax(kind: &str, more: &[&str], arrived: fn(&Value) -> Option<f64>) -> Self {
        let duration = format!("{SECONDS}s");
        let client = ["load", kind, "{to}", "--json", "--quiet", "--warmup", "0s", "--duration", &duration];
        Self {
            program: place::vtax().display().to_string(),
            server: texts(&["load", kind, "--server", "--listen", "{to}"]),
            client: texts(&[&client, more].concat()),
            arrived,
        }
    }

    fn tcp(more: &[&str]) -> Self {
        Self::vtax("tcp", more, |found| {
            Some(found.pointer("/result/up/receiver/total_bytes")?.as_f64()? * 8e-9)
        })
    }

    fn udp() -> Self {
        Self::vtax("udp", &["--rate", "max", "--size", DATAGRAM], |found| {
            Some(found.pointer("/result/receiver/total")?.as_f64()? / 1e3)
        })
    }

    fn iperf(more: &[&str], arrived: fn(&Value) -> Option<f64>) -> Self {
        let (port, seconds) = (PORT.to_string(), SECONDS.to_string());
        let client = ["-c", "{host}", "-p", &port, "-t", &seconds, "--json", "--connect-timeout", "5000"];
        Self {
            program: "iperf3".to_owned(),
            server: texts(&["-s", "-1", "-p", &port, "-B", "{host}", "--forceflush"]),
            client: texts(&[&client, more].concat()),
            arrived,
        }
    }

    fn iperf_tcp() -> Self {
        Self::iperf(&[], |found| Some(found.pointer("/end/sum_received/bytes")?.as_f64()? * 8e-9))
    }

    fn iperf_udp() -> Self {
        Self::iperf(&["-u", "-b", "0", "-l", DATAGRAM], |found| {
            let number = |key: &str| found.pointer(&format!("/end/sum/{key}")).and_then(Value::as_f64);
            Some((number("packets")? - number("lost_packets")?) / 1e3)
        })
    }

    fn command(&self, cpu: &str, arguments: &[String], to: IpAddr) -> Command {
        let address = SocketAddr::new(to, PORT).to_string();
        let mut command = Command::new("taskset");
        command.args(["-c", cpu, &self.program]);
        command
            .args(arguments.iter().map(|a| a.replace("{to}", &address).replace("{host}", &to.to_string())));
        command
    }

    /// Runs it once; what arrived for each CPU-second of both ends.
    fn per_cpu_second(&self, cable: &Cable) -> Result<f64> {
        let to = cable.addresses[1];
        let program = &self.program;
        let explain = || format!("running {program} (in Debian: apt install iperf3)");
        let server = cable
            .serve(1, &mut self.command(CPUS[1], &self.server, to), "listening")
            .with_context(explain)?;
        let client = cable.start(0, &mut self.command(CPUS[0], &self.client, to)).with_context(explain)?;
        let client = finish(client, PATIENCE)?;
        // iperf3's ends by itself; vtax's goes on serving until it is ended.
        let server = finish(server, Duration::from_millis(300))?;
        ensure!(client.reaped.status.success(), "{program}: {}\n{}", client.reaped.status, client.output);
        let found =
            serde_json::from_str(&client.output).with_context(|| format!("reading {program}'s output"))?;
        let arrived = (self.arrived)(&found).with_context(|| format!("{program} told no figure"))?;
        ensure!(arrived > 0.0, "{program}: nothing arrived");
        Ok(arrived / (client.reaped.cpu.total().as_secs_f64() + server.reaped.cpu.total().as_secs_f64()))
    }
}

/// By how much the median round trip that vtax tells is longer than one that does nothing but send
/// and receive, in microseconds; one after the other.
fn ping(cable: &Cable) -> Result<f64> {
    let rate = format!("{PINGS_PER_SECOND}/s");
    let mut command = Command::new("taskset");
    command.args(["-c", CPUS[0], &place::vtax().display().to_string(), "load", "ping", "127.0.0.1"]);
    command.args(["--rate", &rate, "--duration", "2s", "--warmup", "0s", "--json", "--quiet"]);
    let ran = finish(cable.start(0, &mut command)?, PATIENCE)?;
    ensure!(ran.reaped.status.success(), "vtax load ping: {}\n{}", ran.reaped.status, ran.output);
    let found: Value = serde_json::from_str(&ran.output).context("reading what vtax load printed")?;
    let median_ns = found.pointer("/figures/latency_ns/0/1").and_then(Value::as_f64).context("no median")?;
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new("taskset");
    command.args(["-c", CPUS[0]]).arg(program).arg("bare-ping");
    let ran = finish(cable.start(0, &mut command)?, PATIENCE)?;
    let bare_us: f64 = ran.output.trim().parse().with_context(|| format!("bare ping: {}", ran.output))?;
    Ok(median_ns / 1e3 - bare_us)
}

/// `cargo xtask bare-ping`: the median of echoes over loopback with nothing done but sending and
/// receiving, in microseconds; with vtax's socket, size, rate and way to wait.
pub(crate) fn bare_ping() -> Result<()> {
    const COUNT: u32 = 2 * PINGS_PER_SECOND;
    /// An echo request with an identifier and 56 bytes of zeros behind its header, as vtax's by default.
    const REQUEST: [u8; 64] = {
        let mut bytes = [0; 64];
        (bytes[0], bytes[4], bytes[5]) = (8, 0x76, 0x78);
        // The sum of 0x0800 and 0x7678, complemented (RFC 1071).
        (bytes[2], bytes[3]) = (0x81, 0x87);
        bytes
    };
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP))?;
    rustix::net::connect(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let gap = Duration::from_secs(1) / PINGS_PER_SECOND;
    let begin = Instant::now();
    let mut trips = Vec::new();
    let mut reply = [0; 128];
    for i in 1..=COUNT {
        let due = begin + gap * i;
        std::thread::sleep(due.saturating_duration_since(Instant::now()).saturating_sub(gap / 50));
        while Instant::now() < due {}
        let sent = Instant::now();
        rustix::net::send(&socket, &REQUEST, SendFlags::empty())?;
        // A raw socket also hears the request; the type is behind an IP header of 20 bytes.
        while rustix::net::recv(&socket, &mut reply[..], RecvFlags::empty())?.0 < 28 || reply[20] != 0 {}
        trips.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    println!("{}", median(trips));
    Ok(())
}
