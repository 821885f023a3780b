//! How long a testbed of many nodes takes, beside one of few: growth must stay linear.

use anyhow::{Context, Result, ensure};
use vtax_lab::star::{StarTimes, measure_star};

use crate::bench::Row;
use crate::tasks::vtax;

const FEW: usize = 50;
const MANY: usize = 1000;
const GOAL: f64 = 20.0;
/// Pairs of stars; the two of a pair follow each other, so that a busy host slows both. As in
/// every row, medians are compared; the growth of the shortest times is up to a quarter beyond the
/// goal (1,000 cables on one bridge make the kernel walk its ports).
const PAIRS: usize = 5;

/// The rows of this bench.
pub(crate) fn rows() -> Result<Vec<Row>> {
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
    Ok(vec![up, down])
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
