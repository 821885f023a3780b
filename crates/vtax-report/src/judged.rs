//! From figures to verdicts: ratios within rounds, families, drift, and what the testbed can show.

use std::collections::BTreeMap;

use vtax_plan::model::{Cell, Plan};
use vtax_stats::{
    ALPHA, Bound, Direction, Drift, Group, Judgement, MIN_TRIALS, Prior, Ratio, above, after_either_looked,
    after_looking, allowing, drift, judge, judge_family, left_after_looks, levels, log_ratios, moderated,
    prior, scatter_of, shares, tellable, widened,
};
use vtax_store::CalibratedEffect;
use vtax_store::record::{InvalidReason, Validity};
use vtax_store::summary::{Better, Borrowed, Comparison, Doubt, Verdict};

use crate::data::{OneSide, RunData};
use crate::explain;
use crate::families::{metrics, named};
use crate::fates::{kept_away, left_out_by_outcome};
use crate::format::{judged_range, judged_tax, tax};
use crate::metric::{Info, LIFECYCLE, Value, parts_of_measure};
use crate::rows::leads;

/// A comparison on its way to a verdict.
#[derive(Debug)]
pub(crate) struct PendingComparison {
    pub(crate) comparison: Comparison,
    ratio: Option<Ratio>,
    drift: Option<Drift>,
    /// Values of the candidate's trials, and of the baseline's.
    sides: [Vec<f64>; 2],
}

impl PendingComparison {
    /// Widens what is known of two runs for having looked: `mins` are the trials that candidate and baseline made in any case, `None`
    /// where their number was fixed.
    pub(crate) fn after_either_looked(&mut self, mins: [Option<usize>; 2]) {
        self.ratio = self.ratio.map(|ratio| after_either_looked(&ratio, mins));
    }
}

/// Values with the widest of their resolutions: a bracket that stayed wide once may be the one that is off.
pub(crate) fn group<'a>(values: &'a [f64], rounds: &'a [u32], found: &[Value]) -> Group<'a> {
    let resolution = found.iter().map(|v| v.resolution).fold(0.0, f64::max);
    Group { values, rounds, resolution, censored: found.iter().any(|v| v.censored) }
}

/// Every candidate against its baseline, judged in families: what the plan asks first, the first table's other
/// comparisons, which are read together, and the rest.
pub(crate) fn comparisons(data: &RunData) -> Vec<Comparison> {
    let mut found: Vec<(bool, PendingComparison)> = Vec::new();
    for cell in &data.plan.cells {
        let Some(baseline) = cell.baseline.as_deref().and_then(|id| data.cell(id)) else { continue };
        for measure in data.measures() {
            for info in metrics().filter(|m| m.compared) {
                let first = info.primary && leads(data, measure, info.name);
                found.extend(comparison(data, cell, baseline, measure, info).map(|pending| (first, pending)));
            }
        }
    }
    let order: Vec<(String, String, String)> = found.iter().map(|(_, o)| key(&o.comparison)).collect();
    let mut families: [(FamilyKind, Vec<PendingComparison>); 3] =
        FamilyKind::ALL.map(|kind| (kind, Vec::new()));
    for (first, mut pending) in found {
        pending.comparison.asked_first = asked_first(data, &pending.comparison, first);
        let kind = match (pending.comparison.asked_first, first) {
            (true, _) => FamilyKind::AskedFirst,
            (false, true) => FamilyKind::FirstTable,
            (false, false) => FamilyKind::Rest,
        };
        families[kind as usize].1.push(pending);
    }
    let mut judged: Vec<Comparison> = Vec::with_capacity(order.len());
    let mut gate = Gate { asked: None };
    for (kind, mut family) in families {
        close(&mut family, &data.plan, gate.level(kind));
        let from = judged.len();
        for mut pending in family {
            missing_trials(data, &mut pending.comparison);
            below_detectable(data, &mut pending.comparison, pending.ratio.as_ref().map_or(0, rounds_of));
            let explanation = explain::explain(data, &pending.comparison);
            pending.comparison.explanation = explanation + &left_out_by_outcome(data, &pending.comparison);
            judged.push(pending.comparison);
        }
        if matches!(kind, FamilyKind::AskedFirst) {
            gate.asked = asked(&judged[from..]);
        }
    }
    // Back into the order of the plan, whatever the families.
    judged.sort_by_key(|c| order.iter().position(|k| *k == key(c)));
    judged
}

/// Comparisons that are judged together.
#[derive(Debug, Clone, Copy)]
enum FamilyKind {
    /// Comparisons that the plan asks first.
    AskedFirst,
    /// The first table's others.
    FirstTable,
    /// All others.
    Rest,
}

impl FamilyKind {
    /// In the order in which they are judged.
    const ALL: [Self; 3] = [Self::AskedFirst, Self::FirstTable, Self::Rest];
}

/// Of the chance of a false claim in the first table, the share that the comparisons asked first have to themselves.
const ASKED_FIRST: f64 = 0.8;

/// What came of the comparisons that the plan asks first.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// How many there are.
    members: usize,
    /// Each is better or worse.
    all_different: bool,
    /// Each is equivalent.
    all_equal: bool,
}

impl Asked {
    /// What the comparisons asked first may still err.
    fn kept(self) -> f64 {
        let all = ASKED_FIRST * ALPHA;
        let (differences, equality) = shares(self.members, all);
        match self {
            Self { all_different: true, .. } => equality,
            Self { all_equal: true, .. } => differences,
            _ => all,
        }
    }
}

/// `None` where nothing is asked first.
fn asked(judged: &[Comparison]) -> Option<Asked> {
    let differs = |c: &Comparison| matches!(c.verdict, Verdict::Better | Verdict::Worse);
    (!judged.is_empty()).then(|| Asked {
        members: judged.len(),
        all_different: judged.iter().all(differs),
        all_equal: judged.iter().all(|c| c.verdict == Verdict::Equivalent),
    })
}

/// What the first table may err, shared between what the plan asks first and the rest of it (Bretz, Maurer, Brannath
/// and Posch, "A graphical approach to sequentially rejective multiple test procedures", Statistics in Medicine 28, 2009).
///
/// What was kept for claims that have all been made passes on to the rest: they were right, and cost nothing, or one of them was
/// wrong, and the table errs already. Where all that was asked first differs, that is the share of differences; where all of it is
/// equal, that of equality. What was kept for the other kind stays: a tax that was told to be equal may
/// have been called different as well.
struct Gate {
    asked: Option<Asked>,
}

impl Gate {
    /// The chance of a false claim in a family.
    fn level(&self, kind: FamilyKind) -> f64 {
        match (kind, self.asked) {
            (FamilyKind::AskedFirst, _) => ASKED_FIRST * ALPHA,
            (FamilyKind::FirstTable, Some(asked)) => ALPHA - asked.kept(),
            _ => ALPHA,
        }
    }
}

/// Whether the plan names this comparison as one that it is about; without named metrics only those of the first table.
fn asked_first(data: &RunData, c: &Comparison, first: bool) -> bool {
    let Some(primary) = &data.plan.primary else { return false };
    let environment = data.cell(&c.cell).map_or("", |cell| cell.environment.name.as_str());
    (first || !primary.metrics.is_empty()) && primary.names(environment, &c.measure, &c.metric)
}

fn key(c: &Comparison) -> (String, String, String) {
    (c.cell.clone(), c.measure.clone(), c.metric.clone())
}

/// The two sides of a comparison within one run, as its ratio is made of them.
pub(crate) fn sides(
    data: &RunData,
    cell: &str,
    baseline: &str,
    measure: &str,
    metric: &str,
) -> (OneSide, OneSide) {
    let duet = data.plan.measures.iter().find(|m| m.name == measure).is_some_and(|m| data.plan.is_duet(m));
    // What every trial tells comes of pairs as well, where a measure is made in pairs.
    let pair = |with| (duet || measure == LIFECYCLE).then_some(with);
    (data.side(cell, measure, metric, pair(baseline)), data.side(baseline, measure, metric, pair(cell)))
}

/// `None` where neither side has the metric at all.
fn comparison(
    data: &RunData,
    cell: &Cell,
    baseline: &Cell,
    measure: &str,
    info: &Info,
) -> Option<PendingComparison> {
    let (candidate, base) = sides(data, &cell.id, &baseline.id, measure, info.name);
    if candidate.found.is_empty() && base.found.is_empty() {
        return None;
    }
    Some(compared([&cell.id, &baseline.id, measure], info, (&candidate, &base), &data.plan))
}

/// A candidate's values against its baseline's; `names` are cell, baseline and measure. Sides whose rounds
/// have nothing to do with each other come without them. The plan gives margin, seed and repetition.
pub(crate) fn compared(
    [cell, baseline, measure]: [&str; 3],
    info: &Info,
    (candidate, base): (&OneSide, &OneSide),
    plan: &Plan,
) -> PendingComparison {
    let comparison = Comparison {
        cell: cell.to_owned(),
        baseline: baseline.to_owned(),
        measure: measure.to_owned(),
        metric: info.name.to_owned(),
        ..Comparison::default()
    };
    let values = |side: &OneSide| -> Vec<f64> { side.found.iter().map(Value::for_tax).collect() };
    let (cv, bv) = (values(candidate), values(base));
    let mut pending =
        PendingComparison { comparison, ratio: None, drift: None, sides: [cv.clone(), bv.clone()] };
    let (c, b) = (group(&cv, &candidate.rounds, &candidate.found), group(&bv, &base.rounds, &base.found));
    match vtax_stats::tax(&c, &b, direction(info), plan.seed) {
        Err(none) => {
            pending.comparison.reason = none.to_string();
            pending.comparison.doubt = Some(Doubt::NoRatio);
        }
        Ok(ratio) => {
            pending.drift = drift_of(&cv, &bv, (&candidate.rounds, &base.rounds), info);
            pending.ratio = Some(ratio);
        }
    }
    pending
}

/// The ratio as it must be where more trials were made because it wasn't known well enough.
pub(crate) fn looked_at(ratio: &Ratio, plan: &Plan) -> Ratio {
    if plan.repeat.max > plan.repeat.min { after_looking(ratio, plan.repeat.min as usize) } else { *ratio }
}

/// How much longer a cell takes than another that need not be its baseline, within rounds, as if it were the only comparison; `None` where
/// one of them has no figure, or only a bound.
pub(crate) fn longer(
    data: &RunData,
    (cell, base): (&Cell, &Cell),
    measure: &str,
    metric: &str,
) -> Option<Ratio> {
    let sides = [cell, base].map(|cell| data.side(&cell.id, measure, metric, None));
    let values =
        sides.each_ref().map(|side| side.found.iter().map(|found| found.value).collect::<Vec<f64>>());
    let of = |i: usize| group(&values[i], &sides[i].rounds, &sides[i].found);
    let ratio = vtax_stats::tax(&of(0), &of(1), Direction::Lower, data.plan.seed).ok()?;
    let looked = looked_at(&ratio, &data.plan);
    let wide = levels(&[&values[0], &values[1]]).map_or(looked, |apart| allowing(&looked, apart));
    (wide.bound == Bound::Exact).then_some(wide)
}

pub(crate) fn direction(info: &Info) -> Direction {
    match info.better {
        Better::Higher => Direction::Higher,
        Better::Lower => Direction::Lower,
    }
}

/// How the logarithm of the tax moved over the run, if it did: within rounds where sides share them,
/// else by what each side did on its own.
fn drift_of(c: &[f64], b: &[f64], (cr, br): (&[u32], &[u32]), info: &Info) -> Option<Drift> {
    let sign = match direction(info) {
        Direction::Higher => -1.0,
        Direction::Lower => 1.0,
    };
    if let Some(logs) = log_ratios(&Group::in_rounds(c, cr), &Group::in_rounds(b, br)) {
        return drift(&logs.iter().map(|l| sign * l).collect::<Vec<f64>>());
    }
    let of = |values: &[f64]| drift(&values.iter().map(|v| v.ln()).collect::<Vec<f64>>());
    let (mine, theirs) = (of(c), of(b));
    if mine.is_none() && theirs.is_none() {
        return None;
    }
    let ends = |d: Option<Drift>| d.map_or((0.0, 0.0), |d| (d.from, d.to));
    let ((c0, c1), (b0, b1)) = (ends(mine), ends(theirs));
    // Only the way it moves counts: its level is the ratio's.
    let half = sign * ((c1 - c0) - (b1 - b0)) / 2.0;
    Some(Drift { from: -half, to: half })
}

/// Gives each comparison of a family its interval and its verdict; the chance of a false claim in it is `alpha`, with what was
/// spent on ending comparisons early.
pub(crate) fn close(family: &mut [PendingComparison], plan: &Plan, alpha: f64) {
    let (known, apart) = (usual(family), apart(family));
    for pending in family.iter_mut() {
        let Some(ratio) = &mut pending.ratio else { continue };
        let c = &mut pending.comparison;
        let shared = known.get(&c.metric).copied();
        let alone = *ratio;
        *ratio = shared.map_or(alone, |p| moderated(&alone, &p));
        let changed = *ratio != alone;
        *ratio = looked_at(ratio, plan);
        if let Some(apart) = apart.get(&c.metric).filter(|_| ratio.interval.is_some()) {
            *ratio = allowing(ratio, *apart);
            c.levels = Some(apart.exp());
        }
        // Trials that all ended at the highest rate asked for don't scatter: nothing follows from it.
        c.detectable = ratio.detectable.filter(|_| ratio.bound == Bound::Exact);
        c.rounds = ratio.rounds.map(|n| n as u32);
        c.borrowed = shared.filter(|_| changed).map(borrowed);
        match ratio.bound {
            Bound::Exact => (c.tax, c.interval) = (Some(ratio.tax), ratio.interval),
            Bound::AtLeast => c.at_least = ratio.interval.map(|i| i.0),
            Bound::AtMost => c.at_most = ratio.interval.map(|i| i.1),
            Bound::Unknown => {}
        }
    }
    let rounds = (plan.repeat.min as usize, plan.repeat.max as usize);
    judge_together(family, plan.margin.0, left_after_looks(alpha, rounds));
}

/// Which comparisons of a closed family are above a limit, among all of them; none without a ratio.
pub(crate) fn above_limit(family: &[PendingComparison], limit: f64) -> Vec<bool> {
    let ratios: Vec<Ratio> = family.iter().filter_map(|pending| pending.ratio).collect();
    let mut above = above(&ratios, limit, ALPHA).into_iter();
    family.iter().map(|pending| pending.ratio.is_some() && above.next().unwrap_or_default()).collect()
}

/// What scatter is usual in each metric of a family.
fn usual(family: &[PendingComparison]) -> BTreeMap<String, Prior> {
    let mut metrics: BTreeMap<&str, Vec<Ratio>> = BTreeMap::new();
    for pending in family {
        metrics.entry(&pending.comparison.metric).or_default().extend(pending.ratio);
    }
    metrics.into_iter().filter_map(|(metric, ratios)| Some((metric.to_owned(), prior(&ratios)?))).collect()
}

/// How far apart the levels of each metric are, where its trials come out on two.
fn apart(family: &[PendingComparison]) -> BTreeMap<String, f64> {
    let mut metrics: BTreeMap<&str, Vec<&[f64]>> = BTreeMap::new();
    for pending in family {
        let sides = metrics.entry(&pending.comparison.metric).or_default();
        for side in &pending.sides {
            // A baseline that several share is one side.
            if !sides.contains(&side.as_slice()) {
                sides.push(side);
            }
        }
    }
    metrics.into_iter().filter_map(|(metric, sides)| Some((metric.to_owned(), levels(&sides)?))).collect()
}

fn borrowed(prior: Prior) -> Borrowed {
    Borrowed { weight: prior.weight, df: prior.df, sd: prior.variance.sqrt() }
}

fn judge_together(family: &mut [PendingComparison], margin: f64, alpha: f64) {
    let ratios: Vec<Ratio> = family.iter().filter_map(|o| o.ratio).collect();
    let mut judged = judge_family(&ratios, margin, alpha).into_iter();
    let size = ratios.iter().filter(|r| r.interval.is_some() && r.bound != Bound::Unknown).count() as u32;
    for pending in family {
        let Some(ratio) = &pending.ratio else { continue };
        let Some(judgement) = judged.next() else { continue };
        let c = &mut pending.comparison;
        c.verdict = verdict(judgement.verdict);
        c.doubt = judgement.doubt.map(doubt);
        c.reason.clone_from(&judgement.reason);
        if ratio.interval.is_some() && ratio.bound != Bound::Unknown {
            (c.family, c.level) = (Some(size.max(1)), Some(judgement.level));
        }
        c.corrected = judgement.interval.filter(|_| ratio.bound != Bound::Unknown);
        drifted(c, ratio, pending.drift, &judgement, margin);
    }
}

/// A verdict stands only where it holds from one end of a drift to the other; without one, a drift is why.
fn drifted(c: &mut Comparison, ratio: &Ratio, drift: Option<Drift>, judgement: &Judgement, margin: f64) {
    let Some(drift) = drift.filter(|_| judgement.interval.is_some()) else { return };
    let middle = f64::midpoint(drift.from, drift.to);
    let judged_by = widened(ratio, judgement.level);
    // A family may call a difference real that is within the margin. At both ends it has to be one, and no more.
    let within = judge(&judged_by, margin).verdict == vtax_stats::Verdict::Equivalent;
    let agrees = |end: f64| {
        let there = judged_by.times((end - middle).exp());
        match (judgement.verdict, there.interval) {
            (vtax_stats::Verdict::Worse, Some((low, _))) if within => low > 1.0,
            (vtax_stats::Verdict::Better, Some((_, high))) if within => high < 1.0,
            (verdict, _) => judge(&there, margin).verdict == verdict,
        }
    };
    let stands = agrees(drift.from) && agrees(drift.to);
    // Where it can't be told for want of certainty, what took the certainty away is the better reason, also where that is so at both
    // ends: what drifts scatters, and no number of trials would tell while it goes on.
    let other = !matches!(c.doubt, None | Some(Doubt::TooWide | Doubt::ManyComparisons));
    if other || (stands && c.verdict != Verdict::Inconclusive) {
        return;
    }
    let moved = (drift.to - drift.from).exp();
    c.verdict = Verdict::Inconclusive;
    c.doubt = Some(Doubt::Drifted);
    c.reason = format!(
        "the environment drifted: the tax moved by a factor of {} from the first trials to the last, \
         so it depends on when one looks",
        tax(moved)
    );
}

/// Where trials are missing, what kept them away is the better reason.
fn missing_trials(data: &RunData, c: &mut Comparison) {
    if !matches!(c.doubt, Some(Doubt::TooFew | Doubt::NoRatio)) {
        return;
    }
    let sides = [&c.cell, &c.baseline];
    if let Some(text) = sides.into_iter().find_map(|id| data.too_few(id, &c.measure, &c.metric)) {
        c.reason = text;
        return;
    }
    let left_out =
        |id: &&String| !data.trials.iter().any(|t| t.cell == **id && t.validity == Validity::Valid);
    if let Some((id, why)) = sides.into_iter().filter(left_out).find_map(|id| Some((id, data.left_out(id)?)))
    {
        let who = if *id == c.cell { "" } else { "the baseline was " };
        c.reason = format!("{who}left out: {why}");
        return;
    }
    // Where fewer were made at all, or others are still to come, that is the reason.
    let of = parts_of_measure(&c.measure).0;
    let made = |cell: &str| {
        let own = data.trials.iter().filter(|t| t.cell == cell);
        own.filter(|t| of == LIFECYCLE || t.measure == of).count()
    };
    let enough = || data.complete && made(&c.cell).min(made(&c.baseline)) >= MIN_TRIALS;
    if c.doubt == Some(Doubt::TooFew) && !enough() {
        return;
    }
    let lost = |reason: InvalidReason| {
        let of = |cell: &str| {
            let own = data.trials.iter().filter(|t| t.cell == cell);
            own.filter(|t| kept_away(t, &c.measure) == Some(reason)).count()
        };
        of(&c.cell).max(of(&c.baseline))
    };
    let disturbed = (lost(InvalidReason::Disturbed), Doubt::Disturbed, against_noise(data, &c.measure));
    let unsteady = (lost(InvalidReason::NoSteadyState), Doubt::NoSteadyState, NEVER_STEADY);
    let overloaded = (lost(InvalidReason::Overloaded), Doubt::Overloaded, OVERLOADED);
    let limited = (lost(InvalidReason::GeneratorLimited), Doubt::GeneratorLimited, GENERATOR_LIMITED);
    // Of equals the last: a limit of the plan's own is easier to mend than the machine.
    let most = [disturbed, unsteady, overloaded, limited].into_iter().max_by_key(|(trials, ..)| *trials);
    if let Some((trials @ 1.., doubt, [of_one, of_several])) = most {
        c.doubt = Some(doubt);
        let what = if trials == 1 { of_one } else { of_several };
        c.reason = format!("too few trials: {trials} {what}");
    }
}

/// What is said of one trial, and of several.
type OfOneOrSeveral = [&'static str; 2];

const NEVER_STEADY: OfOneOrSeveral = ["never became steady; a longer warmup or duration may help"; 2];
const OVERLOADED: OfOneOrSeveral = [
    "was overloaded: more was asked for than could be answered, so requests waited the longer the later they began; ask for less, or \
     look for the capacity",
    "were overloaded: more was asked for than could be answered, so requests waited the longer the later they began; ask for less, or \
     look for the capacity",
];
const GENERATOR_LIMITED: OfOneOrSeveral = [
    "had the load generator, not the environment, as its limit; give it more CPUs or ask for less load",
    "had the load generator, not the environment, as their limit; give it more CPUs or ask for less load",
];
const DISTURBED: OfOneOrSeveral = [
    "was disturbed, its trial tells by what; a quieter machine, or a larger `repeat.max`, may help",
    "were disturbed, each tells by what; a quieter machine, or a larger `repeat.max`, may help",
];
/// Of trials that were disturbed where a duet would help too.
const DISTURBED_ALONE: OfOneOrSeveral = [
    "was disturbed, its trial tells by what; a quieter machine may help, or `repeat: {trials: duet}`, which \
     measures both at the same time, so that what disturbs one disturbs both",
    "were disturbed, each tells by what; a quieter machine may help, or `repeat: {trials: duet}`, which \
     measures both at the same time, so that what disturbs one disturbs both",
];

/// What helps against disturbance: a duet, where the measure may be one and isn't.
fn against_noise(data: &RunData, measure: &str) -> OfOneOrSeveral {
    let mut own = data.plan.measures.iter().filter(|m| m.name == parts_of_measure(measure).0);
    if own.any(|m| m.kind.may_be_duet() && !data.plan.is_duet(m)) { DISTURBED_ALONE } else { DISTURBED }
}

/// Rounds that a ratio was taken in, else trials of the side that has fewer.
fn rounds_of(ratio: &Ratio) -> usize {
    ratio.rounds.unwrap_or(ratio.candidate_trials.min(ratio.baseline_trials))
}

/// What equals show that so many rounds can tell: as many as theirs what the calibration found, more of them less by as much as the
/// scatter of these equals allows, but never less than they were apart.
fn least_told(effect: &CalibratedEffect, rounds: usize) -> Option<f64> {
    let found = effect.detectable.filter(|d| *d >= 1.0 && d.is_finite())?;
    let trials = effect.trials as usize;
    let scatter = || scatter_of(effect.interval?, trials).filter(|_| rounds > trials);
    let apart = effect.tax.map_or(1.0, |tax| tax.ln().abs().exp());
    let told = scatter().and_then(|scatter| tellable(scatter, rounds, 1)).map(|told| told.max(apart));
    Some(told.map_or(found, |told| told.min(found)))
}

/// A verdict on an effect that this testbed was shown not to see is no verdict.
fn below_detectable(data: &RunData, c: &mut Comparison, rounds: usize) {
    let effect = data.calibration.as_ref().and_then(|k| k.effect(&c.baseline, &c.measure, &c.metric));
    let Some(least) = effect.and_then(|effect| least_told(effect, rounds)) else { return };
    c.minimum_detectable = Some(least);
    let size = c.tax.or(c.at_least).or(c.at_most).map_or(f64::INFINITY, |t| t.ln().abs());
    let refused = match c.verdict {
        Verdict::Better | Verdict::Worse => size < least.ln(),
        Verdict::Equivalent => least > 1.0 + data.plan.margin.0,
        Verdict::Inconclusive => false,
    };
    if !refused {
        return;
    }
    let corrected = c.corrected.filter(|_| c.tax.is_some());
    let margin = data.plan.margin.0;
    let range = corrected.map_or_else(String::new, |found| format!(" ({})", judged_range(found, margin)));
    c.reason = match c.verdict {
        Verdict::Equivalent => format!(
            "the trials agree{range}, but measured against itself this testbed can only tell taxes from {} on, \
             which is more than the margin",
            judged_tax(least, margin)
        ),
        _ => format!(
            "below what this testbed can tell: measured against itself it needs a tax of {} or more{range}",
            tax(least)
        ),
    };
    (c.verdict, c.doubt) = (Verdict::Inconclusive, Some(Doubt::BelowDetectable));
}

pub(crate) fn verdict(v: vtax_stats::Verdict) -> Verdict {
    match v {
        vtax_stats::Verdict::Better => Verdict::Better,
        vtax_stats::Verdict::Worse => Verdict::Worse,
        vtax_stats::Verdict::Equivalent => Verdict::Equivalent,
        vtax_stats::Verdict::Inconclusive => Verdict::Inconclusive,
    }
}

fn doubt(d: vtax_stats::Doubt) -> Doubt {
    match d {
        vtax_stats::Doubt::TooFew => Doubt::TooFew,
        vtax_stats::Doubt::TooWide => Doubt::TooWide,
        vtax_stats::Doubt::NotAtLimit => Doubt::NotAtLimit,
        vtax_stats::Doubt::ManyComparisons => Doubt::ManyComparisons,
    }
}

/// A step of the way to a verdict: what the tax was known to be after so many rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    /// Rounds, or trials of the side that has fewer.
    pub(crate) trials: usize,
    pub(crate) tax: f64,
    pub(crate) interval: (f64, f64),
}

/// Steps of such a way that are shown: each is an interval of its own, which takes longer the more trials there are.
const MOST_STEPS: usize = 200;

/// How the interval of a comparison narrowed with its trials, of very many of them some; empty below four.
pub(crate) fn narrowing(data: &RunData, c: &Comparison) -> Vec<Step> {
    let Some(info) = named(&c.metric) else { return Vec::new() };
    let (candidate, base) = sides(data, &c.cell, &c.baseline, &c.measure, &c.metric);
    let most = candidate.found.len().min(base.found.len());
    let upto = |side: &OneSide, n: usize| -> (Vec<f64>, Vec<u32>, Vec<Value>) {
        let found: Vec<Value> = side.found.iter().take(n).copied().collect();
        (found.iter().map(Value::for_tax).collect(), side.rounds.iter().take(n).copied().collect(), found)
    };
    let stride = most.div_ceil(MOST_STEPS).max(1);
    (3..=most)
        .filter(|n| n % stride == 0 || *n == most)
        .filter_map(|n| {
            let ((cv, cr, cf), (bv, br, bf)) = (upto(&candidate, n), upto(&base, n));
            let ratio = vtax_stats::tax(
                &group(&cv, &cr, &cf),
                &group(&bv, &br, &bf),
                direction(info),
                data.plan.seed,
            );
            let ratio = ratio.ok().filter(|r| r.bound == Bound::Exact)?;
            let known = c.borrowed.map(|b| Prior { weight: b.weight, df: b.df, variance: b.sd * b.sd });
            let ratio = looked_at(&known.map_or(ratio, |p| moderated(&ratio, &p)), &data.plan);
            let ratio = c.levels.map_or(ratio, |apart| allowing(&ratio, apart.ln()));
            Some(Step { trials: n, tax: ratio.tax, interval: ratio.interval? })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use vtax_fixture::Options;
    use vtax_store::RunDir;
    use vtax_store::record::{Partner, Timings, TrialRecord};
    use vtax_units::Nanos;

    use super::*;

    const PLAN: &str = "
vtax: 1
name: pairs
baseline: native
environments: [native, container, vm]
services: http
workload:
  http: {target: /bytes/100}
measure: [throughput]
repeat: {min: 3, max: 3, trials: duet}
";

    /// In a duet the baseline has a trial with each candidate, all of one round. Here the machine is slower beside the vm.
    #[test]
    fn what_every_trial_tells_is_compared_within_its_pair() {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { repetitions: 1, seconds: 1, rate: 10, ..Options::default() };
        let other = vtax_fixture::create(&directory.path().join("other"), &options).unwrap();
        let plan = vtax_plan::parse("pairs", PLAN.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
        let mut run =
            RunDir::create(directory.path().join("run"), &plan, &other.provenance().unwrap()).unwrap();
        let baseline = &plan.cells.iter().find(|c| c.baseline.is_none()).unwrap().id;
        for round in 0..3 {
            for candidate in plan.cells.iter().filter(|c| c.baseline.is_some()) {
                let slower = if candidate.environment.name == "vm" { 3 } else { 1 };
                let first = run.next_index();
                for (cell, with, other) in
                    [(baseline, &candidate.id, first + 1), (&candidate.id, baseline, first)]
                {
                    let service = Nanos(slower * (1_000_000 + 1000 * u64::from(round)));
                    let record = TrialRecord {
                        partner: Some(Partner { index: other, cell: with.clone() }),
                        round: Some(round),
                        timings: Timings { service, ..Timings::default() },
                        ..TrialRecord::begin(cell, "throughput", round)
                    };
                    let trial = run.begin_trial(cell, "throughput", round).unwrap();
                    run.finish_trial(trial, record).unwrap();
                }
            }
        }
        let data = RunData::read(run.run()).unwrap();
        let found = comparisons(&data);
        let taxes: Vec<f64> = found.iter().filter(|c| c.metric == "startup").filter_map(|c| c.tax).collect();
        assert!(taxes.len() == 2 && taxes.iter().all(|tax| (tax - 1.0).abs() < 1e-9), "{found:?}");
    }

    /// What is left of a verdict where the tax moved by so much in all, with a margin of 5 %.
    fn after_drift(ratio: &Ratio, judgement: &Judgement, moved: f64) -> (Verdict, Option<Doubt>) {
        let middle = ratio.tax.ln();
        let drift = Drift { from: middle - moved / 2.0, to: middle + moved / 2.0 };
        let mut c = Comparison { verdict: verdict(judgement.verdict), ..Comparison::default() };
        drifted(&mut c, ratio, Some(drift), judgement, 0.05);
        (c.verdict, c.doubt)
    }

    /// In a family, a difference may be a real one though within the margin. A drift far inside the margin takes nothing from that.
    #[test]
    fn a_difference_within_the_margin_outlasts_a_small_drift() {
        let rounds = [0, 1, 2, 3, 4, 5, 6, 7];
        let scatter = [0.0, 1.0, -1.0, 0.5, -0.5, 1.0, 0.0, -1.0];
        let slow: Vec<f64> = scatter.iter().map(|by: &f64| 103.0 * (0.003 * by).exp()).collect();
        let fast = vec![100.0; 8];
        let words = [vtax_stats::Verdict::Worse, vtax_stats::Verdict::Better];
        for ((candidate, base), word) in [(&slow, &fast), (&fast, &slow)].into_iter().zip(words) {
            let sides = [candidate, base].map(|values| Group::in_rounds(values, &rounds));
            let ratio = vtax_stats::tax(&sides[0], &sides[1], Direction::Lower, 1).unwrap();
            let judged_by = widened(&ratio, 0.01);
            assert_eq!(judge(&judged_by, 0.05).verdict, vtax_stats::Verdict::Equivalent);
            let judgement = Judgement {
                verdict: word,
                reason: "a real difference, though within the margin as far as it is known".to_owned(),
                doubt: None,
                interval: judged_by.interval,
                level: 0.01,
            };
            assert_eq!(after_drift(&ratio, &judgement, 0.01), (verdict(word), None));
            // From one side of 1 to the other.
            let across = after_drift(&ratio, &judgement, 0.08);
            assert_eq!(across, (Verdict::Inconclusive, Some(Doubt::Drifted)));
        }
    }

    /// Six rounds that scatter in nothing but a drift, from a tenth less to a tenth more: as one of many neither end is told from 1.
    #[test]
    fn what_is_open_at_both_ends_of_a_drift_has_it_as_its_reason() {
        let rounds: [u32; 6] = [0, 1, 2, 3, 4, 5];
        let logs: Vec<f64> = rounds.iter().map(|round| 0.04 * f64::from(*round) - 0.1).collect();
        let (moved, still): (Vec<f64>, Vec<f64>) = logs.iter().map(|log| (log.exp(), 1.0)).unzip();
        let [moved, still] = [&moved, &still].map(|values| Group::in_rounds(values, &rounds));
        let ratio = vtax_stats::tax(&moved, &still, Direction::Lower, 1).unwrap();
        let judged_by = widened(&ratio, 0.005);
        let found = drift(&logs).unwrap();
        for end in [found.from, found.to] {
            let there = judge(&judged_by.times(end.exp()), 0.05).verdict;
            assert_eq!(there, vtax_stats::Verdict::Inconclusive, "{end}");
        }
        let judgement = Judgement { level: 0.005, ..judge(&judged_by, 0.05) };
        let after = |doubt: Doubt| {
            let mut c =
                Comparison { verdict: Verdict::Inconclusive, doubt: Some(doubt), ..Comparison::default() };
            drifted(&mut c, &ratio, Some(found), &judgement, 0.05);
            c.doubt
        };
        assert_eq!(after(Doubt::TooWide), Some(Doubt::Drifted));
        assert_eq!(after(Doubt::NotAtLimit), Some(Doubt::NotAtLimit));
    }

    /// What is worse than the margin allows has to be that from one end of a drift to the other.
    #[test]
    fn a_drift_into_the_margin_takes_a_verdict_away() {
        let rounds = [0, 1, 2, 3, 4, 5, 6, 7];
        let scatter = [0.0, 1.0, -1.0, 0.5, -0.5, 1.0, 0.0, -1.0];
        let slow: Vec<f64> = scatter.iter().map(|by: &f64| 106.5 * (0.003 * by).exp()).collect();
        let fast = vec![100.0; 8];
        let [slow, fast] = [&slow, &fast].map(|values| Group::in_rounds(values, &rounds));
        let ratio = vtax_stats::tax(&slow, &fast, Direction::Lower, 1).unwrap();
        let judged_by = widened(&ratio, 0.01);
        let judged = judge(&judged_by, 0.05);
        assert_eq!(judged.verdict, vtax_stats::Verdict::Worse);
        let judgement = Judgement {
            verdict: judged.verdict,
            reason: String::new(),
            doubt: None,
            interval: judged_by.interval,
            level: 0.01,
        };
        assert_eq!(after_drift(&ratio, &judgement, 0.01), (Verdict::Worse, None));
        let into = after_drift(&ratio, &judgement, 0.04);
        assert_eq!(into, (Verdict::Inconclusive, Some(Doubt::Drifted)));
    }
}
