//! The verdicts in a sentence each: what is worse, what is better, what is equal, what can't be told.

use vtax_stats::MIN_TRIALS;
use vtax_store::record::Validity;
use vtax_store::summary::{Better, Comparison, Doubt, Verdict};

use crate::chapter::Chapter;
use crate::data::{RunData, SPELT_OUT};
use crate::families::{metrics, named, telling};
use crate::format::{bounded, much, much_within, span};
use crate::judged::direction;
use crate::metric::{Info, parts_of_measure};
use crate::rows::{is_of_first_table, leading};

/// One sentence for each verdict, on the metric that leads the first table; on what the plan asks first, where it does. A run
/// that measured only what faults do says that.
pub(crate) fn headline(data: &RunData, comparisons: &[Comparison], chapters: &[Box<dyn Chapter>]) -> String {
    let asked = chapters.iter().filter_map(|chapter| chapter.asked(data));
    let all: Vec<String> = asked.chain([sentences(data, comparisons, chapters)]).collect();
    spelt_once(&all.join(" "))
}

/// Software emulation is spelt out where it is first named; six guests in a sentence are hard enough to tell apart.
fn spelt_once(text: &str) -> String {
    let first = text.find(SPELT_OUT).map_or(text.len(), |at| at + SPELT_OUT.len());
    let (begin, rest) = text.split_at(first);
    format!("{begin}{}", rest.replace(SPELT_OUT, ""))
}

fn sentences(data: &RunData, comparisons: &[Comparison], chapters: &[Box<dyn Chapter>]) -> String {
    let asked: Vec<&Comparison> = comparisons.iter().filter(|c| c.asked_first).collect();
    let asks = !asked.is_empty();
    let all = if asks { asked } else { comparisons.iter().collect() };
    let of_first_table = all.iter().copied().filter(|c| is_of_first_table(data, c));
    let primary = leading(of_first_table).and_then(|first| named(&first.metric));
    if let Some(said) = crate::ft::headline::headline(data).filter(|_| primary.is_none() && !asks) {
        return said;
    }
    let measured = |m: &&Info| all.iter().any(|c| c.metric == m.name);
    let Some(info) = primary.or_else(|| metrics().find(measured)) else {
        let why = match data.trials.as_slice() {
            [] => "Nothing was measured yet.",
            trials if trials.iter().all(|trial| trial.validity != Validity::Valid) => {
                "There is nothing to compare: no trial counts."
            }
            _ => "There is nothing to compare: no environment and its baseline were both measured.",
        };
        return why.to_owned();
    };
    let found: Vec<&Comparison> = all.into_iter().filter(|c| c.metric == info.name).collect();
    if let Some(said) = no_verdict(data, info, &found) {
        return said;
    }
    if let Some(headline) = chapters.iter().find_map(|c| c.headline(data, info.name, &found)) {
        return headline;
    }
    let baselines = data.environments(found.iter().map(|c| c.baseline.as_str())).join(" and ");
    let begins = [
        (Verdict::Worse, format!("Worse than {baselines} in {}", info.label)),
        (Verdict::Better, format!("Better than {baselines} in {}", info.label)),
        (Verdict::Equivalent, format!("Equal to {baselines} in {}", info.label)),
        (Verdict::Inconclusive, format!("Can't tell from {baselines} in {}", info.label)),
    ];
    let sentence = |(verdict, begin): &(Verdict, String)| {
        let names = environments(data, &found, *verdict)?;
        Some(format!("{begin}: {names}."))
    };
    begins.iter().filter_map(sentence).collect::<Vec<_>>().join(" ")
}

/// Where each of these has too few trials for a verdict: how many there are, and what they saw.
fn no_verdict(data: &RunData, info: &Info, found: &[&Comparison]) -> Option<String> {
    if !found.iter().all(|c| c.doubt == Some(Doubt::TooFew)) {
        return None;
    }
    let tests: Vec<&str> = data.measures().filter(|m| found.iter().any(|c| c.measure == *m)).collect();
    let test = telling(info.name, &tests);
    let told: Vec<&Comparison> =
        found.iter().copied().filter(|c| test.is_none_or(|test| c.measure == test)).collect();
    let place = test.filter(|_| tests.len() > 1).map_or_else(String::new, |test| {
        let name = parts_of_measure(test).1.unwrap_or(test);
        format!(" in {name}")
    });
    let baselines = data.environments(told.iter().map(|c| c.baseline.as_str())).join(" and ");
    let seen =
        seen(data, &told).map_or_else(String::new, |seen| format!(" Seen against {baselines}: {seen}."));
    Some(format!("No verdict on {}{place}: {}.{seen}", info.label, trials_missing(data, &told)?))
}

/// `2 trials each, 3 are needed`; `None` where these are enough and something else is the reason, of which there are several.
fn trials_missing(data: &RunData, told: &[&Comparison]) -> Option<String> {
    let of = |cell: &str, c: &Comparison| data.metric(cell, &c.measure, &c.metric).len();
    let counts = || told.iter().map(|c| of(&c.cell, c).min(of(&c.baseline, c)));
    Some(match (counts().min()?, counts().max()?) {
        (_, MIN_TRIALS..) => {
            let reason = &told.first()?.reason;
            return told.iter().all(|c| c.reason == *reason).then(|| reason.clone());
        }
        (1, 1) => format!("1 trial each, {MIN_TRIALS} are needed"),
        (least, most) if least == most => format!("{most} trials each, {MIN_TRIALS} are needed"),
        (least, most) => format!("{least} to {most} trials each, {MIN_TRIALS} are needed"),
    })
}

/// What trials saw that are too few for a verdict: `vm, 1/17 as much; container, 3.0 % to 5.0 % less in 4 combinations`.
fn seen(data: &RunData, told: &[&Comparison]) -> Option<String> {
    let with_tax: Vec<&Comparison> = told.iter().copied().filter(|c| c.tax.is_some()).collect();
    let names = data.environments(with_tax.iter().map(|c| c.cell.as_str()));
    if names.len() > MOST_NAMED {
        return Some(many(data, &names, &with_tax));
    }
    let part = |name: String| {
        let of = |c: &&Comparison| data.spelt_out(&c.cell).as_ref() == Some(&name);
        let own: Vec<&Comparison> = with_tax.iter().copied().filter(of).collect();
        let taxes = taxes(&own)?;
        Some(match own.len() {
            1 => format!("{name}, {taxes}"),
            n => format!("{name}, {taxes} in {n} combinations"),
        })
    };
    let parts: Vec<String> = names.into_iter().filter_map(part).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// More environments than these aren't named one by one, and more combinations aren't told with their intervals: the table does that.
const MOST_NAMED: usize = 4;

/// The environments with this verdict, each with how much; of many their number, and the first and the last of them.
fn environments(data: &RunData, found: &[&Comparison], verdict: Verdict) -> Option<String> {
    let with_verdict: Vec<&Comparison> = found.iter().copied().filter(|c| c.verdict == verdict).collect();
    let names = data.environments(with_verdict.iter().map(|c| c.cell.as_str()));
    if names.is_empty() {
        return None;
    }
    if names.len() > MOST_NAMED {
        return Some(many(data, &names, &with_verdict));
    }
    let briefly = with_verdict.len() > MOST_NAMED;
    let part = |name: String| {
        let of = |c: &&Comparison| data.spelt_out(&c.cell).as_ref() == Some(&name);
        let own: Vec<&Comparison> = with_verdict.iter().copied().filter(of).collect();
        let all = found.iter().filter(|c| of(c)).count();
        format!("{name}, {}", of_environment(data, &own, all, briefly))
    };
    Some(names.into_iter().map(part).collect::<Vec<_>>().join("; "))
}

/// The combinations of one environment that have the same verdict, of so many that there are.
fn of_environment(data: &RunData, own: &[&Comparison], all: usize, briefly: bool) -> String {
    let combinations = match (own, all) {
        ([one], 1) => return amount(one),
        ([_, _], 2) => "both combinations".to_owned(),
        (own, all) if own.len() == all => format!("all {all} combinations"),
        (own, all) => format!("{} of {all} combinations", own.len()),
    };
    both(data, own, &combinations, briefly).unwrap_or_else(|| format!("{} in {combinations}", amounts(own)))
}

/// Two combinations, each with its own tax, since a span of two taxes would read like an interval; and with its interval and what tells
/// it from the other, if not briefly.
fn both(data: &RunData, own: &[&Comparison], combinations: &str, briefly: bool) -> Option<String> {
    let [one, other] = own else { return None };
    if one.verdict == Verdict::Inconclusive {
        return None;
    }
    if briefly {
        let info = named(&one.metric);
        let much_of = |c: &Comparison| Some(much(self::own(info, c.tax?), info.map_or("", |m| m.unit)));
        let (of_one, of_other) = (much_of(one)?, much_of(other)?);
        let and_other = if of_one == of_other { String::new() } else { format!(" and {of_other}") };
        return Some(format!("{of_one}{and_other} in {combinations}"));
    }
    let (of_one, of_other) = (amount(one), amount(other));
    if of_one == of_other {
        return Some(format!("{of_one} in {combinations}"));
    }
    Some(format!("{of_one} {} and {of_other} {}", place(data, one, other)?, place(data, other, one)?))
}

/// What tells a comparison from another of the same environment: `in latency@40`, `with bytes 2GB`.
fn place(data: &RunData, c: &Comparison, other: &Comparison) -> Option<String> {
    let groups = data.groups();
    let label = |cell: &str| {
        let own = groups.iter().find(|group| group.cells.iter().any(|c| c.id == cell));
        own.map_or("", |group| group.label.as_str())
    };
    let mut parts = Vec::new();
    if c.measure != other.measure {
        parts.push(format!("in {}", parts_of_measure(&c.measure).1.unwrap_or(&c.measure)));
    }
    let own = label(&c.cell);
    if !own.is_empty() && own != label(&other.cell) {
        parts.push(format!("with {own}"));
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// `9 others (7 in TCG, software emulation), from 1/246 as much (vm (TCG) over mpls-vpn) to 1/8.7 as much (native over sdn)`.
fn many(data: &RunData, names: &[String], with_verdict: &[&Comparison]) -> String {
    let emulated = names.iter().filter(|name| name.contains(SPELT_OUT)).count();
    let emulated = if emulated > 0 { format!(" ({emulated} in TCG{SPELT_OUT})") } else { String::new() };
    let info = with_verdict.first().and_then(|c| named(&c.metric));
    let unit = info.map_or("", |m| m.unit);
    let ratio = |c: &Comparison| Some((own(info, c.tax?), data.spelt_out(&c.cell)?));
    let mut ratios: Vec<(f64, String)> = with_verdict.iter().map_while(|c| ratio(c)).collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    // What is undecided is told by its intervals, where it has any.
    let differs = |c: &Comparison| matches!(c.verdict, Verdict::Worse | Verdict::Better);
    let is_told =
        ratios.len() == with_verdict.len() && with_verdict.iter().all(|c| differs(c) || c.interval.is_none());
    let one = |(ratio, name): &(f64, String)| format!("{} ({name})", much(*ratio, unit));
    let span = match ratios.as_slice() {
        [least, .., most] if is_told => format!("from {} to {}", one(least), one(most)),
        _ => amounts(with_verdict),
    };
    format!("{} others{emulated}, {span}", names.len())
}

/// A tax as the metric's own ratio, which turns it around where more is better.
fn own(info: Option<&Info>, tax: f64) -> f64 {
    if info.is_some_and(|m| m.better == Better::Higher) { 1.0 / tax } else { tax }
}

/// The ends of a tax's interval as the metric's own ratios, the smaller first.
fn ends(info: Option<&Info>, interval: (f64, f64)) -> (f64, f64) {
    info.map_or(interval, |info| direction(info).own(interval))
}

/// `anything between 6.0 % less and 49 % more`, `anything from 1/3 to 2x as much`.
fn anything((low, high): (f64, f64), unit: &str) -> String {
    let said = span(low, high, unit);
    if said.starts_with("between") { format!("anything {said}") } else { format!("anything from {said}") }
}

/// The end of a comparison's own ratio that is known where the other isn't, and whether it is the upper one.
fn end(info: Option<&Info>, c: &Comparison) -> Option<(f64, bool)> {
    let higher = info.is_some_and(|m| m.better == Better::Higher);
    match (c.verdict, c.tax, c.at_least, c.at_most) {
        (Verdict::Worse, None, Some(t), _) => Some((own(info, t), higher)),
        (Verdict::Better, None, _, Some(t)) => Some((own(info, t), !higher)),
        _ => None,
    }
}

/// The end of a tax that is known from both sides which holds at least, as the metric's own ratio: the near one of its interval.
fn near(info: Option<&Info>, c: &Comparison) -> Option<f64> {
    let (low, high) = c.corrected.or(c.interval)?;
    Some(own(info, if c.verdict == Verdict::Better { high } else { low }))
}

/// What an undecided ratio may be: the interval that it is judged by among all. `None` where something else than its width keeps it
/// undecided.
fn undecided(c: &Comparison) -> Option<(f64, f64)> {
    match c.doubt {
        Some(Doubt::TooWide | Doubt::ManyComparisons) | None => c.corrected.or(c.interval),
        Some(_) => None,
    }
}

/// `11x as much (8.2x to 13x)`, `at most 1/35 as much`, `anything between 6.0 % less and 49 % more`.
fn amount(c: &Comparison) -> String {
    let info = named(&c.metric);
    let unit = info.map_or("", |m| m.unit);
    match (c.verdict, c.tax, c.interval) {
        (Verdict::Inconclusive, Some(_), Some(_)) => {
            undecided(c).map_or_else(|| c.reason.clone(), |interval| anything(ends(info, interval), unit))
        }
        (_, Some(t), Some(interval)) => much_within(own(info, t), ends(info, interval), unit),
        (_, Some(t), None) => format!("perhaps {} ({})", much(own(info, t), unit), c.reason),
        _ => match end(info, c) {
            Some((ratio, is_upper)) => bounded(ratio, is_upper, unit),
            None => c.reason.clone(),
        },
    }
}

/// `1/8.6 to 1/3 as much`, `between 6.0 % less and 49 % more`: the taxes, or all that may be where none is told.
fn amounts(several: &[&Comparison]) -> String {
    let info = several.first().and_then(|c| named(&c.metric));
    let unit = info.map_or("", |m| m.unit);
    if several.iter().all(|c| c.verdict == Verdict::Inconclusive) {
        // Those that something else keeps undecided may be further away; with one whose interval holds equality, all are within this.
        let any = several.iter().any(|c| undecided(c).is_some());
        let intervals =
            several.iter().filter(|_| any).filter_map(|c| undecided(c).or(c.corrected).or(c.interval));
        let widest = intervals.map(|i| ends(info, i)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        if let Some(widest) = widest {
            return anything(widest, unit);
        }
        return match taxes(several) {
            Some(seen) if several.iter().all(|c| c.interval.is_none()) => format!("perhaps {seen}"),
            Some(_) => "for reasons that the table tells".to_owned(),
            None => "without figures".to_owned(),
        };
    }
    // Of some only one end is known: the end that holds for each of them.
    if let Some((_, is_upper)) = several.iter().find_map(|c| end(info, c)) {
        let ends = several.iter().filter_map(|c| end(info, c).map(|e| e.0).or(near(info, c)));
        let weakest = ends.reduce(if is_upper { f64::max } else { f64::min });
        return weakest.map_or_else(|| "without figures".to_owned(), |ratio| bounded(ratio, is_upper, unit));
    }
    taxes(several).unwrap_or_else(|| "without figures".to_owned())
}

/// From the least to the most of these taxes, as the metric's own ratios; `None` without any.
fn taxes(several: &[&Comparison]) -> Option<String> {
    let info = several.first().and_then(|c| named(&c.metric));
    let ratios = || several.iter().filter_map(|c| c.tax).map(|t| own(info, t));
    let (low, high) = (ratios().reduce(f64::min)?, ratios().reduce(f64::max)?);
    Some(span(low, high, info.map_or("", |m| m.unit)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use vtax_plan::model::{Cell, Plan};
    use vtax_store::RunDir;
    use vtax_store::record::{InvalidReason, TrialRecord};

    use super::*;

    fn made(directory: &Path, repetitions: u32) -> RunDir {
        let options =
            vtax_fixture::Options { repetitions, seconds: 1, rate: 10, ..vtax_fixture::Options::default() };
        vtax_fixture::create(directory, &options).unwrap()
    }

    /// A run of a plan in which nothing was measured yet.
    fn planned(directory: &Path, text: &str) -> (Plan, RunData) {
        let provenance = made(&directory.join("other"), 1).provenance().unwrap();
        let plan = vtax_plan::parse("planned", text.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
        let run = RunDir::create(directory.join("run"), &plan, &provenance).unwrap();
        let data = RunData::read(run.run()).unwrap();
        (plan, data)
    }

    #[test]
    fn software_emulation_is_spelt_out_once() {
        assert_eq!(spelt_once("Equal to native: container."), "Equal to native: container.");
        let [long, short] = ["vm (TCG, software emulation)", "vm (TCG)"];
        assert_eq!(
            spelt_once(&format!("Worse than {long} over a: {long} over b; {long} over c.")),
            format!("Worse than {long} over a: {short} over b; {short} over c.")
        );
    }

    const PLAN: &str = "
vtax: 1
name: paths
baseline: {environment: native, path: direct}
environments: [native]
paths: [direct, gigabit, bridge, ovs, routed: {name: vpn, topology: {mpls-vpn: {core: [1, 3]}}}]
services: http
workload:
  http: {target: /bytes/100}
measure: [capacity]
repeat: 5
";

    /// On a busy machine all were made, and it was said that they weren't measured.
    #[test]
    fn that_nothing_counts_is_told_from_that_nothing_was_measured() {
        let directory = tempfile::tempdir().unwrap();
        let (plan, mut data) = planned(directory.path(), PLAN);
        assert_eq!(sentences(&data, &[], &[]), "Nothing was measured yet.");
        let (reason, detail) = (InvalidReason::Disturbed, "a neighbour".to_owned());
        let cell = plan.cells[0].id.clone();
        let disturbed = Validity::Invalid { reason, detail };
        data.trials.push(TrialRecord { cell, validity: disturbed, ..TrialRecord::default() });
        assert_eq!(sentences(&data, &[], &[]), "There is nothing to compare: no trial counts.");
        data.trials.push(TrialRecord { cell: plan.cells[0].id.clone(), ..TrialRecord::default() });
        assert!(sentences(&data, &[], &[]).ends_with("no environment and its baseline were both measured."));
    }

    /// The first sentence of a routed lab's report was a paragraph that named every path.
    #[test]
    fn many_environments_are_counted_and_few_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let (plan, mut data) = planned(directory.path(), PLAN);
        let worse = |(index, cell): (usize, &Cell)| Comparison {
            cell: cell.id.clone(),
            baseline: plan.cells[0].id.clone(),
            metric: "throughput".to_owned(),
            verdict: Verdict::Worse,
            tax: Some((index + 2) as f64),
            interval: Some(((index + 1) as f64, (index + 4) as f64)),
            ..Comparison::default()
        };
        let found: Vec<Comparison> = plan.cells[1..].iter().enumerate().map(worse).collect();
        let labels: Vec<String> = plan.cells[3..].iter().map(|cell| data.environment_label(cell)).collect();
        assert_eq!(labels, ["native over ovs", "native over vpn (core 1)", "native over vpn (core 3)"]);
        let said = |found: &[Comparison]| sentences(&data, found, &[]);
        assert_eq!(
            said(&found),
            "Worse than native over direct in throughput: 5 others, from 1/6 as much (native over vpn (core 3)) to 1/2 as much \
             (native over gigabit)."
        );
        let four = said(&found[..4]);
        assert!(four.contains("native over ovs, 1/4 as much") && four.matches("; ").count() == 3, "{four}");
        // Emulated or not, what tells an environment from others of its name stands with it.
        for cell in &plan.cells[4..] {
            let accelerator = Some("tcg".to_owned());
            data.trials.push(TrialRecord { cell: cell.id.clone(), accelerator, ..TrialRecord::default() });
        }
        let spelt_out: Vec<String> =
            plan.cells[4..].iter().filter_map(|cell| data.spelt_out(&cell.id)).collect();
        let emulated = |core| format!("native (path in TCG, software emulation) over vpn (core {core})");
        assert_eq!(spelt_out, [emulated(1), emulated(3)]);
    }

    /// A span of two taxes read like an interval: `1/30.7 to 1/30.4 as much`.
    #[test]
    fn of_two_combinations_both_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let text = "{vtax: 1, name: two, baseline: native, environments: [native, container], services: http, \
                    workload: {http: {target: [/bytes/100, /bytes/1000]}}, measure: [capacity], repeat: 5}";
        let (plan, data) = planned(directory.path(), text);
        let candidates: Vec<&Cell> = plan.cells.iter().filter(|cell| cell.baseline.is_some()).collect();
        let worse = |cell: &Cell, tax: f64| Comparison {
            cell: cell.id.clone(),
            baseline: cell.baseline.clone().unwrap(),
            measure: "capacity".to_owned(),
            metric: "capacity".to_owned(),
            verdict: Verdict::Worse,
            tax: Some(tax),
            interval: Some((tax - 4.0, tax + 5.0)),
            ..Comparison::default()
        };
        let said = |taxes: [f64; 2]| {
            let found: Vec<Comparison> =
                candidates.iter().zip(taxes).map(|(cell, tax)| worse(cell, tax)).collect();
            sentences(&data, &found, &[])
        };
        let of: Vec<String> = data.groups().into_iter().map(|group| group.label).collect();
        assert!(of.len() == 2 && of[0] != of[1], "{of:?}");
        assert_eq!(
            said([30.7, 30.4]),
            format!(
                "Worse than native in capacity: container, 1/31 as much (1/36 to 1/27) with {} and 1/30 as much (1/35 to 1/26) \
                 with {}.",
                of[0], of[1]
            )
        );
        assert_eq!(
            said([18.0, 18.0]),
            "Worse than native in capacity: container, 1/18 as much (1/23 to 1/14) in both combinations."
        );
        let [one, other] = [30.7, 20.0].map(|tax| worse(candidates[0], tax));
        assert_eq!(
            of_environment(&data, &[&one, &other], 16, true),
            "1/31 as much and 1/20 as much in 2 of 16 combinations"
        );
        let in_measure = |name: &str| Comparison { measure: name.to_owned(), ..worse(candidates[0], 2.0) };
        let [one, other] = ["latency@8", "network/tcp.window-4K"].map(in_measure);
        assert_eq!(place(&data, &one, &other).as_deref(), Some("in latency@8"));
        assert_eq!(place(&data, &other, &one).as_deref(), Some("in tcp.window-4K"));
        assert_eq!(place(&data, &one, &one), None);
    }

    /// A run of two rounds said "without figures" above a table of taxes.
    #[test]
    fn too_few_trials_are_told_with_what_they_saw() {
        let directory = tempfile::tempdir().unwrap();
        let data = RunData::read(&made(&directory.path().join("run"), 2)).unwrap();
        let found = crate::judged::comparisons(&data);
        let said = sentences(&data, &found, &[]);
        // One trial of a cell had the generator as its limit.
        let begin =
            "No verdict on capacity: 1 to 2 trials each, 3 are needed. Seen against native: container, ";
        assert!(said.starts_with(begin) && said.contains("; vm (TCG, software emulation), 1/1"), "{said}");
        let few = |tax| Comparison {
            metric: "capacity".to_owned(),
            doubt: Some(Doubt::TooFew),
            tax: Some(tax),
            ..Comparison::default()
        };
        assert_eq!(amounts(&[&few(4.0), &few(2.0)]), "perhaps 1/4 to 1/2 as much");
    }

    #[test]
    fn what_is_undecided_may_be_equal() {
        let open = |doubt| Comparison {
            metric: "latency_p50".to_owned(),
            verdict: Verdict::Inconclusive,
            doubt: Some(doubt),
            reason: "the environment drifted".to_owned(),
            tax: Some(1.1),
            interval: Some((1.03, 1.2)),
            corrected: Some((0.95, 1.3)),
            ..Comparison::default()
        };
        assert_eq!(amount(&open(Doubt::ManyComparisons)), "anything between 5.0 % shorter and 30 % longer");
        assert_eq!(amount(&open(Doubt::Drifted)), "the environment drifted");
        let [many, drifted] = [Doubt::ManyComparisons, Doubt::Drifted].map(open);
        let far = Comparison { corrected: Some((1.4, 1.6)), ..drifted.clone() };
        assert_eq!(amounts(&[&many, &far]), "anything between 5.0 % shorter and 60 % longer");
        assert_eq!(amounts(&[&drifted, &drifted]), "for reasons that the table tells");
    }

    #[test]
    fn several_with_a_bound_among_them_are_told_by_what_holds_for_each() {
        // Of a capacity, where more is better.
        let worse = |tax, at_least| Comparison {
            metric: "doc".to_owned(),
            verdict: Verdict::Worse,
            tax,
            at_least,
            ..Comparison::default()
        };
        let (bound, exact) = (worse(None, Some(1.7)), worse(Some(4.0), None));
        assert_eq!(amount(&bound), "at least 41 % less");
        let within = |corrected| Comparison { corrected: Some(corrected), ..exact.clone() };
        assert_eq!(amounts(&[&within((3.0, 5.0)), &bound]), "at least 41 % less");
        // Of what is known from both sides the end that is near, not the tax.
        assert_eq!(amounts(&[&within((1.25, 12.0)), &bound]), "at least 20 % less");
        assert_eq!(amounts(&[&exact, &worse(Some(2.0), None)]), "1/4 to 1/2 as much");
        let better = Comparison { verdict: Verdict::Better, at_most: Some(0.5), ..worse(None, None) };
        assert_eq!(amounts(&[&better, &better]), "at least 2x as much");
    }
}
