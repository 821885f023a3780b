//! How long a testbed of many nodes takes, beside one of few, where growth must stay linear; and beside the
//! same in Mininet.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use vtax_testkit::star::{StarTimes, measure_star};

use crate::place::vtax;
use crate::sheet::{Row, Sheet};

const FEW: usize = 50;
const MANY: usize = 1000;
const GOAL: f64 = 20.0;
/// Pairs of stars; the two of a pair follow each other, so that a busy host slows both. As in
/// every row, medians are compared; the growth of the shortest times is up to a quarter beyond the
/// goal (1,000 cables on one bridge make the kernel walk its ports).
const PAIRS: usize = 5;

/// Nodes of the star that Mininet builds as well.
const STAR: usize = 100;
/// Seconds it may take.
const STAR_WITHIN: f64 = 1.0;
/// How many times as long Mininet must take.
const STAR_GOAL: f64 = 5.0;
/// Mininet's star, from its first host to the last one's address: neither the interpreter's start nor its
/// modules count. Raising limits of the whole machine is left out.
const MININET: &str = "\
import sys, time, mininet.net
from mininet.net import Mininet
from mininet.nodelib import LinuxBridge
mininet.net.fixLimits = lambda: None
began = time.monotonic()
net = Mininet(controller=None, build=False)
switch = net.addSwitch('s1', cls=LinuxBridge)
for number in range(int(sys.argv[1])):
    net.addLink(net.addHost('h%d' % number), switch)
net.build()
net.start()
print(time.monotonic() - began)
";

/// The rows of this bench.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    let agent = vtax();
    ensure!(agent.exists(), "{} is missing; run `make build`", agent.display());
    let star = |nodes| measure_star(&agent, nodes).with_context(|| format!("a star of {nodes} nodes"));
    // The first star also pays for what the kernel sets up once.
    star(FEW)?;
    let mut pairs = Vec::new();
    for _ in 0..PAIRS {
        pairs.push((star(FEW)?, star(MANY)?));
    }
    let middle = |of: fn(&(StarTimes, StarTimes)) -> f64| {
        let mut times: Vec<f64> = pairs.iter().map(of).collect();
        times.sort_by(f64::total_cmp);
        times[PAIRS / 2]
    };
    let up = row("up", middle(|p| p.1.up_seconds), middle(|p| p.0.up_seconds));
    let down = row("down", middle(|p| p.1.down_seconds), middle(|p| p.0.down_seconds));
    sheet.add_all([up, down])?;
    sheet.add_all(stars(&star)?)
}

/// A star of vtax's and one of Mininet's, in turn.
fn stars(star: &dyn Fn(usize) -> Result<StarTimes>) -> Result<[Row; 2]> {
    let mut pairs = Vec::new();
    for _ in 0..PAIRS {
        pairs.push((star(STAR)?.up_seconds, mininet(MININET, STAR)?));
    }
    let middle = |of: fn(&(f64, f64)) -> f64| {
        let mut times: Vec<f64> = pairs.iter().map(of).collect();
        times.sort_by(f64::total_cmp);
        times[PAIRS / 2]
    };
    let (ours, theirs) = (middle(|p| p.0), middle(|p| p.1));
    let name = format!("star of {STAR} nodes up");
    let unit = "s".to_owned();
    let alone = Row {
        name: name.clone(),
        ours,
        peer: None,
        unit: unit.clone(),
        ratio: None,
        goal: format!("<= {STAR_WITHIN} s"),
        ok: ours <= STAR_WITHIN,
    };
    let ratio = theirs / ours;
    let beside = Row {
        name: format!("{name}, Mininet / vtax"),
        ours,
        peer: Some(theirs),
        unit,
        ratio: Some(ratio),
        goal: format!(">= {STAR_GOAL}"),
        ok: ratio >= STAR_GOAL,
    };
    Ok([alone, beside])
}

/// Seconds that a script takes with Mininet, as it prints. It runs in namespaces that end with it, and take all it made along.
pub(super) fn mininet(script: &str, nodes: usize) -> Result<f64> {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc"]);
    // Its temporary files are private.
    command.args(["/bin/sh", "-ec", "mount -t tmpfs none /tmp; mount -t tmpfs none /run; exec \"$@\"", "sh"]);
    command.args(["/usr/bin/python3", "-I", "-B", "-c", script, &nodes.to_string()]);
    let output = command.stdin(Stdio::null()).output().context("starting unshare")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "Mininet (in Debian: apt install mininet bridge-utils): {said}");
    let printed = String::from_utf8_lossy(&output.stdout);
    let seconds = printed.lines().last().and_then(|line| line.trim().parse().ok());
    seconds.with_context(|| format!("Mininet printed `{}`", printed.trim()))
}

fn row(what: &str, many: f64, few: f64) -> Row {
    let ratio = many / few;
    Row {
        name: format!("testbed of {MANY} namespaces {what} / of {FEW}"),
        ours: many,
        peer: Some(few),
        unit: "s".to_owned(),
        ratio: Some(ratio),
        goal: format!("<= {GOAL}"),
        ok: ratio <= GOAL,
    }
}
