//! Whether the comparisons are known well enough to stop.
//!
//! One metric per measure decides, the one the measure is named after: the highest rate that
//! passed for a capacity, the median for latency (of SIP that of the call's setup), goodput for throughput; of network tests each its
//! own, of datagrams none. The report's intervals
//! cover every metric; tails need more trials than most budgets have, and chasing them would
//! starve the rest.
//!
//! A comparison ends where its interval is narrow: taken within rounds, widened for having been looked at, and without what more
//! rounds don't reduce. It also ends where it is plain: where it would lie beyond the margin even at a fifth of the level that the
//! strongest of its family is judged at.
//! What comparisons lend each other in the report isn't counted on here.
//!
//! Which comparison gets the next round: those that the plan asks first, and of those the one whose end is nearest.

use std::collections::BTreeMap;

use vtax_load::LatencyHistogram;
use vtax_load::network::{NetworkResult, TcpFlow};
use vtax_plan::model::{Cell, Measure, MeasureKind, NetworkTestKind, Plan, Primary, Scenario, SipMetric};
use vtax_stats::{ALPHA, Direction, Family, Group, Ratio, after_looking, further, narrow, plain, tax};
use vtax_store::LiveComparison;
use vtax_store::ims::ImsOutcome;
use vtax_store::record::{Finding, Observation, TrialRecord, Validity};
use vtax_units::Nanos;
use vtax_units::metric::{
    CAPACITY, DOC, LATENCY_P50, Metric, PMM1_P50, REG2_P50, RR_RATE, RTT_P50, SES1_P50, TCP_GOODPUT,
    THROUGHPUT, VOICE_MOS,
};

/// Of the chance of a false claim, the share of what the plan asks first; the rest has what is left, and more where all of
/// that differs, or all of it is equal.
pub(crate) const ASKED_FIRST: f64 = 0.8;

pub(crate) struct Precision<'a> {
    plan: &'a Plan,
    records: &'a [TrialRecord],
    families: Families,
}

impl<'a> Precision<'a> {
    pub(crate) fn new(plan: &'a Plan, records: &'a [TrialRecord]) -> Self {
        Self { plan, records, families: Families::of(plan) }
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
                candidate.baseline.as_ref().is_some_and(|base| self.unsure(candidate, base, measure))
            })
    }

    /// How far each comparison is, where both sides have figures.
    pub(crate) fn live_comparisons(&self) -> Vec<LiveComparison> {
        let mut all = Vec::new();
        for (measure, of) in self.plan.measures.iter().enumerate() {
            for cell in &self.plan.cells {
                let Some(baseline) = &cell.baseline else { continue };
                let found = self.found(cell, baseline, measure);
                all.extend(found.iter().map(|found| self.live_comparison(cell, of, found)));
            }
        }
        all
    }

    /// One comparison, as those who follow the run are told of it.
    fn live_comparison(&self, cell: &Cell, measure: &Measure, found: &Found) -> LiveComparison {
        let (ratio, repeat) = (&found.ratio, &self.plan.repeat);
        let (min, max) = (repeat.min as usize, repeat.max as usize);
        let looked = after_looking(ratio, min);
        let finite = |(low, high): &(f64, f64)| low.is_finite() && high.is_finite();
        let trials = ratio.candidate_trials.min(ratio.baseline_trials);
        let more = further(ratio, (min, max), repeat.until.0, self.plan.margin.0, found.family);
        LiveComparison {
            cell: cell.id.clone(),
            measure: measure.name.clone(),
            test: found.test.clone(),
            interval: looked.interval.filter(finite),
            narrow: narrow(&looked, repeat.until.0),
            rounds: ratio.rounds.unwrap_or(trials) as u32,
            further: more.map(|more| more as u32),
            decided: self.known(found),
        }
    }

    /// A side without a single value will not be helped by more trials of the other.
    fn unsure(&self, candidate: &Cell, baseline: &str, measure: usize) -> bool {
        self.found(candidate, baseline, measure).iter().any(|found| !self.known(found))
    }

    fn known(&self, found: &Found) -> bool {
        let repeat = &self.plan.repeat;
        let (min, max) = (repeat.min as usize, repeat.max as usize);
        let looked = after_looking(&found.ratio, min);
        narrow(&looked, repeat.until.0) || plain(&looked, self.plan.margin.0, found.family, (min, max))
    }

    /// How soon a measure deserves more rounds: the smaller, the sooner.
    pub(crate) fn urgency(&self, measure: usize) -> Urgency {
        let repeat = &self.plan.repeat;
        let rounds = (repeat.min as usize, repeat.max as usize);
        let pairs = self.plan.cells.iter().filter_map(|c| Some((c, c.baseline.as_ref()?)));
        let of = |(cell, base): (&Cell, &String)| {
            let open = self.found(cell, base, measure).into_iter().filter(|found| !self.known(found));
            let urgency = |found: Found| Urgency {
                asked_later: !self.asked_first(cell, measure, &found.test),
                further: further(&found.ratio, rounds, repeat.until.0, self.plan.margin.0, found.family)
                    .unwrap_or(usize::MAX),
            };
            open.map(urgency).min()
        };
        pairs.filter_map(of).min().unwrap_or(Urgency { asked_later: true, further: usize::MAX })
    }

    /// Whether the plan names this comparison as one that it is about, in whatever metric.
    pub(crate) fn asked_first(&self, cell: &Cell, measure: usize, test: &str) -> bool {
        let primary = self.plan.primary.as_ref();
        primary.is_some_and(|primary| names(primary, cell, &self.plan.measures[measure], test))
    }

    /// Whether every comparison of a measure that has figures on both sides has so many rounds; false without any.
    pub(crate) fn has_rounds(&self, measure: usize, rounds: usize) -> bool {
        let pairs = self.plan.cells.iter().filter_map(|c| Some((c, c.baseline.as_ref()?)));
        let mut logs = pairs.flat_map(|(cell, base)| self.logs(&cell.id, base, measure)).peekable();
        logs.peek().is_some() && logs.all(|l| l.values.len() >= rounds)
    }

    /// Logarithms of the ratios of a comparison by round, for each figure that both sides have and the report reads first.
    pub(crate) fn logs(&self, candidate: &str, baseline: &str, measure: usize) -> Vec<Logs> {
        let ours = self.sides(candidate, None, measure);
        let duet = self.plan.is_duet(&self.plan.measures[measure]);
        let theirs = self.sides(baseline, duet.then_some(candidate), measure);
        let of = |(of, ours): (&String, &Side)| {
            let theirs = theirs.get(of)?;
            let known = |side: &Side| side.rounds.iter().copied().zip(side.values.clone()).collect();
            let (metric, resolution) = (ours.metric, ours.resolution.hypot(theirs.resolution));
            let (ours, theirs): (BTreeMap<u32, f64>, BTreeMap<u32, f64>) = (known(ours), known(theirs));
            let both = ours.iter().filter_map(|(round, c)| Some((c / theirs.get(round)?).ln()));
            let values = both.filter(|log| log.is_finite()).collect();
            Some(Logs { test: of.clone(), metric, values, resolution })
        };
        ours.iter().filter_map(of).collect()
    }

    /// The tax of each figure that both sides have, as it was found.
    fn found(&self, candidate: &Cell, baseline: &str, measure: usize) -> Vec<Found> {
        let ours = self.sides(&candidate.id, None, measure);
        // Of a pair's baseline only the trials made together with this candidate.
        let duet = self.plan.is_duet(&self.plan.measures[measure]);
        let theirs = self.sides(baseline, duet.then_some(candidate.id.as_str()), measure);
        let of = |(test, ours): (&String, &Side)| {
            let ratio = tax(&ours.group(), &theirs.get(test)?.group(), ours.better, self.plan.seed).ok()?;
            let family = self.family(candidate, measure, test, ours.metric);
            Some(Found { test: test.clone(), ratio, family })
        };
        ours.iter().filter_map(of).collect()
    }

    /// What the report judges a comparison together with.
    fn family(&self, cell: &Cell, measure: usize, test: &str, metric: Metric) -> Family {
        let name = of_test_named(&self.plan.measures[measure].name, test);
        let primary = self.plan.primary.as_ref();
        let is_first =
            primary.is_some_and(|primary| primary.names(&cell.environment.name, &name, metric.name));
        if is_first { self.families.asked_first } else { self.families.others }
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
            for Figure { test, metric, better, value, resolution } in figures(record) {
                let new = || Side { metric, better, values: Vec::new(), rounds: Vec::new(), resolution: 0.0 };
                let side = sides.entry(test).or_insert_with(new);
                side.resolution = side.resolution.max(resolution);
                side.values.push(value);
                side.rounds.extend(record.round);
            }
        }
        sides
    }
}

/// A comparison as it was found.
struct Found {
    /// Empty where a trial is no suite of tests.
    test: String,
    ratio: Ratio,
    family: Family,
}

/// What the report judges together, as far as a plan tells.
#[derive(Debug, Clone, Copy)]
struct Families {
    asked_first: Family,
    /// The first table's others.
    others: Family,
}

impl Families {
    fn of(plan: &Plan) -> Self {
        let (all, first) = (comparisons(plan), asked_first(plan));
        let family = |members: usize, share: f64| Family { members, alpha: share * ALPHA };
        match &plan.primary {
            Some(primary) if first > 0 => {
                // Which measures have the metrics that are named only the report knows: the others may be as many as all.
                let others = if primary.metrics.is_empty() { all.saturating_sub(first) } else { all };
                Self { asked_first: family(first, ASKED_FIRST), others: family(others, 1.0 - ASKED_FIRST) }
            }
            _ => Self { asked_first: family(all, 1.0), others: family(all, 1.0) },
        }
    }
}

/// How soon something deserves more rounds: the smaller, the sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Urgency {
    /// The plan doesn't ask it first.
    pub(crate) asked_later: bool,
    /// Rounds to the end of the comparison that is nearest to it; the most there can be where none is in reach.
    pub(crate) further: usize,
}

/// The ratios of one comparison.
pub(crate) struct Logs {
    /// Empty where a trial is no suite of tests.
    pub(crate) test: String,
    pub(crate) metric: Metric,
    /// Logarithms, by round.
    pub(crate) values: Vec<f64>,
    /// Relative width within which each may lie unseen, both sides together.
    pub(crate) resolution: f64,
}

/// Comparisons of the report's first table, which are judged together: of latency three figures, of datagrams none.
pub(crate) fn comparisons(plan: &Plan) -> usize {
    let candidates = || plan.cells.iter().filter(|c| c.baseline.is_some());
    plan.measures.iter().flat_map(|m| candidates().map(move |cell| of_measure(cell, m))).sum()
}

/// Whether rounds beyond `repeat.min` may be added of what is measured there: not where no tax is made of it, as of faults and of
/// datagrams alone.
pub(crate) fn gets_further_rounds(cell: &Cell, measure: &Measure) -> bool {
    of_measure(cell, measure) > 0
}

/// How many of the comparisons the plan asks first. Of metrics that it names each counts wherever it may be.
fn asked_first(plan: &Plan) -> usize {
    let Some(primary) = &plan.primary else { return 0 };
    let most = if primary.metrics.is_empty() { usize::MAX } else { primary.metrics.len() };
    let of = |cell: &Cell, measure: &Measure| -> usize {
        let tests = by_test(cell, measure).into_iter();
        let named = tests.filter(|(test, _)| names(primary, cell, measure, test));
        named.map(|(_, figures)| figures.min(most)).sum()
    };
    let candidates = || plan.cells.iter().filter(|c| c.baseline.is_some());
    plan.measures.iter().flat_map(|m| candidates().map(move |cell| of(cell, m))).sum()
}

/// Whether the plan is about comparisons of this cell in a measure, or in a test of it, whatever the metric.
fn names(primary: &Primary, cell: &Cell, measure: &Measure, test: &str) -> bool {
    let metric = primary.metrics.first().map_or("", String::as_str);
    primary.names(&cell.environment.name, &of_test_named(&measure.name, test), metric)
}

/// The name of a test's measure, or where there is none that of the measure itself.
fn of_test_named(measure: &str, test: &str) -> String {
    if test.is_empty() { measure.to_owned() } else { format!("{measure}/{test}") }
}

fn of_measure(cell: &Cell, measure: &Measure) -> usize {
    by_test(cell, measure).iter().map(|(_, figures)| figures).sum()
}

/// How many figures of each test of a measure the first table has; one without a name is the whole measure.
fn by_test<'a>(cell: &'a Cell, measure: &Measure) -> Vec<(&'a str, usize)> {
    let workload = cell.workload.model();
    match &measure.kind {
        MeasureKind::Capacity(_) | MeasureKind::Throughput(_) | MeasureKind::Ims(_) => vec![("", 1)],
        // Median, p99 and CPU time per request.
        MeasureKind::Latency(_) => vec![("", 3)],
        MeasureKind::Failover(_) => Vec::new(),
        MeasureKind::Network(_) => {
            let compared = workload.tests().iter().filter(|t| !matches!(t.kind, NetworkTestKind::Udp(_)));
            compared.map(|t| (t.name.as_str(), 1)).collect()
        }
        MeasureKind::Storage(_) => workload.storage_tests().iter().map(|t| (t.name.as_str(), 1)).collect(),
    }
}

/// What a trial found that a measure is named after.
struct Figure {
    /// Empty where there is but one.
    test: String,
    metric: Metric,
    better: Direction,
    value: f64,
    /// Relative width within which it may lie unseen, as the report has it.
    resolution: f64,
}

/// Relative width within which a value lies that a histogram of three digits gives.
const HISTOGRAM_RESOLUTION: f64 = 0.001;

/// That of a bracket; none where one of its ends isn't known.
fn width(lower: f64, upper: Option<f64>) -> f64 {
    upper.map(|upper| (upper / lower).max(1.0).ln()).filter(|width| width.is_finite()).unwrap_or_default()
}

/// The median of all that was asked for, as the report has it: the share that is `unanswered`, though each was `waited` for so long,
/// counts as slower than every answer. Where it is more than half, this is the least that the median can be.
fn median(answers: &LatencyHistogram, unanswered: f64, waited: Nanos) -> f64 {
    let answered = 1.0 - unanswered;
    let median = if answered < 0.5 { waited.max(answers.max()) } else { answers.quantile(0.5 / answered) };
    median.0 as f64
}

fn figures(record: &TrialRecord) -> Vec<Figure> {
    use Direction::{Higher, Lower};
    let one = |metric, better, value: Option<f64>, resolution| {
        let figure = |value| Figure { test: String::new(), metric, better, value, resolution };
        value.map(figure).into_iter().collect()
    };
    match record.finding() {
        Some(Finding::Capacity(c)) => {
            let (lower, upper) = (c.lower.0, c.upper.map(|upper| upper.0));
            let middle = upper.map_or(lower, |upper| (lower * upper).sqrt());
            one(CAPACITY, Higher, Some(middle), width(lower, upper))
        }
        Some(Finding::Latency { load, .. }) => {
            let median = median(&load.latency, load.unanswered(), load.timeout);
            one(LATENCY_P50, Lower, Some(median), HISTOGRAM_RESOLUTION)
        }
        Some(Finding::Throughput { load }) => {
            one(THROUGHPUT, Higher, Some(load.counts.ok as f64 / load.duration.as_secs_f64()), 0.0)
        }
        Some(Finding::Ims(ims)) if ims.doc.is_none() => {
            let (metric, median) = at_given_rate(ims).unzip();
            one(metric.unwrap_or(SES1_P50), Lower, median, HISTOGRAM_RESOLUTION)
        }
        Some(Finding::Ims(ims)) => {
            let doc = ims.doc.map(|doc| (doc.effective.0, doc.requested.0));
            let upper = ims.failed.map(|failed| failed.0);
            let resolution = doc.map_or(0.0, |(_, requested)| width(requested, upper));
            // The middle of its bracket, as the report's taxes have it.
            one(DOC, Higher, doc.map(|(effective, _)| effective * (resolution / 2.0).exp()), resolution)
        }
        // Faults are repeated as often as the plan says; no tax is made of them.
        Some(Finding::Failover(_) | Finding::Network(_) | Finding::Storage(_) | Finding::Unknown { .. })
        | None => of_tests(record),
    }
}

/// What a mix of scenarios at a given rate is judged by: the first of these that it has.
const OF_MIX: [(SipMetric, Scenario, Metric); 3] = [
    (SipMetric::Ses1, Scenario::Calling, SES1_P50),
    (SipMetric::Pmm1, Scenario::Messaging, PMM1_P50),
    (SipMetric::Reg2, Scenario::Registration, REG2_P50),
];

/// The median that a mix at a given rate is judged by, in nanoseconds.
fn at_given_rate(ims: &ImsOutcome) -> Option<(Metric, f64)> {
    let of = |(metric, scenario, name): &(SipMetric, Scenario, Metric)| {
        Some((*name, ims.median_at_given_rate(*metric, *scenario)?.ns as f64))
    };
    OF_MIX.iter().find_map(of)
}

/// What the tests of a suite found, those that count.
fn of_tests(record: &TrialRecord) -> Vec<Figure> {
    let counts = record.observations.iter().filter(|test| test.validity == Validity::Valid);
    let figure = |test: &Observation| {
        let (metric, better, value) = match &test.result {
            Some(Finding::Network(found)) => of_test(&found.result)?,
            Some(Finding::Storage(found)) => {
                let (metric, value) = found.figure(&test.name);
                (metric, Direction::Higher, value)
            }
            _ => return None,
        };
        let resolution = if metric == RTT_P50 { HISTOGRAM_RESOLUTION } else { 0.0 };
        Some(Figure { test: test.name.clone(), metric, better, value, resolution })
    };
    counts.filter_map(figure).collect()
}

/// The figure that a network test is judged by; none of datagrams, as what arrives depends on the rate that was offered.
fn of_test(result: &NetworkResult) -> Option<(Metric, Direction, f64)> {
    use Direction::{Higher, Lower};
    Some(match result {
        NetworkResult::Tcp(tcp) => {
            let goodput = [&tcp.up, &tcp.down].into_iter().flatten().map(TcpFlow::goodput).sum();
            (TCP_GOODPUT, Higher, goodput)
        }
        NetworkResult::Udp(_) => return None,
        NetworkResult::Ping(ping) => (RTT_P50, Lower, median(&ping.rtt, ping.loss(), Nanos::ZERO)),
        NetworkResult::Rr(rr) => (RR_RATE, Higher, rr.transactions as f64 / rr.time.as_secs_f64().max(1e-9)),
        NetworkResult::Voice(voice) => (VOICE_MOS, Higher, voice.mos()),
    })
}

/// The trials of one side of a comparison that count.
struct Side {
    metric: Metric,
    better: Direction,
    values: Vec<f64>,
    /// As many as values, or fewer where an older run didn't write them down.
    rounds: Vec<u32>,
    /// The widest of its values.
    resolution: f64,
}

impl Side {
    /// With next to none of the resolution: no number of trials makes a bracket narrower, so that it is none of the stopping rule's. But
    /// few trials that agree because their brackets are wide are no chance.
    fn group(&self) -> Group<'_> {
        let resolution = self.resolution.min(f64::EPSILON);
        Group { resolution, ..Group::in_rounds(&self.values, &self.rounds) }
    }
}

#[cfg(test)]
mod tests {
    use vtax_load::sip::Pools;
    use vtax_store::ims::{Doc, ImsMetric, ImsPhase, ImsPhaseKind};
    use vtax_units::Rate;

    use super::*;

    #[test]
    fn faults_and_datagrams_are_measured_as_often_as_the_plan_says() {
        let further = |rest: &str| {
            let text = format!("vtax: 1\nname: t\nbaseline: native\nenvironments: native\nrepeat: 1\n{rest}");
            let plan = vtax_plan::parse("t", text.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
            let of = |measure| gets_further_rounds(&plan.cells[0], measure);
            plan.measures.iter().map(of).collect::<Vec<_>>()
        };
        let http = "services: http\nworkload: {http: {target: /bytes/1}}\n\
                    measure: [throughput, failover: {load: 500/s, duration: 20s}]\n\
                    faults: [{at: 5s, kill: sut}]\n";
        assert_eq!(further(http), [true, false]);
        let network = |tests: &str| {
            further(&format!(
                "paths: direct\nworkload: {tests}\nmeasure: [network: {{warmup: 0s, duration: 2s}}]\n"
            ))
        };
        assert_eq!((network("[udp]"), network("[tcp, udp]")), (vec![false], vec![true]));
    }

    /// Of the 84 comparisons of plans/web.yaml the twelve capacities are asked first: they err in four of the five cases of 100.
    #[test]
    fn what_is_asked_first_is_plain_by_the_level_of_its_own_family() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans/web.yaml");
        let text = std::fs::read(path).unwrap();
        let of = |overrides: &[&str]| {
            let plan = vtax_plan::parse("web", &text, overrides).unwrap_or_else(|e| panic!("{e}"));
            let precision = Precision::new(&plan, &[]);
            let vm = plan.cells.iter().find(|cell| cell.environment.name == "vm").unwrap();
            let family = |measure, metric| precision.family(vm, measure, "", metric);
            (comparisons(&plan), [family(0, CAPACITY), family(1, LATENCY_P50)])
        };
        let close = |found: Family, members: usize, alpha: f64| {
            assert!(found.members == members && (found.alpha - alpha).abs() < 1e-12, "{found:?}");
        };
        let (all, [capacity, latency]) = of(&[]);
        assert_eq!(all, 84);
        close(capacity, 12, 0.04);
        close(latency, 72, 0.01);
        // A figure of each measure, as nothing here knows which have it; of another metric it is one of the others.
        let (_, [capacity, latency]) = of(&["primary={metrics: latency_p50, environments: vm}"]);
        close(capacity, 84, 0.01);
        close(latency, 18, 0.04);
        // None that a tax is made of there.
        let network = "vtax: 1\nname: t\nbaseline: native\nenvironments: [native, native: {name: other}]\npaths: direct\nrepeat: 3\n\
                       workload: [ping, udp]\nmeasure: [network: {warmup: 0s, duration: 2s}]\n\
                       primary: {measures: network/udp}\n";
        let plan = vtax_plan::parse("t", network.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
        let precision = Precision::new(&plan, &[]);
        let candidate = plan.cells.iter().find(|cell| cell.baseline.is_some()).unwrap();
        close(precision.family(candidate, 0, "ping", RTT_P50), 1, 0.05);
    }

    /// As in the report's test of the same name.
    #[test]
    fn what_had_no_answer_is_slower_than_every_answer() {
        let mut answers = LatencyHistogram::new();
        for ms in 1..=1000 {
            answers.record(Nanos::from_millis(ms));
        }
        let median = |unanswered, waited| (median(&answers, unanswered, waited) / 1e6).round();
        let timeout = Nanos::from_secs(2);
        assert!((median(0.0, Nanos::ZERO) - 500.0).abs() <= 1.0);
        // Half of all that was asked for was answered by 556 ms, where a tenth had no answer.
        assert!((median(0.1, timeout) - 556.0).abs() <= 1.0);
        assert!((median(0.6, timeout) - 2000.0).abs() <= 1.0);
        assert!((median(0.6, Nanos::ZERO) - 1000.0).abs() <= 1.0, "at least as slow as the slowest answer");
    }

    /// Three searches that end in one bracket are known to its width, and three rates that are the same to the digit aren't known at all.
    #[test]
    fn what_agrees_within_a_bracket_is_known() {
        let side = |values: &[f64], resolution| Side {
            metric: CAPACITY,
            better: Direction::Higher,
            values: values.to_vec(),
            rounds: (0..).take(values.len()).collect(),
            resolution,
        };
        let known = |resolution, n: usize| {
            let (c, b) = (side(&vec![500.0; n], resolution), side(&vec![1_000.0; n], resolution));
            tax(&c.group(), &b.group(), c.better, 1).unwrap()
        };
        let bracket = known(0.05, 3);
        let (low, high) = bracket.interval.unwrap();
        assert!((bracket.tax - 2.0).abs() < 1e-9 && (high / low - 1.0).abs() < 1e-9, "{bracket:?}");
        let family = Family { members: 6, alpha: ALPHA };
        assert!(narrow(&bracket, 0.01) && plain(&bracket, 0.05, family, (3, 10)));
        assert!(!narrow(&known(0.0, 3), 0.01) && !plain(&known(0.0, 5), 0.05, family, (3, 10)));
        assert!(narrow(&known(0.0, 6), 0.01));
    }

    /// The middle of 100 and 110, a hundredth below each: sqrt(1.1) of 99.
    #[test]
    fn a_capacity_is_judged_by_the_middle_of_its_bracket() {
        let doc = Doc { requested: Rate(100.0), effective: Rate(99.0), phase: 0 };
        let found = |failed: Option<f64>| {
            let found = ImsOutcome {
                doc: Some(doc),
                failed: failed.map(Rate),
                phases: Vec::new(),
                stray: BTreeMap::new(),
                pools: Pools::default(),
                connections: None,
                probe_clocks: BTreeMap::new(),
            };
            let observations = vec![Observation::whole(0, Finding::Ims(Box::new(found)))];
            let figures = figures(&TrialRecord { observations, ..TrialRecord::default() });
            (figures[0].metric.name, figures[0].value, figures[0].resolution)
        };
        let (metric, value, resolution) = found(Some(110.0));
        assert_eq!(metric, "doc");
        assert!((value - 103.832_1).abs() < 1e-4 && (resolution - 1.1f64.ln()).abs() < 1e-12, "{value}");
        // Of a lower bound there is no middle.
        assert_eq!(found(None), ("doc", 99.0, 0.0));
    }

    /// Rounds of such a measure ended with the fewest, whatever they had shown.
    #[test]
    fn a_mix_of_scenarios_at_a_given_rate_is_judged_by_its_median() {
        let of = |metric, scenario, count| ImsMetric {
            metric,
            scenario,
            count,
            mean_ns: 0.0,
            sd_ns: 0.0,
            min_ns: 1,
            max_ns: 9,
            percentiles_ns: BTreeMap::from([("50".to_owned(), count)]),
            median_of_attempts_ns: None,
        };
        let figure = |metrics: Vec<ImsMetric>| {
            let phase = ImsPhase {
                name: "fixed".to_owned(),
                kind: ImsPhaseKind::Fixed,
                requested: Rate(10.0),
                effective: Rate(10.0),
                started_unix_ms: 0,
                duration: Nanos::from_secs(1),
                transient: Nanos::ZERO,
                ihs: 0.0,
                passed: true,
                reason: None,
                scenarios: Vec::new(),
                metrics,
            };
            let found = ImsOutcome {
                doc: None,
                failed: None,
                phases: vec![phase],
                stray: BTreeMap::new(),
                pools: Pools::default(),
                connections: None,
                probe_clocks: BTreeMap::new(),
            };
            let observations = vec![Observation::whole(0, Finding::Ims(Box::new(found)))];
            let record = TrialRecord { observations, ..TrialRecord::default() };
            figures(&record).first().map(|figure| (figure.metric.name, figure.value))
        };
        let calls = of(SipMetric::Ses1, Scenario::Calling, 40);
        let messages = of(SipMetric::Pmm1, Scenario::Messaging, 30);
        assert_eq!(figure(vec![messages.clone(), calls]), Some(("ses1_p50", 40.0)));
        assert_eq!(
            figure(vec![messages, of(SipMetric::Ses1, Scenario::Calling, 19)]),
            Some(("pmm1_p50", 30.0))
        );
        // What had no answer counts, as in the report.
        let lossy =
            ImsMetric { median_of_attempts_ns: Some(70), ..of(SipMetric::Ses1, Scenario::Calling, 40) };
        assert_eq!(figure(vec![lossy]), Some(("ses1_p50", 70.0)));
        assert_eq!(figure(Vec::new()), None);
    }
}
