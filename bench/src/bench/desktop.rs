//! The generator of desktop users beside other clients, what its idle sessions take, and its latency beside a packet capture.
//!
//! A desktop of TigerVNC is recorded while somebody works on it, and the recording is played to every client alike. Ours decodes
//! everything but keeps the marker's rows alone, as it does wherever no picture is wanted; the others draw it. What counts is CPU
//! time per update of the client's process; a second, shorter play is taken off, and with it what it costs to start.

mod capture;
mod peers;
mod player;
mod recording;

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vtax_sys::reap::Reaped;
use vtax_wire::rfb::Encoding;

use crate::place;
use crate::program::{GENERATOR_LIMITED, Server, median, pinned, run_load, run_load_to};
use crate::sheet::{Row, Sheet};
use peers::{Peer, Viewer};
use player::{Player, Then};
use recording::Recording;

const CLIENT_CPU: &str = "0";
const SERVER_CPU: &str = "1";
const ROUNDS: usize = 3;
/// Updates of a play, and of the one that is taken off.
const MANY: usize = 900;
const FEW: usize = 100;
/// Length of a load that takes a play, in seconds: far more than it needs.
const SECONDS: u32 = 4;
/// Decoding may cost this share of a peer's CPU time.
const DECODING: f64 = 1.0 / 3.0;
const IDLE: u16 = 100;
const IDLE_MIB: f64 = 100.0;
const MIB: f64 = 1024.0 * 1024.0;

/// The rows of this bench.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    let desktop = Desktop::start()?;
    let viewer = Viewer::start()?;
    // First, while this process has no long recordings: a program's peak of memory begins with that of who starts it.
    sheet.add(idle(&Arc::new(Recording::of(desktop.address, Encoding::Tight, 1)?))?)?;
    for (encoding, peers) in [
        (Encoding::Zrle, &[Peer::Vncdotool, Peer::Tigervnc][..]),
        (Encoding::Hextile, &[Peer::Vncdotool, Peer::Tigervnc]),
        (Encoding::Tight, &[Peer::Tigervnc]),
    ] {
        let recording = Arc::new(Recording::of(desktop.address, encoding, MANY)?);
        for peer in peers {
            sheet.add(decoding(&recording, encoding, *peer, &viewer)?)?;
        }
    }
    sheet.add(capture::row(desktop.address)?)
}

/// CPU time per update beside a peer.
fn decoding(recording: &Arc<Recording>, encoding: Encoding, peer: Peer, viewer: &Viewer) -> Result<Row> {
    let mut pairs = Vec::new();
    // In turn, so that a noisy host is noisy to both.
    for _ in 0..ROUNDS {
        let ours = per_update(recording, |player, _| ours(player, encoding))?;
        let peer = per_update(recording, |player, updates| peer.play(player, updates, encoding, viewer))?;
        pairs.push((ours, peer));
    }
    let ratio = median(pairs.iter().map(|(ours, peer)| ours / peer).collect());
    Ok(Row {
        name: format!("desktop, an update in {}, beside {}", encoding.name(), peer.name()),
        ours: median(pairs.iter().map(|p| p.0).collect()) * 1e6,
        peer: Some(median(pairs.iter().map(|p| p.1).collect()) * 1e6),
        unit: "CPU us".to_owned(),
        ratio: Some(ratio),
        goal: format!("<= {DECODING:.2}x"),
        ok: ratio <= DECODING,
    })
}

/// CPU seconds of a client per update: the difference of two plays.
fn per_update(recording: &Arc<Recording>, client: impl Fn(&Player, usize) -> Result<Reaped>) -> Result<f64> {
    let mut cpu = [0.0; 2];
    for (cpu, updates) in cpu.iter_mut().zip([FEW, MANY]) {
        let player = Player::start(recording, 1, updates, Then::Close)?;
        *cpu = client(&player, updates)?.cpu.total().as_secs_f64();
        ensure!(player.played() == updates, "the client took {} of {updates} updates", player.played());
    }
    Ok((cpu[1] - cpu[0]) / (MANY - FEW) as f64)
}

fn load(first: SocketAddr) -> Command {
    let mut command = pinned(CLIENT_CPU, &place::vtax().display().to_string());
    command.args(["load", "desktop", &first.to_string(), "--json", "--quiet", "--cpus", CLIENT_CPU]);
    command
}

fn ours(player: &Player, encoding: Encoding) -> Result<Reaped> {
    let mut command = load(player.first);
    command.args(["--connections", "1", "--encoding", &encoding.name().to_lowercase(), "--warmup", "0s"]);
    command.args(["--duration", &format!("{SECONDS}s")]);
    Ok(run_load(&mut command)?.1)
}

/// Memory of sessions on which nothing happens once their pictures are there.
fn idle(recording: &Arc<Recording>) -> Result<Row> {
    let player = Player::start(recording, IDLE, 1, Then::Hold)?;
    let mut command = load(player.first);
    command.args(["--connections", &IDLE.to_string(), "--rate", "1/s", "--user-rate", "0.01/s"]);
    command.args(["--timeout", "60s", "--warmup", "3s", "--duration", "3s"]);
    // Nobody answers what they do, and a busy machine may let the generator start it late.
    let (report, reaped) = run_load_to(&mut command, &[0, 1, GENERATOR_LIMITED])?;
    let connected = report.pointer("/result/details/desktop/connected").and_then(Value::as_u64);
    ensure!(connected == Some(IDLE.into()), "{connected:?} of {IDLE} sessions are connected");
    let mib = reaped.resident_bytes_max as f64 / MIB;
    Ok(Row {
        name: format!("desktop, {IDLE} idle sessions, resident memory"),
        ours: mib,
        peer: None,
        unit: "MiB".to_owned(),
        ratio: None,
        goal: format!("<= {IDLE_MIB} MiB"),
        ok: mib <= IDLE_MIB,
    })
}

/// TigerVNC with vtax's content on it, for as long as this lives.
struct Desktop {
    address: SocketAddr,
    _server: Server,
    _content: Server,
}

impl Desktop {
    fn start() -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, vtax_sys::free_port()));
        let port = address.port().to_string();
        let mut command = pinned(SERVER_CPU, "Xvnc");
        command.args([&format!(":{port}"), "-rfbport", &port, "-geometry", "1024x768", "-depth", "24"]);
        command.args(["-SecurityTypes", "None", "-interface", "127.0.0.1", "-nolisten", "tcp"]);
        command.arg("-AlwaysShared");
        let mut server = Server::start(&mut command, "Xvnc")?;
        server.wait(|_| TcpStream::connect(address).is_ok())?;
        let mut command = pinned(SERVER_CPU, &place::vtax().display().to_string());
        command.args(["service", "desktop", "--display", &port]);
        let mut content = Server::start(&mut command, "vtax service desktop")?;
        content.wait(|said| said.contains("on display")).context("showing something")?;
        Ok(Self { address, _server: server, _content: content })
    }
}
