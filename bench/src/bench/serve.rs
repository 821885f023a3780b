//! The page: how soon 10,000 runs are listed, in how much memory, and what following a run in progress costs.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use vtax_fixture as fixture;
use vtax_store::{LiveState, LiveWriter, Provenance, RunDir};
use vtax_sys::cpu_clock::process_cpu;

use crate::place;
use crate::program::Server;
use crate::sheet::{Row, Sheet};

const RUNS: usize = 10_000;
/// How long a run is followed.
const FOLLOWED: Duration = Duration::from_secs(30);
/// Seconds between two trials of it.
const TRIAL: u64 = 5;

const MOST_SECONDS: f64 = 1.0;
const MOST_MIB: f64 = 50.0;
const MOST_SHARE: f64 = 0.01;

/// Makes up the runs, and has `target/vtax serve` list and follow them.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let (root, cache) = (directory.path().join("runs"), directory.path().join("cache"));
    let model = model(&directory.path().join("model"))?;
    make_up(&model, &root)?;
    // The first start reads all runs; what is judged is the second, which has what the first kept.
    let first = Page::start(&root, &cache)?;
    first.until_listed(RUNS, Duration::from_secs(120))?;
    // The index is written after the last run was read.
    let kept = |deadline: Instant| -> bool {
        let is = |entry: fs::DirEntry| entry.path().extension().is_some_and(|e| e == "jsonl");
        let found = fs::read_dir(cache.join("serve")).is_ok_and(|entries| entries.flatten().any(is));
        found || Instant::now() > deadline
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while !kept(deadline) {
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(first);
    let page = Page::start(&root, &cache)?;
    let listed = page.until_listed(RUNS, Duration::from_secs(60))?;
    let again = page.until_listed(RUNS, Duration::from_secs(60))?;
    let memory = page.resident_mib()?;
    let share = follow(&page, &model, &root)?;
    sheet.add_all([
        Row::at_most("page: 10,000 runs listed right after its start", listed, "s", MOST_SECONDS),
        Row::at_most("page: 10,000 runs listed again", again, "s", MOST_SECONDS),
        Row::at_most("page: memory with 10,000 runs", memory, "MiB", MOST_MIB),
        Row::at_most("page: CPU while a run is followed", share, "of a core", MOST_SHARE),
    ])
}

/// A run whose parts the others are made of.
fn model(path: &Path) -> Result<RunDir> {
    let options = fixture::Options { repetitions: 4, seconds: 5, rate: 500, ..fixture::Options::default() };
    let run = fixture::create(path, &options).context("making up a run")?;
    let status = Command::new(place::vtax())
        .args(["report", "--format", "json"])
        .arg(path)
        .stdout(std::process::Stdio::null())
        .status()
        .context("starting target/vtax; `make build` makes it")?;
    ensure!(status.success(), "vtax report: {status}");
    Ok(run)
}

/// Runs as a list sees them: whole, but for their trials.
fn make_up(model: &RunDir, root: &Path) -> Result<()> {
    let names = ["journal.jsonl", "provenance.json", "summary.json", "plan.yaml"];
    let texts = names.map(|name| fs::read(model.path().join(name)));
    for i in 0..RUNS {
        let run = root.join(format!("{:03}", i / 100)).join(format!("run-{i:05}"));
        fs::create_dir_all(&run)?;
        for (name, text) in names.iter().zip(&texts) {
            let text = text.as_ref().map_err(|e| anyhow::anyhow!("reading {name}: {e}"))?;
            // A journal's lines of trials would take 10 GB here; its ends are what a list reads.
            if *name == "journal.jsonl" {
                let lines: Vec<&[u8]> = text.split(|b| *b == b'\n').filter(|line| !line.is_empty()).collect();
                let ends = [lines[0], b"\n", lines[lines.len() - 1], b"\n"].concat();
                fs::write(run.join(name), ends)?;
            } else {
                fs::write(run.join(name), text)?;
            }
        }
    }
    Ok(())
}

/// `vtax serve`.
struct Page {
    server: Server,
    address: String,
    token: String,
}

impl Page {
    fn start(root: &Path, cache: &Path) -> Result<Self> {
        let address = format!("127.0.0.1:{}", vtax_sys::free_port());
        let mut command = Command::new(place::vtax());
        command.arg("serve").arg(root).args(["--listen", &address]).env("VTAX_CACHE", cache);
        let mut server = Server::start(&mut command, "vtax serve")?;
        server.wait(|out| out.contains("token="))?;
        let out = server.said("stdout");
        let token = out.trim().rsplit("token=").next().unwrap_or_default().to_owned();
        Ok(Self { server, address, token })
    }

    fn ask(&self, path: &str) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
            self.address, self.token
        );
        stream.write_all(request.as_bytes())?;
        Ok(stream)
    }

    /// Seconds until the page of all runs has so many.
    fn until_listed(&self, runs: usize, most: Duration) -> Result<f64> {
        let began = Instant::now();
        loop {
            let mut text = Vec::new();
            self.ask("/")?.read_to_end(&mut text)?;
            let text = String::from_utf8_lossy(&text);
            if text.contains(&format!("{runs} of {runs} runs.")) && !text.contains("being read") {
                return Ok(began.elapsed().as_secs_f64());
            }
            ensure!(began.elapsed() < most, "{runs} runs were not listed within {most:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn resident_mib(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.server.id()))?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.split_whitespace().next().context("no number")?.parse::<f64>()? / 1024.0)
    }

    fn cpu(&self) -> Result<f64> {
        Ok(process_cpu(self.server.id()).context("its CPU time")?.as_secs_f64())
    }
}

/// The share of a core that following a run takes, by one client who draws it anew after each trial, as the script does.
fn follow(page: &Page, model: &RunDir, root: &Path) -> Result<f64> {
    let provenance = Provenance { run_id: String::new(), ended_unix_ms: None, ..model.provenance()? };
    let path = root.join("followed");
    let mut run = RunDir::create(&path, &model.plan()?, &provenance)?;
    let mut live = LiveWriter::create(&path)?;
    let mut records = model.trials()?.into_iter();
    page.until_listed(RUNS + 1, Duration::from_secs(60))?;
    let mut list = String::new();
    page.ask("/?state=running")?.read_to_string(&mut list)?;
    let id = list.split("href=\"/run/").nth(1).and_then(|r| r.split('"').next()).context("no run goes on")?;
    let events = page.ask(&format!("/run/{id}/events"))?;
    let before = page.cpu()?;
    let began = Instant::now();
    let mut second = 0;
    while began.elapsed() < FOLLOWED {
        second += 1;
        live.append(&LiveState {
            at_unix_ms: second,
            phase: format!("second {second}"),
            ..LiveState::default()
        })?;
        if second % TRIAL == 0
            && let Some(record) = records.next()
        {
            let trial = run.begin_trial(&record.cell, &record.measure, record.repetition)?;
            run.finish_trial(trial, record)?;
            let mut drawn = Vec::new();
            page.ask(&format!("/run/{id}/progress"))?.read_to_end(&mut drawn)?;
        }
        std::thread::sleep(Duration::from_secs(second).saturating_sub(began.elapsed()));
    }
    let share = (page.cpu()? - before) / began.elapsed().as_secs_f64();
    drop(events);
    Ok(share)
}
