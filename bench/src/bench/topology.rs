//! Routed labs: how soon a topology stands and is gone, beside Mininet's; the study's VPN, stage by stage; and cuts whose
//! length is known, by both times of convergence.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use vtax_store::RunDir;
use vtax_store::record::Finding;
use vtax_units::Nanos;

use super::lab::mininet;
use crate::place::vtax;
use crate::sheet::{Row, Sheet};

/// Nodes, and links between them.
const NODES: usize = 50;
const LINKS: usize = 2 * NODES;
/// Seconds until they stand, and how many times as long Mininet must take.
const UP_WITHIN: f64 = 1.0;
const TIMES: f64 = 5.0;
/// Seconds that taking a lab down may take.
const DOWN_WITHIN: f64 = 1.0;
/// Seconds until the study's VPN stands: on a host whose kernel has what it needs, and in a guest under emulation.
const VPN_ON_HOST: f64 = 10.0;
const VPN_EMULATED: f64 = 45.0;
/// Each is timed so many times, in turn with its peer; medians count.
const TURNS: usize = 5;
/// How long the link of the last row is silent each time, in milliseconds.
const CUTS: [u64; 3] = [100, 1_000, 5_000];
/// How far the two times of one cut may be apart: the interval between two probes, in milliseconds.
const APART: f64 = 1.0;
/// The name of the labs that are timed.
const NAME: &str = "bench";

/// The same nodes and links by Mininet: every node joined to the next and to the seventh after it.
const MININET: &str = "\
import sys, time, mininet.net
from mininet.net import Mininet
mininet.net.fixLimits = lambda: None
count = int(sys.argv[1])
began = time.monotonic()
net = Mininet(controller=None, build=False)
hosts = [net.addHost('h%d' % number) for number in range(count)]
for number in range(count):
    for step in (1, 7):
        net.addLink(hosts[number], hosts[(number + step) % count])
net.build()
net.start()
print(time.monotonic() - began)
";

/// The rows of this bench.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    ensure!(vtax().exists(), "{} is missing; run `make build`", vtax().display());
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    sheet.add_all(plain(directory.path())?)?;
    sheet.add_all(vpn(directory.path())?)?;
    cuts(directory.path(), sheet)
}

/// A lab that stands.
struct Up {
    child: Child,
    /// Seconds from the command's start.
    seconds: f64,
    /// What it said.
    said: String,
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Up {
    fn of(file: &Path) -> Result<Self> {
        let began = Instant::now();
        let mut child = Command::new(vtax())
            .args(["lab", "up", "--name", NAME])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting vtax lab up")?;
        let mut lines = BufReader::new(child.stdout.take().context("no pipe")?).lines();
        let mut said = String::new();
        let mut seconds = None;
        while let Some(line) = lines.next().transpose()? {
            seconds.get_or_insert(began.elapsed().as_secs_f64());
            let _ = writeln!(said, "{line}");
            if line.contains("ends it") {
                break;
            }
        }
        let Some(seconds) = seconds else { bail!("the lab did not stand: {}", child.wait()?) };
        Ok(Self { child, seconds, said })
    }

    /// Seconds that taking it down takes.
    fn down(mut self) -> Result<f64> {
        let began = Instant::now();
        let asked = Command::new(vtax()).args(["lab", "down", "--lab", NAME]).status().context("asking")?;
        let ended = self.child.wait()?;
        ensure!(asked.success() && ended.success(), "vtax lab down: {asked}, {ended}");
        Ok(began.elapsed().as_secs_f64())
    }

    /// Seconds from the start of the routers to the last stage, as it says.
    fn proven(&self) -> Option<f64> {
        let last = self.said.lines().find_map(|line| line.trim().strip_prefix("reach "));
        last.and_then(|rest| rest.trim().strip_suffix(" s")?.trim().parse().ok())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A containerlab file with nodes that are each joined to the next and to the seventh after it.
fn ring() -> String {
    let mut text = "name: ring\ntopology:\n  nodes:\n".to_owned();
    for number in 0..NODES {
        let _ = writeln!(
            text,
            "    h{number}: {{kind: linux, image: host, exec: [ip addr add 10.0.0.{}/8 dev a1]}}",
            number + 1
        );
    }
    text += "  links:\n";
    for number in 0..NODES {
        for step in [1, 7] {
            let to = (number + step) % NODES;
            let _ = writeln!(text, "    - endpoints: ['h{number}:a{step}', 'h{to}:b{step}']");
        }
    }
    text
}

/// Namespaces and links without routing daemons.
fn plain(directory: &Path) -> Result<Vec<Row>> {
    let file = directory.join("ring.clab.yml");
    fs::write(&file, ring()).with_context(|| format!("writing {}", file.display()))?;
    let (mut ups, mut downs, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let up = Up::of(&file)?;
        ups.push(up.seconds);
        downs.push(up.down()?);
        theirs.push(mininet(MININET, NODES)?);
    }
    let (up, down, theirs) = (median(ups), median(downs), median(theirs));
    let name = format!("topology of {NODES} namespaces and {LINKS} links");
    let ratio = theirs / up;
    let beside = Row {
        name: format!("{name} up, Mininet / vtax"),
        ours: up,
        peer: Some(theirs),
        unit: "s".to_owned(),
        ratio: Some(ratio),
        goal: format!(">= {TIMES}"),
        ok: ratio >= TIMES,
    };
    Ok(vec![
        Row::at_most(&format!("{name} up"), up, "s", UP_WITHIN),
        beside,
        Row::at_most(&format!("{name} down"), down, "s", DOWN_WITHIN),
    ])
}

/// The study's VPN: proven, and gone.
fn vpn(directory: &Path) -> Result<Vec<Row>> {
    let file = directory.join("vpn.yaml");
    let plan = "vtax: 1\nname: vpn\nbaseline: {environment: native, path: direct}\nenvironments: native\n\
        paths: [direct, routed]\nservices: http\nworkload: {http: {target: /bytes/10}}\nmeasure: capacity\n";
    fs::write(&file, plan).with_context(|| format!("writing {}", file.display()))?;
    let up = Up::of(&file)?;
    print!("{}", up.said);
    // A guest's routers are told besides the nodes' own names; its kernel is the one that has MPLS.
    let on_host = Path::new("/proc/sys/net/mpls").is_dir();
    let (place, within) = if on_host { ("on the host", VPN_ON_HOST) } else { ("in a guest", VPN_EMULATED) };
    let proven = up.proven().context("vtax lab up told no time of its last stage")?;
    let down = up.down()?;
    Ok(vec![
        Row::at_most(&format!("the study's VPN {place}, proven"), proven, "s", within),
        Row::at_most(&format!("the study's VPN {place}, down"), down, "s", DOWN_WITHIN),
    ])
}

/// A plan in which a link between two routers is silent for known times; no router notices, and no way is left.
fn plan_of_cuts() -> String {
    let mut faults = String::new();
    let mut at = 2_000;
    for cut in CUTS {
        let _ = writeln!(faults, "  - {{at: {at}ms, lossy_link: west-east}}");
        at += cut;
        let _ = writeln!(faults, "  - {{at: {at}ms, restore_link: west-east}}");
        at += 2_000;
    }
    format!(
        "vtax: 1\nname: cuts\nbaseline: {{environment: native, path: direct}}\nenvironments: native\npaths:\n  - direct\n  \
         - routed:\n      topology:\n        custom:\n          routers: [west, east]\n          links: [{{between: [west, \
         east]}}]\n          client: west\n          sut: east\n          timers: standard\nservices: http\nworkload: {{http: \
         {{target: /bytes/10, connections: 4, timeout: 500ms}}}}\nmeasure:\n  - failover: {{load: 50/s, warmup: 500ms, \
         duration: {at}ms}}\nfaults:\n{faults}repeat: {{min: 3, max: 3}}\n"
    )
}

/// How far both times of convergence are apart for cuts of known length, and how far they are from it.
fn cuts(directory: &Path, sheet: &mut Sheet) -> Result<()> {
    let (file, out) = (directory.join("cuts.yaml"), directory.join("cuts"));
    fs::write(&file, plan_of_cuts()).with_context(|| format!("writing {}", file.display()))?;
    let run = Command::new(vtax()).args(["run", "--out"]).arg(&out).arg(&file).stdout(Stdio::null()).status();
    // Whether its trials count for a verdict is not the question here.
    run.context("starting vtax run")?;
    let run = RunDir::open(&out).context("opening the run")?;
    for (number, cut) in CUTS.into_iter().enumerate() {
        let (mut apart, mut off) = (Vec::new(), Vec::new());
        for record in run.trials().context("reading the run")? {
            let Some(Finding::Failover(found)) = record.finding() else { continue };
            let Some(topology) = &found.topology else { continue };
            let [silent, whole] = [2 * number, 2 * number + 1].map(|index| topology.events.get(index));
            let (Some(silent), Some(whole)) = (silent, whole) else { continue };
            // Only packets of the first router are lost, and no other way is found: both events together are the cut.
            let milliseconds = |ns: Nanos| ns.0 as f64 / 1e6;
            let real = milliseconds(whole.at.saturating_sub(silent.at));
            let by_loss = milliseconds(silent.up.by_loss) + milliseconds(whole.up.by_loss);
            let (Some(began), Some(again)) = (silent.up.began, whole.up.whole_again) else {
                bail!("trial {}: a cut of {cut} ms lost nothing, or had no end", record.index);
            };
            let by_rate = real + milliseconds(again) - milliseconds(began);
            apart.push((by_rate - by_loss).abs());
            off.push((by_loss - real).abs());
        }
        ensure!(!apart.is_empty(), "no trial told of the cut of {cut} ms");
        sheet.add_all([
            Row::at_most(&format!("cut of {cut} ms: by loss and by rate apart"), median(apart), "ms", APART),
            Row::at_most(&format!("cut of {cut} ms: by loss and real apart"), median(off), "ms", 5.0 * APART),
        ])?;
    }
    Ok(())
}
