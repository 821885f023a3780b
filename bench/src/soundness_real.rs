//! `cargo xtask soundness --real [N]`, and `--neighbours [N]`: real comparisons of the baseline with itself, alone and
//! beside a quiet neighbour. How many are called different?

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use vtax_store::RunDir;
use vtax_store::summary::{Comparison, Verdict};

use crate::place::{root, vtax};

/// Comparisons of equals.
pub(crate) struct Campaign {
    /// Where it leaves what it found, in `target`.
    file: &'static str,
    plan: &'static str,
    /// How many unless asked for more or fewer.
    pub(crate) usual: u32,
    /// How many of so many may be called different.
    most: fn(u32) -> u32,
}

/// Native against native under another name.
pub(crate) const ALONE: Campaign =
    Campaign { file: "soundness-real.json", plan: PLAN, usual: 40, most: |n| n.div_ceil(40) };
/// Native beside a quiet neighbour against native beside another.
pub(crate) const NEIGHBOURS: Campaign =
    Campaign { file: "soundness-neighbours.json", plan: BESIDE, usual: 10, most: |n| n / 20 };

/// What the report's first table shows of this plan.
const FIRST: [&str; 3] = ["latency_p50", "latency_p99", "cpu_per_request"];

/// Native against native under another name, about 15 s each: the stopping rule at work, as in any plan.
const PLAN: &str = "\
vtax: 1
name: equals
description: Is native called different from native?
baseline: native
environments: [native, native: {name: again}]
services: http
workload:
  http: {target: /page/100, connections: 16}
measure:
  - latency: {load: 500/s, warmup: 300ms, duration: 1s}
repeat: {min: 4, max: 8, until: 3%, budget: 20s}
margin: 5%
budget: {sut_cpus: 1, client_cpus: 1}
";

/// The same with a system beside it that stands, has its service and is asked for nothing.
const BESIDE: &str = "\
vtax: 1
name: equals
description: Is one quiet neighbour called different from another?
baseline: {environment: native, systems: quiet}
environments: native
services: http
workload:
  http: {target: /page/100, connections: 16}
systems:
  - name: quiet
    beside: {name: tenant, service: http, workload: {http: {target: /page/100}}, load: idle}
  - name: again
    beside: {name: tenant, service: http, workload: {http: {target: /page/100}}, load: idle}
measure:
  - latency: {load: 500/s, warmup: 300ms, duration: 1s}
repeat: {min: 4, max: 8, until: 3%, budget: 20s}
margin: 5%
budget: {sut_cpus: 1, client_cpus: 1}
";

/// What came of one comparison.
#[derive(Debug, Serialize)]
struct Outcome {
    seed: u32,
    /// Metrics of the first table that were called different.
    different: Vec<String>,
    /// Of the others.
    different_elsewhere: Vec<String>,
    equivalent: usize,
    cant_tell: usize,
    rounds: u32,
}

/// Runs `n` comparisons with `target/vtax`, prints what came of each and writes it to a file in `target`.
pub(crate) fn run(campaign: &Campaign, n: u32) -> Result<()> {
    ensure!(vtax().is_file(), "{} is missing: run `make build` first", vtax().display());
    let directory = tempfile::tempdir().context("making a directory for the runs")?;
    let plan = directory.path().join("equals.yaml");
    std::fs::write(&plan, campaign.plan).with_context(|| format!("writing {}", plan.display()))?;
    let mut outcomes = Vec::new();
    for seed in 1..=n {
        let out = directory.path().join(format!("run-{seed}"));
        let outcome = one(&plan, &out, seed).with_context(|| format!("comparison {seed}"))?;
        println!("{seed:>3}: {}", words(&outcome));
        outcomes.push(outcome);
        // A campaign of forty need not keep forty runs.
        std::fs::remove_dir_all(&out).with_context(|| format!("removing {}", out.display()))?;
    }
    let path = root().join("target").join(campaign.file);
    std::fs::write(&path, serde_json::to_vec_pretty(&outcomes)?)
        .with_context(|| format!("writing {}", path.display()))?;
    let different = outcomes.iter().filter(|o| !o.different.is_empty()).count();
    let elsewhere = outcomes.iter().filter(|o| !o.different_elsewhere.is_empty()).count();
    let most = (campaign.most)(n);
    let mark = if different <= most as usize { "ok" } else { "MISSED" };
    println!("{different} of {n} real A/A comparisons called different (goal: at most {most}) {mark}");
    println!("in metrics outside the first table: {elsewhere} of {n}");
    let empty = outcomes.iter().filter(|o| o.rounds == 0).count();
    if empty > 0 {
        println!("{empty} of {n} compared nothing: the machine was too busy, and they prove nothing");
    }
    Ok(())
}

fn one(plan: &Path, out: &Path, seed: u32) -> Result<Outcome> {
    let run = Command::new(vtax())
        .args(["run", "--set", &format!("seed={seed}"), "--out"])
        .arg(out)
        .arg(plan)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {}", vtax().display()))?;
    // A run whose trials were all disturbed fails, and has a summary that says so: no verdict, no false one.
    let summary = RunDir::open(out).and_then(|r| r.summary()).with_context(|| {
        let said = String::from_utf8_lossy(&run.stderr).trim().to_owned();
        format!("vtax run ended with {}: {said}", run.status)
    })?;
    let of = |verdicts: &[Verdict], first: bool| -> Vec<&Comparison> {
        let all = summary.comparisons.iter();
        all.filter(|c| verdicts.contains(&c.verdict) && FIRST.contains(&c.metric.as_str()) == first).collect()
    };
    let names =
        |found: Vec<&Comparison>| found.iter().map(|c| format!("{} {}", c.measure, c.metric)).collect();
    Ok(Outcome {
        seed,
        different: names(of(&[Verdict::Better, Verdict::Worse], true)),
        different_elsewhere: names(of(&[Verdict::Better, Verdict::Worse], false)),
        equivalent: of(&[Verdict::Equivalent], true).len(),
        cant_tell: of(&[Verdict::Inconclusive], true).len(),
        rounds: summary.comparisons.iter().filter_map(|c| c.rounds).max().unwrap_or_default(),
    })
}

fn words(o: &Outcome) -> String {
    let different = match o.different.as_slice() {
        [] => "none different".to_owned(),
        some => format!("DIFFERENT: {}", some.join(", ")),
    };
    format!("{different}, {} equivalent, {} can't tell, {} rounds", o.equivalent, o.cant_tell, o.rounds)
}
