//! Whether the comparisons are known well enough to stop.
//!
//! One metric per measure decides, the one the measure is named after: the highest rate that
//! passed for a capacity, the median for latency, goodput for throughput; of network tests each its own. The report's intervals
//! cover every metric; tails need more trials than most budgets have, and chasing them would
//! starve the rest.
//!
//! A comparison ends where its interval is narrow: taken within rounds, and widened for having been looked at. It also
//! ends where it is plain: where it would lie beyond the margin even at a fifth of the level that its family is judged at.
//! What comparisons lend each other in the report isn't counted on here.

use std::collections::BTreeMap;

use vtax_load::network::{NetworkResult, TcpFlow};
use vtax_plan::model::{Cell, Plan};
use vtax_stats::{Direction, Group, Ratio, after_looking, narrow, plain, tax};
use vtax_store::LiveWidth;
use vtax_store::record::{Finding, Observation, TrialRecord, Validity};

pub(crate) struct Precision<'a> {
    plan: &'a Plan,
    records: &'a [TrialRecord],
}

impl<'a> Precision<'a> {
    pub(crate) fn new(plan: &'a Plan, records: &'a [TrialRecord]) -> Self {
        Self { plan, records }
    }

    /// True where a comparison that the cell takes part in is neither plain nor as narrow as ± `repeat.until`, or
    /// has no interval yet.
    pub(crate) fn wide(&self, cell: usize, measure: usize) -> bool {
        let id = &self.plan.cells[cell].id;
        self.plan
            .cells
            .iter()
            .filter(|candidate| {
                candidate.baseline.as_deref().is_some_and(|base| base == id || candidate.id == *id)
            })
            .any(|candidate| {
                candidate.baseline.as_ref().is_some_and(|base| self.unsure(&candidate.id, base, measure))
            })
    }

    /// How wide the interval of each comparison still is, where both sides have figures.
    pub(crate) fn widths(&self) -> Vec<LiveWidth> {
        let mut widths = Vec::new();
        for (measure, of) in self.plan.measures.iter().enumerate() {
            for cell in &self.plan.cells {
                let Some(baseline) = &cell.baseline else { continue };
                widths.extend(self.ratios(&cell.id, baseline, measure).into_iter().map(|(test, ratio)| {
                    let finite = |(low, high): &(f64, f64)| low.is_finite() && high.is_finite();
                    LiveWidth {
                        cell: cell.id.clone(),
                        measure: of.name.clone(),
                        test,
                        interval: ratio.interval.filter(finite),
                        narrow: narrow(&ratio, self.plan.repeat.until.0),
                    }
                }));
            }
        }
        widths
    }

    /// A side without a single value will not be helped by more trials of the other.
    fn unsure(&self, candidate: &str, baseline: &str, measure: usize) -> bool {
        let ratios = self.ratios(candidate, baseline, measure);
        let family = comparisons(self.plan);
        let known = |ratio: &Ratio| {
            narrow(ratio, self.plan.repeat.until.0) || plain(ratio, self.plan.margin.0, family)
        };
        ratios.iter().any(|(_, ratio)| !known(ratio))
    }

    /// Whether every comparison of a measure that has figures on both sides has so many rounds; false without any.
    pub(crate) fn has_rounds(&self, measure: usize, rounds: usize) -> bool {
        let pairs = self.plan.cells.iter().filter_map(|c| Some((c, c.baseline.as_ref()?)));
        let mut logs = pairs.flat_map(|(cell, base)| self.logs(&cell.id, base, measure)).peekable();
        logs.peek().is_some() && logs.all(|l| l.len() >= rounds)
    }

    /// Logarithms of the ratios of a comparison by round, for each figure that both sides have.
    pub(crate) fn logs(&self, candidate: &str, baseline: &str, measure: usize) -> Vec<Vec<f64>> {
        let ours = self.sides(candidate, None, measure);
        let duet = self.plan.is_duet(&self.plan.measures[measure]);
        let theirs = self.sides(baseline, duet.then_some(candidate), measure);
        let of = |(of, ours): (&String, &Side)| {
            let theirs = theirs.get(of)?;
            let known = |side: &Side| side.rounds.iter().copied().zip(side.values.clone()).collect();
            let (ours, theirs): (BTreeMap<u32, f64>, BTreeMap<u32, f64>) = (known(ours), known(theirs));
            let both = ours.iter().filter_map(|(round, c)| Some((c / theirs.get(round)?).ln()));
            Some(both.filter(|log| log.is_finite()).collect())
        };
        ours.iter().filter_map(of).collect()
    }

    /// The tax of each figure that both sides have, widened for having been looked at.
    fn ratios(&self, candidate: &str, baseline: &str, measure: usize) -> Vec<(String, Ratio)> {
        let ours = self.sides(candidate, None, measure);
        // Of a pair's baseline only the trials made together with this candidate.
        let duet = self.plan.is_duet(&self.plan.measures[measure]);
        let theirs = self.sides(baseline, duet.then_some(candidate), measure);
        let min = self.plan.repeat.min as usize;
        let of = |(of, ours): (&String, &Side)| {
            let ratio = tax(&ours.group(), &theirs.get(of)?.group(), ours.better, self.plan.seed).ok()?;
            Some((of.clone(), after_looking(&ratio, min)))
        };
        ours.iter().filter_map(of).collect()
    }

    /// The trials of a cell that count, by what was measured in them.
    fn sides(&self, cell: &str, partner: Option<&str>, measure: usize) -> BTreeMap<String, Side> {
        let name = &self.plan.measures[measure].name;
        let paired = |r: &TrialRecord| {
            partner.is_none_or(|cell| r.partner.as_ref().is_some_and(|partner| partner.cell == cell))
        };
        let counts = |r: &&TrialRecord| {
            r.cell == cell && r.measure == *name && r.validity == Validity::Valid && paired(r)
        };
        let mut sides: BTreeMap<String, Side> = BTreeMap::new();
        for record in self.records.iter().filter(counts) {
            for (of, better, value) in figures(record) {
                let new = || Side { better, values: Vec::new(), rounds: Vec::new() };
                let side = sides.entry(of).or_insert_with(new);
                side.values.push(value);
                side.rounds.extend(record.round);
            }
        }
        sides
    }
}

/// How many comparisons the plan makes of the figures that measures are named after.
pub(crate) fn comparisons(plan: &Plan) -> usize {
    let candidates = plan.cells.iter().filter(|c| c.baseline.is_some());
    let figures = |cell: &Cell| plan.measures.len() * cell.workload.model().tests().len().max(1);
    candidates.map(figures).sum()
}

/// What a trial found, each with what it is of: nothing where there is but one figure, else the test.
fn figures(record: &TrialRecord) -> Vec<(String, Direction, f64)> {
    let one = |better, value: Option<f64>| value.map(|v| (String::new(), better, v)).into_iter().collect();
    match record.finding() {
        // Its width is left out: no number of trials makes a bracket narrower.
        Some(Finding::Capacity(c)) => {
            let middle = c.upper.map_or(c.lower.0, |upper| (c.lower.0 * upper.0).sqrt());
            one(Direction::Higher, Some(middle))
        }
        Some(Finding::Latency { load, .. }) => {
            one(Direction::Lower, Some(load.latency.0.value_at_quantile(0.5) as f64))
        }
        Some(Finding::Throughput { load }) => {
            one(Direction::Higher, Some(load.counts.ok as f64 / load.duration.as_secs_f64()))
        }
        Some(Finding::Ims(ims)) => one(Direction::Higher, ims.doc.map(|doc| doc.effective.0)),
        // Faults are repeated as often as the plan says; no tax is made of them.
        Some(Finding::Failover(_) | Finding::Network(_) | Finding::Storage(_) | Finding::Unknown { .. })
        | None => of_tests(record),
    }
}

/// What the tests of a suite found, those that count.
fn of_tests(record: &TrialRecord) -> Vec<(String, Direction, f64)> {
    let counts = record.observations.iter().filter(|test| test.validity == Validity::Valid);
    let figure = |test: &Observation| {
        let (better, value) = match &test.result {
            Some(Finding::Network(found)) => of_test(&found.result),
            Some(Finding::Storage(found)) => (Direction::Higher, found.result.iops()),
            _ => return None,
        };
        Some((test.name.clone(), better, value))
    };
    counts.filter_map(figure).collect()
}

/// The figure that a network test is named after.
fn of_test(result: &NetworkResult) -> (Direction, f64) {
    match result {
        NetworkResult::Tcp(tcp) => {
            (Direction::Higher, [&tcp.up, &tcp.down].into_iter().flatten().map(TcpFlow::goodput).sum())
        }
        NetworkResult::Udp(udp) => (Direction::Higher, udp.goodput()),
        NetworkResult::Ping(ping) => (Direction::Lower, ping.rtt.quantile(0.5).0 as f64),
        NetworkResult::Rr(rr) => {
            (Direction::Higher, rr.transactions as f64 / rr.time.as_secs_f64().max(1e-9))
        }
    }
}

/// The trials of one side of a comparison that count.
struct Side {
    better: Direction,
    values: Vec<f64>,
    /// As many as values, or fewer where an older run didn't write them down.
    rounds: Vec<u32>,
}

impl Side {
    fn group(&self) -> Group<'_> {
        Group::in_rounds(&self.values, &self.rounds)
    }
}
