//! vtax's own clients of iSCSI and NFS beside libiscsi's and libnfs's, on servers that keep everything in memory.
//!
//! What counts is operations per CPU-second of the whole client process, both with the same record and depth; neither verifies. Debian's fio has
//! no engine for either protocol: the peers are libiscsi's own `iscsi-perf`, and thirty lines of C on libnfs that are compiled here.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::{CPU, figure};
use crate::place;
use crate::program::{Server, pinned, run, run_load};
use crate::sheet::Sheet;

const SERVER_CPU: &str = "1";
const ROUNDS: usize = 5;
const SECONDS: u32 = 3;
const DEPTH: u32 = 32;
const RECORD: u64 = 4096;
const GOAL: f64 = 1.2;
/// tgt's own sector.
const BLOCK: u64 = 512;
const TARGET: &str = "iqn.2026-11.vtax:bench";
/// Ganesha's memory keeps so much of a file.
const NFS_FILE: u64 = 2 << 20;
const NFS_PEER: &str = include_str!("nfs_peer.c");

/// The rows of both protocols.
pub(super) fn rows(sheet: &mut Sheet) -> Result<()> {
    let tgt = Tgt::start(64 << 20)?;
    let url = tgt.url();
    let pairs = (0..ROUNDS).map(|_| Ok((ours(&url, 32 << 20, false)?, iscsi_perf(&url)?)));
    row(sheet, "iSCSI on tgt (memory)", "iscsi-perf", pairs.collect::<Result<_>>()?)?;
    drop(tgt);
    let ganesha = Ganesha::start()?;
    let peer = compiled(&ganesha.directory)?;
    let url = format!("nfs://{}/vtax", ganesha.address);
    let pairs = (0..ROUNDS).map(|_| Ok((ours(&url, NFS_FILE, true)?, libnfs(&peer, &ganesha)?)));
    row(sheet, "NFS 4 on ganesha (memory)", "libnfs", pairs.collect::<Result<_>>()?)
}

fn row(sheet: &mut Sheet, what: &str, peer: &str, pairs: Vec<(f64, f64)>) -> Result<()> {
    let name = format!("{what}, 4 KiB random read, depth {DEPTH}, beside {peer}");
    super::beside(sheet, name, &pairs, GOAL)
}

/// Operations per CPU-second of vtax, whose start, laying out and end count as the peers' starts and ends do; the file stays where the
/// peer reads it.
fn ours(url: &str, size: u64, keep: bool) -> Result<f64> {
    let mut command = pinned(CPU, &place::vtax().display().to_string());
    command.args(["load", "storage", url, "--json", "--quiet", "--no-verify", "--cpus", CPU]);
    command.args([
        "--operations",
        "random-read",
        "--size",
        &format!("{size}B"),
        "--record",
        &format!("{RECORD}B"),
    ]);
    command.args(["--depth", &DEPTH.to_string(), "--warmup", "0s", "--duration", &format!("{SECONDS}s")]);
    if keep {
        command.arg("--keep");
    }
    let (report, reaped) = run_load(&mut command)?;
    let report = report.pointer("/operations/0").context("no operation")?;
    let failures = report.pointer("/result/failures").and_then(Value::as_array).map_or(0, Vec::len);
    ensure!(failures == 0, "operations failed");
    Ok(figure(report, "/result/load/counts/ok")? / reaped.cpu.total().as_secs_f64())
}

fn iscsi_perf(url: &str) -> Result<f64> {
    let mut command = pinned(CPU, "iscsi-perf");
    let blocks = (RECORD / BLOCK).to_string();
    command.args(["-m", &DEPTH.to_string(), "-b", &blocks, "-t", &SECONDS.to_string(), "-r", url]);
    let (output, reaped) = run(&mut command, "iscsi-perf")?;
    // It says so again and again; the last is of the whole time.
    let average = output.rsplit("iops average ").next().and_then(|rest| rest.split_whitespace().next());
    let average: f64 = average.and_then(|word| word.parse().ok()).context("iscsi-perf told no average")?;
    Ok(average * f64::from(SECONDS) / reaped.cpu.total().as_secs_f64())
}

fn libnfs(program: &Path, server: &Ganesha) -> Result<f64> {
    let port = server.address.port();
    let url = format!("nfs://127.0.0.1/vtax/vtax-0-0?version=4&nfsport={port}");
    let mut command = pinned(CPU, &program.display().to_string());
    command.args([
        &url,
        &NFS_FILE.to_string(),
        &RECORD.to_string(),
        &DEPTH.to_string(),
        &SECONDS.to_string(),
    ]);
    let (output, reaped) = run(&mut command, "the reader on libnfs")?;
    let reads: f64 = output.trim().parse().context("reading what it read")?;
    Ok(reads / reaped.cpu.total().as_secs_f64())
}

/// The reader on libnfs, compiled.
fn compiled(directory: &TempDir) -> Result<PathBuf> {
    let (source, program) = (directory.path().join("peer.c"), directory.path().join("peer"));
    fs::write(&source, NFS_PEER).context("writing the reader on libnfs")?;
    let mut command = Command::new("cc");
    command.args(["-O2", "-o"]).arg(&program).arg(&source).arg("-l:libnfs.so.13");
    run(&mut command, "cc, which compiles the reader on libnfs (package libnfs-utils)")?;
    Ok(program)
}

/// A tgt of the bench's own with one unit, a sparse file in memory where there is room for that.
pub(super) struct Tgt {
    port: u16,
    directory: TempDir,
    _server: Server,
}

impl Tgt {
    /// With a unit of so many bytes.
    pub(super) fn start(bytes: u64) -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let directory = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let directory = directory.context("making a directory")?;
        let port = vtax_sys::free_port();
        let mut command = pinned(SERVER_CPU, "tgtd");
        command.args(["-f", "--iscsi", &format!("portal=127.0.0.1:{port}")]);
        command.env("TGT_IPC_SOCKET", directory.path().join("control"));
        let mut server = Server::start(&mut command, "tgtd")?;
        server.wait(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())?;
        let this = Self { port, directory, _server: server };
        let unit = this.directory.path().join("unit");
        File::create_new(&unit)?.set_len(bytes).context("making the unit")?;
        this.tell(&["--op", "new", "--mode", "target", "--tid", "1", "-T", TARGET])?;
        let unit = unit.display().to_string();
        this.tell(&["--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", &unit])?;
        this.tell(&["--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL"])?;
        Ok(this)
    }

    /// Tells it something; what it answers.
    fn tell(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new("tgtadm");
        command.args(["--lld", "iscsi"]).args(words);
        command.env("TGT_IPC_SOCKET", self.directory.path().join("control"));
        Ok(run(&mut command, "tgtadm")?.0)
    }

    /// The unit.
    pub(super) fn url(&self) -> String {
        format!("iscsi://127.0.0.1:{}/{TARGET}/1", self.port)
    }
}

/// A ganesha of the bench's own whose files are in its memory. libnfs speaks version 4.0, vtax 4.1.
struct Ganesha {
    address: SocketAddr,
    directory: TempDir,
    _server: Server,
}

impl Ganesha {
    fn start() -> Result<Self> {
        let directory = tempfile::tempdir().context("making a directory")?;
        let recovery = directory.path().join("recovery");
        fs::create_dir(&recovery).context("making a directory")?;
        let port = vtax_sys::free_port();
        let configuration = directory.path().join("ganesha.conf");
        let text = format!(
            "NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {port}; Bind_addr = 127.0.0.1; Enable_NLM = false; Enable_RQUOTA = false; \
             Enable_UDP = false; }}\n\
             NFSv4 {{ Minor_Versions = 0, 1; RecoveryBackend = fs_ng; RecoveryRoot = \"{}\"; Graceless = true; Delegations = false; }}\n\
             MEM {{ Inode_Size = {NFS_FILE}; }}\n\
             EXPORT {{ Export_Id = 1; Path = \"/memory\"; Pseudo = \"/vtax\"; Access_Type = RW; Squash = No_Root_Squash; SecType = sys; \
             Protocols = 4; Transports = TCP; FSAL {{ Name = MEM; }} }}\n\
             LOG {{ Default_Log_Level = WARN; }}\n",
            recovery.display()
        );
        fs::write(&configuration, text).context("writing a configuration")?;
        let mut command = pinned(SERVER_CPU, "ganesha.nfsd");
        command.args(["-F", "-L", "STDERR", "-f"]).arg(&configuration);
        command.arg("-p").arg(directory.path().join("pid"));
        let mut server = Server::start(&mut command, "ganesha.nfsd")?;
        server.wait(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())?;
        Ok(Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), directory, _server: server })
    }
}
