//! What one trial with faults comes to.

use std::collections::{BTreeMap, BTreeSet};

use vtax_plan::model::{FaultKind, FaultTarget, TopologyFault};
use vtax_store::failover::{FailoverOutcome, FaultRecord, Recovery, Seen};
use vtax_store::record::{Finding, InvalidReason, TrialRecord, Validity};
use vtax_units::{Nanos, counted};

use super::failover::{Counts, End, Failover, Times};
use super::figures::{AFTER_RESTORE, Quantity};
use super::writes;
use crate::format::duration;
use crate::metric::{Info, Value, exact, higher, lower};
use crate::routed;
use crate::words::invalid;

/// Faults of one trial that are looked at: a run may hold anything.
const MOST_FAULTS: usize = 1000;
/// Records of faults among which what mends them is looked for.
const MOST_RECORDS: usize = 4 * MOST_FAULTS;
/// First answers after faults that are named one by one.
const MOST_NAMED: usize = 4;

/// How long routers' data plane was broken, by the rate of what arrived: a bound where it never was whole again.
const CONVERGENCE_RATE: &str = "convergence_rate";
/// The same by what was lost.
const CONVERGENCE_LOSS: &str = "convergence_loss";
/// What was lost on the way back.
const RESTORATION_LOSS: &str = "restoration_loss";

/// The metrics of faults, in the order of tables.
pub(crate) const METRICS: &[Info] = &[
    higher("survived", "faults survived", "1", 0),
    lower("detection", "fault to its detection", "ns", 0),
    lower("takeover", "take-over", "ns", 0),
    lower("first_answer", "fault to first answer", "ns", 0),
    lower("after_restore", "restore to first answer", "ns", 0),
    lower("requests_lost", "requests lost per fault", "", 0),
    lower("requests_delayed", "requests delayed per fault", "", 0),
    lower("rebuild", "rebuild of the RAID", "ns", 0),
    lower("writes_wrong", "acknowledged writes lost or wrong", "", 0),
    lower(CONVERGENCE_LOSS, "convergence of the routers' data plane, by loss", "ns", 0),
    lower(CONVERGENCE_RATE, "convergence of the routers' data plane, by rate", "ns", 0),
    lower(RESTORATION_LOSS, "loss on the way back, as time", "ns", 0),
];

/// Whether a metric is a time in which routers' data plane was broken: only a bound of it is known where it never was whole again.
pub(crate) fn is_of_convergence(metric: &str) -> bool {
    [CONVERGENCE_LOSS, CONVERGENCE_RATE, RESTORATION_LOSS].contains(&metric)
}

/// What a trial with faults found.
pub(crate) fn failover(record: &TrialRecord) -> Option<&FailoverOutcome> {
    match record.finding() {
        Some(Finding::Failover(found)) => Some(found),
        _ => None,
    }
}

/// What was broken in a trial, in the order of time.
pub(super) fn broken(found: &FailoverOutcome) -> impl Iterator<Item = &FaultRecord> {
    found.faults.iter().filter(|f| !f.fault.kind.mends()).take(MOST_FAULTS)
}

/// Time between two moments, where they are in order.
fn between(from: Option<Nanos>, to: Option<Nanos>) -> Option<f64> {
    Some(to?.0.checked_sub(from?.0)? as f64)
}

/// Whether somebody was answered after a fault without having had to wait for it.
fn kept_nobody_waiting(f: &FaultRecord) -> bool {
    let is_calm = |seen: &Seen| seen.outage == Some(false) && seen.first_answer.is_some();
    f.lost.is_none() && f.seen.as_ref().is_some_and(is_calm)
}

/// How long it took until somebody who had waited was answered: `1.03 s`, `14.7 s (4.70 s after link a-b was restored)`.
fn first_answer(found: &FailoverOutcome, f: &FaultRecord) -> Option<String> {
    let first = f.seen.as_ref()?.first_answer;
    let took = duration(between(f.injected, first)?);
    let restored = restored(found, f);
    Some(match end(f, restored.as_ref()) {
        _ if kept_nobody_waiting(f) => return None,
        End::Restored(what) => {
            let rest = between(restored.map(|(at, _)| at), first).unwrap_or_default();
            format!("{took} ({} after {what})", duration(rest))
        }
        End::Survived | End::Lost(_) | End::Unknown => took,
    })
}

/// What became of the faults of a trial, in a few words.
pub(crate) fn describe_faults(found: &FailoverOutcome) -> String {
    let injected = || broken(found).filter(|f| f.injected.is_some());
    let mut answers: Vec<String> = injected().filter_map(|f| first_answer(found, f)).collect();
    let more = answers.len().saturating_sub(MOST_NAMED);
    answers.truncate(MOST_NAMED);
    let (count, calm) = (injected().count(), injected().filter(|f| kept_nobody_waiting(f)).count());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let mut answered = match (answers.is_empty(), count) {
        (true, all) if all == calm && all > 0 => "no outage".to_owned(),
        (true, 1) => "no answer after it".to_owned(),
        (true, _) if calm == 0 => "no answer after them".to_owned(),
        (true, _) => "no answer after the others".to_owned(),
        (false, _) => format!("first answer after {}{more}", answers.join(", ")),
    };
    if (1..count).contains(&calm) {
        answered = format!("no outage after {calm} of them, {answered}");
    }
    let lost = match injected().filter(|f| f.lost.is_some()).count() {
        0 => String::new(),
        lost => format!("; service lost {}", counted(lost, "time")),
    };
    format!("{}, {answered}{lost}", counted(count, "fault"))
}

/// A fault as something that happened to the environment.
fn happened(kind: FaultKind) -> String {
    use FaultTarget::{FtLink, Hosts, Path, PrimaryHost, SecondaryHost, Sut};
    let what = match kind {
        FaultKind::Kill(PrimaryHost) => "the host it ran on was killed",
        FaultKind::Kill(SecondaryHost) => "the host with its copy was killed",
        FaultKind::Kill(Hosts) => "all of its hosts were killed",
        FaultKind::Kill(_) => "it was killed with the host it ran on",
        FaultKind::Hang(PrimaryHost) => "the host it ran on was frozen",
        FaultKind::Hang(SecondaryHost) => "the host with its copy was frozen",
        FaultKind::Hang(_) => "it was frozen with the host it ran on",
        FaultKind::Cut(FtLink) => "the link between its hosts was cut",
        FaultKind::Cut(Path | Sut) => "the network to its clients was cut",
        FaultKind::Cut(_) => "its hosts were cut off",
        FaultKind::Restore(_) => "what was broken was mended",
        FaultKind::Failover(_) => "it was moved to another host on purpose",
        FaultKind::Fail(_) => "one of its disks failed",
        FaultKind::Replace(_) => "the disk that had failed was replaced",
        FaultKind::Topology(fault) => return happened_on_the_way(fault),
    };
    what.to_owned()
}

/// The same of something between it and its clients.
fn happened_on_the_way(fault: TopologyFault) -> String {
    match fault {
        TopologyFault::CutLink(link) => format!("link {link} on the way to it was cut"),
        TopologyFault::LossyLink(lossy) => {
            let from = lossy.from.map_or_else(String::new, |router| format!(" from {router}"));
            format!("link {} on the way to it silently lost packets{from}", lossy.link)
        }
        TopologyFault::KillRouter(router) => format!("router {router} on the way to it was switched off"),
        TopologyFault::StopDaemon(stop) => {
            format!("{} of router {} on the way to it was ended", stop.daemon.program(), stop.router)
        }
        TopologyFault::RestoreLink(_) | TopologyFault::RestoreRouter(_) => {
            "what was broken was mended".to_owned()
        }
    }
}

/// Whether something that mends gives clients back what a fault took from them. What was killed stays dead when its host is
/// switched on again, and what keeps a copy is in nobody's way.
fn gives_back(mend: FaultKind, broke: FaultKind) -> bool {
    use FaultTarget::{Hosts, Path, Sut};
    match (mend, broke) {
        // Whichever link it is, the way may lead over it.
        (FaultKind::Topology(mend), FaultKind::Topology(_)) => mend.mends(),
        (FaultKind::Restore(Path), FaultKind::Cut(Path))
        | (FaultKind::Restore(Hosts | Sut), FaultKind::Hang(_)) => true,
        _ => false,
    }
}

/// The first thing after a fault that the plan mended and that may be why clients were answered again, and when. A guest that
/// another host ran on needed none.
fn restored(found: &FailoverOutcome, f: &FaultRecord) -> Option<(Nanos, FaultKind)> {
    let from = f.injected.filter(|_| f.recovered.is_none())?;
    let gives_back = |mend: &&FaultRecord| gives_back(mend.fault.kind, f.fault.kind);
    let mends = found.faults.iter().take(MOST_RECORDS).filter(gives_back);
    let done = mends.filter_map(|mend| Some((mend.injected.filter(|at| *at >= from)?, mend.fault.kind)));
    done.min_by_key(|(at, _)| *at)
}

/// What mends, as something that was done.
fn was_restored(mend: FaultKind) -> String {
    match mend {
        FaultKind::Topology(TopologyFault::RestoreLink(link)) => format!("link {link} was restored"),
        FaultKind::Topology(TopologyFault::RestoreRouter(router)) => format!("router {router} was restored"),
        FaultKind::Restore(FaultTarget::Path) => "the network was restored".to_owned(),
        _ => "it was woken".to_owned(),
    }
}

/// Whether the host of the guest failed, and no other one.
fn host_failed(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::Kill(FaultTarget::PrimaryHost | FaultTarget::Sut)
            | FaultKind::Hang(FaultTarget::PrimaryHost | FaultTarget::Sut)
    )
}

/// Why a fault doesn't count, if it doesn't.
fn excluded(record: &TrialRecord, f: &FaultRecord) -> Option<String> {
    match (&record.validity, &f.discounted, f.injected) {
        (Validity::Valid, None, Some(_)) => None,
        // What a trial says of all its faults is said of each by its own reason.
        (Validity::Valid | Validity::Invalid { reason: InvalidReason::MeasureFailed, .. }, Some(why), _) => {
            Some(why.clone())
        }
        (Validity::Valid, None, None) => Some("it could not be done".to_owned()),
        (validity, ..) => Some(format!("its trial doesn't count: {}", invalid(validity).unwrap_or_default())),
    }
}

/// How a fault ended for the service, of which that was restored afterwards.
fn end(f: &FaultRecord, restored: Option<&(Nanos, FaultKind)>) -> End {
    let Some(seen) = &f.seen else {
        return f.lost.as_ref().map_or(End::Unknown, |why| End::Lost(why.clone()));
    };
    match (&f.lost, seen.first_answer, restored) {
        (Some(why), ..) => End::Lost(why.clone()),
        // Where nobody had to wait, nothing was missing.
        (None, Some(first), Some((at, mend))) if first > *at && seen.outage != Some(false) => {
            End::Restored(was_restored(*mend))
        }
        (None, Some(_), _) => End::Survived,
        (None, None, _) if f.discounted.is_none() => {
            End::Lost("nobody answered until the end of the trial or the next fault".to_owned())
        }
        (None, None, _) => End::Unknown,
    }
}

/// What a fault did to clients.
fn counts(f: &FaultRecord) -> Counts {
    let seen = f.seen.as_ref();
    let connections = seen.and_then(|s| s.connections);
    Counts {
        most: None,
        open: connections.map(|c| c.open),
        kept: connections.map(|c| c.kept),
        lost: connections.map(|c| c.lost),
        attempted: seen.map(|s| s.attempts),
        failed: seen.map(|s| s.failed),
        delayed: seen.map(|s| s.delayed),
        retransmissions: seen.map(|s| s.retransmissions),
    }
}

/// A fault of a trial and what followed; `number` counts from 1 within the trial.
pub(super) fn one(record: &TrialRecord, number: usize, f: &FaultRecord) -> Failover {
    let since = |at: Option<Nanos>| between(f.injected, at).map(|ns| ns / 1e9);
    let (recovered, seen) = (f.recovered.as_ref(), f.seen.as_ref());
    let planned = recovered.is_some_and(|r| r.how == Recovery::HandedOver)
        || matches!(f.fault.kind, FaultKind::Failover(_));
    let running = recovered.map(|r| r.at);
    let found = failover(record);
    let restored = found.and_then(|found| restored(found, f));
    Failover {
        trial: record.index,
        measure: record.measure.clone(),
        number,
        fault: f.fault.kind.words(),
        happened: happened(f.fault.kind),
        host_failed: host_failed(f.fault.kind),
        planned,
        at: f.injected.unwrap_or(f.fault.at).as_secs_f64(),
        end: end(f, restored.as_ref()),
        excluded: excluded(record, f),
        times: Times {
            detected: since(f.detected),
            fenced: since(f.fenced),
            promoted: since(running),
            answered: since(seen.and_then(|s| s.first_answer)),
            normal: since(seen.and_then(|s| s.normal_again)),
            rearmed: since(f.armed),
            restored: since(restored.map(|(at, _)| at)),
        },
        outage: seen.and_then(|s| s.outage),
        spacing_ns: found.map(|found| 1e9 / found.offered.0).filter(|ns| ns.is_finite() && *ns > 0.0),
        left_ns: found.and_then(|found| between(f.injected, Some(found.duration))),
        silence_ns: seen.and_then(|s| between(s.last_before, s.first_answer)),
        fencing_ns: between(f.detected, f.fenced),
        takeover_ns: match recovered.and_then(|r| r.stopped) {
            Some(stopped) => Some(stopped.0 as f64),
            None => between(f.fenced.or(f.detected), running),
        },
        rearm_ns: between(running.or(f.fenced).or(f.detected), f.armed),
        silence_arming_ns: seen.and_then(|s| s.silence_arming).map(|silence| silence.0 as f64),
        forgotten_ns: recovered
            .filter(|r| r.how == Recovery::Restored)
            .and_then(|r| r.age)
            .map(|age| age.0 as f64),
        rebuild_ns: f.rebuild.map(|took| took.0 as f64),
        counts: counts(f),
    }
}

/// Faults that several measures make are not the same: each measure has a load and faults of its own.
pub(super) fn tell_measures_apart(failovers: &mut [Failover]) {
    let mut measures: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for f in &*failovers {
        measures.entry(f.fault.clone()).or_default().insert(f.measure.clone());
    }
    for f in failovers {
        if measures[&f.fault].len() > 1 {
            let measure = format!(" ({})", f.measure);
            f.fault += &measure;
            f.happened += &measure;
        }
    }
}

/// The median of a quantity over the failovers of a kind.
fn median_of(failovers: &[Failover], name: &str, is_of: impl Fn(&Failover) -> bool) -> Option<f64> {
    let quantity = Quantity::named(name)?;
    let found: Vec<f64> = failovers.iter().filter(|f| is_of(f)).filter_map(quantity.of).collect();
    vtax_stats::quantile(&found, 0.5)
}

/// The median of what happened to requests over the failovers whose end is known, and whether it is only a lower bound: one after which
/// nobody was answered stands above all others, as whatever is asked for later has no answer, either. Where the median falls on such, of
/// an even number on one of its middle two, it is at least as much as any that is known, and as what was counted after it.
fn median_count(failovers: &[Failover], name: &str) -> Option<(f64, bool)> {
    let quantity = Quantity::named(name)?;
    let is_known = |f: &&Failover| matches!(f.end, End::Survived | End::Restored(_));
    let is_lost = |f: &&Failover| matches!(f.end, End::Lost(_));
    let mut counts: Vec<f64> = failovers.iter().filter(is_known).filter_map(quantity.of).collect();
    let known = counts.len();
    let most = counts.iter().copied().fold(0.0, f64::max);
    let at_least = |f: &Failover| (quantity.of)(f).unwrap_or_default().max(most);
    counts.extend(failovers.iter().filter(is_lost).map(at_least));
    Some((vtax_stats::quantile(&counts, 0.5)?, counts.len() / 2 >= known))
}

/// What a trial's faults come to: medians over those that count, as a trial gives one value of a metric.
pub(crate) fn values(record: &TrialRecord) -> Vec<Value> {
    let faults = failover(record).into_iter().flat_map(broken);
    let counted: Vec<Failover> =
        faults.map(|f| one(record, 0, f)).filter(|f| f.excluded.is_none() && !f.planned).collect();
    let is_survived = |f: &Failover| f.end == End::Survived;
    let is_restored = |f: &Failover| matches!(f.end, End::Restored(_));
    let mut values = Vec::new();
    let mut put = |metric, value: Option<f64>| {
        values.extend(value.map(|value| exact(metric, value)));
    };
    let share = counted.iter().filter(|f| is_survived(f)).count() as f64 / counted.len() as f64;
    put("survived", (!counted.is_empty()).then_some(share));
    // What had to be restored says nothing of times but the one after that; what was lost until then is lost.
    let times = [
        ("detection", "detection"),
        ("takeover", "takeover"),
        ("first_answer", "first_answer"),
        ("rebuild", "rebuild"),
    ];
    for (metric, name) in times {
        put(metric, median_of(&counted, name, is_survived));
    }
    put(AFTER_RESTORE, median_of(&counted, AFTER_RESTORE, is_restored));
    // Delayed is what was answered: where nobody was there is nothing to count.
    put("requests_delayed", median_of(&counted, "delayed", |f| is_survived(f) || is_restored(f)));
    let lost = median_count(&counted, "failed");
    values.extend(lost.map(|(value, censored)| Value { censored, ..exact("requests_lost", value) }));
    values.extend(writes::wrong(record).map(|wrong| exact("writes_wrong", wrong)));
    values.extend(converged(record));
    values
}

/// Medians over what was done to a trial's routers, the worse of both ways each.
fn converged(record: &TrialRecord) -> impl Iterator<Item = Value> {
    let events = routed::found(record).map_or(&[][..], |found| found.events.as_slice());
    let (mut broke, mut mended) = (Vec::new(), Vec::new());
    for event in events.iter().take(MOST_FAULTS) {
        let of_kind = if event.fault.mends() { &mut mended } else { &mut broke };
        of_kind.push(routed::worse([event.up, event.down]));
    }
    let told = |metric: &'static str, median: Option<(f64, bool)>| {
        median.map(|(ns, censored)| Value { censored, ..exact(metric, ns) })
    };
    let found = [
        told(CONVERGENCE_LOSS, routed::median_by_loss(&broke)),
        told(CONVERGENCE_RATE, routed::median_by_rate(&broke)),
        told(RESTORATION_LOSS, routed::median_by_loss(&mended)),
    ];
    found.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vtax_plan::model::{Fault, LossyLink, StopDaemon};
    use vtax_store::failover::{Connections, FailoverLoad, Recovered, TopologyEvent, TopologyOutcome};
    use vtax_store::ims::ImsOutcome;
    use vtax_store::record::Observation;
    use vtax_topology::convergence::Convergence;
    use vtax_topology::frr::Daemon;
    use vtax_units::Rate;

    use super::*;
    use crate::ft::figures::{Figure, QUANTITIES};

    fn trial() -> TrialRecord {
        TrialRecord {
            cell: "vm".to_owned(),
            measure: "failover".to_owned(),
            validity: Validity::Valid,
            ..TrialRecord::default()
        }
    }

    fn fault(t: &[Option<u64>; 8], counts: [u64; 4]) -> FaultRecord {
        let at = |i: usize| t[i].map(Nanos);
        FaultRecord {
            fault: Fault { at: Nanos(5), kind: FaultKind::Kill(FaultTarget::PrimaryHost) },
            injected: at(0),
            host: None,
            protected: true,
            discounted: None,
            detected: at(1),
            fenced: at(2),
            recovered: at(3).map(|at| Recovered { at, how: Recovery::Promoted, age: None, stopped: None }),
            lost: None,
            armed: at(4),
            rebuild: None,
            seen: Some(Seen {
                last_before: at(5),
                first_answer: at(6),
                outage: None,
                until: Nanos(counts[0]),
                attempts: counts[0],
                failed: counts[1],
                delayed: counts[2],
                retransmissions: counts[3],
                connections: Some(Connections { open: counts[1], kept: counts[2], lost: counts[3] }),
                normal: None,
                normal_again: at(7),
                silence_arming: at(6),
            }),
        }
    }

    fn moments() -> impl Strategy<Value = [Option<u64>; 8]> {
        prop::array::uniform8(prop::option::of(prop_oneof![any::<u64>(), 0u64..1000]))
    }

    #[test]
    fn a_fault_on_the_way_is_told_with_its_place() {
        let name = |text: &str| text.parse().unwrap();
        let of = |fault| happened(FaultKind::Topology(fault));
        assert_eq!(
            of(TopologyFault::CutLink(name("leaf1-spine1"))),
            "link leaf1-spine1 on the way to it was cut"
        );
        let lossy = LossyLink { link: name("p1-pe2"), from: Some(name("p1")), of_a_million: 1 };
        assert_eq!(
            of(TopologyFault::LossyLink(lossy)),
            "link p1-pe2 on the way to it silently lost packets from p1"
        );
        let stop = StopDaemon { router: name("p1"), daemon: Daemon::Ldpd };
        assert_eq!(of(TopologyFault::StopDaemon(stop)), "ldpd of router p1 on the way to it was ended");
    }

    #[test]
    fn the_same_fault_of_two_measures_is_told_apart() {
        let of = |measure: &str, kind| {
            let record = TrialRecord { measure: measure.to_owned(), ..trial() };
            let fault = fault(&[Some(1), None, None, None, None, None, Some(2), None], [9, 0, 0, 0]);
            one(&record, 1, &FaultRecord { fault: Fault { at: Nanos(5), kind }, ..fault })
        };
        let [kill, hang] = [FaultKind::Kill(FaultTarget::Sut), FaultKind::Hang(FaultTarget::Sut)];
        let mut all = [of("low", kill), of("high", kill), of("high", hang)];
        tell_measures_apart(&mut all);
        assert_eq!(
            all.each_ref().map(|f| f.fault.as_str()),
            ["kill: sut (low)", "kill: sut (high)", "hang: sut"]
        );
        assert_eq!(all[0].happened, "it was killed with the host it ran on (low)");
    }

    #[test]
    fn what_could_not_be_done_was_not_survived() {
        let (moments, counts) = ([Some(1), None, None, None, None, None, Some(2), None], [9, 0, 0, 0]);
        let done = fault(&moments, counts);
        assert_eq!(end(&done, None), End::Survived);
        let why = Some("it could not be done: no host is free".to_owned());
        let refused = FaultRecord { injected: None, seen: None, discounted: why.clone(), ..done.clone() };
        assert_eq!(end(&refused, None), End::Unknown);
        let unanswered = |discounted| {
            let seen = done.seen.clone().map(|seen| Seen { first_answer: None, ..seen });
            end(&FaultRecord { seen, discounted, ..done.clone() }, None)
        };
        assert_eq!(unanswered(why), End::Unknown);
        assert!(matches!(unanswered(None), End::Lost(_)));
    }

    #[test]
    fn each_fault_has_its_own_reason_not_to_count() {
        let (moments, counts) = ([Some(1), None, None, None, None, None, Some(2), None], [9, 0, 0, 0]);
        let why = "the guest was not protected at that moment".to_owned();
        let without = FaultRecord { discounted: Some(why.clone()), ..fault(&moments, counts) };
        let of = |reason: InvalidReason, f: &FaultRecord| {
            let validity =
                Validity::Invalid { reason, detail: "none of its faults tells anything".to_owned() };
            excluded(&TrialRecord { validity, ..trial() }, f)
        };
        assert_eq!(of(InvalidReason::MeasureFailed, &without), Some(why));
        assert!(of(InvalidReason::Disturbed, &without).is_some_and(|why| why.starts_with("its trial")));
        assert!(of(InvalidReason::MeasureFailed, &fault(&moments, counts)).is_some());
    }

    fn outcome(faults: Vec<FaultRecord>) -> FailoverOutcome {
        let load = ImsOutcome {
            doc: None,
            failed: None,
            phases: Vec::new(),
            stray: Default::default(),
            pools: Default::default(),
            connections: None,
            probe_clocks: Default::default(),
        };
        FailoverOutcome {
            offered: Rate(1.0),
            started_unix_ns: 0,
            duration: Nanos(1),
            delayed_beyond: Nanos(1),
            load: FailoverLoad::Scenarios(Box::new(load)),
            faults,
            unplanned: Vec::new(),
            unprotected: Vec::new(),
            down: Vec::new(),
            topology: None,
        }
    }

    #[test]
    fn a_fault_that_routers_never_came_back_from_counts() {
        let event = |rate: Option<u64>, loss: u64| {
            let (by_rate, by_loss) = (rate.map(Nanos), Nanos(loss));
            let way = Convergence { by_rate, by_loss, ..Convergence::default() };
            let fault = TopologyFault::CutLink("a-b".parse().unwrap());
            TopologyEvent { fault, at: Nanos(1), up: way, down: way }
        };
        let told = |metric: &str, events: Vec<TopologyEvent>| {
            let topology = TopologyOutcome {
                interval: Nanos(1),
                late: Nanos(0),
                before: None,
                events,
                timeline: Vec::new(),
                problem: None,
            };
            let found = FailoverOutcome { topology: Some(Box::new(topology)), ..outcome(Vec::new()) };
            let observations = vec![Observation::whole(0, Finding::Failover(Box::new(found)))];
            let values = values(&TrialRecord { observations, ..trial() });
            let of_metric = values.iter().find(|v| v.metric == metric);
            of_metric.map(|v| (v.value, v.censored))
        };
        let (back, never) = (event(Some(20), 20), event(None, 900));
        for metric in [CONVERGENCE_RATE, CONVERGENCE_LOSS] {
            let told = |events: Vec<TopologyEvent>| told(metric, events);
            assert_eq!(told(vec![back.clone(), back.clone(), never.clone()]), Some((20.0, false)));
            // The next thing cut it off: it would have lost more.
            assert_eq!(told(vec![back.clone(), never.clone(), never.clone()]), Some((900.0, true)));
            assert_eq!(told(Vec::new()), None);
        }
    }

    #[test]
    fn what_was_lost_for_good_is_above_all_other_losses() {
        let times = [Some(0), None, None, None, None, None, Some(2_000_000), None];
        let survived = |failed: u64| fault(&times, [9, failed, 3, 0]);
        let lost =
            |failed: u64| FaultRecord { lost: Some("both hosts are gone".to_owned()), ..survived(failed) };
        let told = |metric: &str, faults: Vec<FaultRecord>| {
            let observations = vec![Observation::whole(0, Finding::Failover(Box::new(outcome(faults))))];
            let values = values(&TrialRecord { observations, ..trial() });
            values.iter().find(|v| v.metric == metric).map(|v| (v.value, v.censored))
        };
        let requests_lost = |faults: Vec<FaultRecord>| told("requests_lost", faults);
        assert_eq!(requests_lost(Vec::new()), None);
        assert_eq!(requests_lost(vec![survived(0), survived(1), lost(40)]), Some((1.0, false)));
        assert_eq!(requests_lost(vec![survived(0), lost(40), lost(50)]), Some((40.0, true)));
        // Soon after it the load was over, so that few were counted.
        assert_eq!(requests_lost(vec![survived(7), lost(2), lost(2)]), Some((7.0, true)));
        assert_eq!(requests_lost(vec![FaultRecord { seen: None, ..lost(5) }]), Some((0.0, true)));
        // Of an even number both of the middle count.
        assert_eq!(requests_lost(vec![survived(0), lost(10)]), Some((5.0, true)));
        // Who wasn't answered wasn't answered late.
        let delayed = |faults: Vec<FaultRecord>| told("requests_delayed", faults);
        assert_eq!(delayed(vec![survived(0), lost(40), lost(50)]), Some((3.0, false)));
        assert_eq!(delayed(vec![lost(40)]), None);
    }

    /// A fault at 2 s that ended after so many seconds, in a trial in which something was mended at 12 s.
    fn broken_until(kind: FaultKind, answered: u64, mend: FaultKind) -> (FaultRecord, TrialRecord) {
        let second = |seconds: u64| Some(Nanos::from_secs(seconds).0);
        let times = [second(2), None, None, None, None, second(1), second(answered), second(answered)];
        let of = |kind| FaultRecord { fault: Fault { at: Nanos(5), kind }, ..fault(&times, [9, 4, 0, 0]) };
        let mended = FaultRecord { injected: second(12).map(Nanos), seen: None, ..of(mend) };
        let found = FailoverOutcome { duration: Nanos::from_secs(30), ..outcome(vec![of(kind), mended]) };
        let observations = vec![Observation::whole(0, Finding::Failover(Box::new(found)))];
        (of(kind), TrialRecord { observations, ..trial() })
    }

    #[test]
    fn what_answers_only_once_it_was_restored_was_not_survived() {
        let cut = FaultKind::Topology(TopologyFault::CutLink("p1-pe2".parse().unwrap()));
        let mend = FaultKind::Topology(TopologyFault::RestoreLink("p1-pe2".parse().unwrap()));
        let (f, record) = broken_until(cut, 14, mend);
        let found = one(&record, 1, &f);
        assert_eq!(found.end, End::Restored("link p1-pe2 was restored".to_owned()));
        assert_eq!((found.times.restored, found.after_restore_ns()), (Some(10.0), Some(2e9)));
        let value = |record: &TrialRecord, metric: &str| {
            values(record).iter().find(|v| v.metric == metric).map(|v| v.value)
        };
        assert_eq!((value(&record, "survived"), value(&record, "first_answer")), (Some(0.0), None));
        assert_eq!(value(&record, "after_restore"), Some(2e9));
        assert!(value(&record, "requests_lost").is_some());
        let line = describe_faults(failover(&record).unwrap());
        assert_eq!(line, "1 fault, first answer after 12.0 s (2.00 s after link p1-pe2 was restored)");
        // By itself, and mended later.
        let (f, record) = broken_until(cut, 3, mend);
        let found = one(&record, 1, &f);
        assert_eq!((found.end.clone(), found.after_restore_ns()), (End::Survived, None));
        assert_eq!((value(&record, "survived"), value(&record, "first_answer")), (Some(1.0), Some(1e9)));
        assert_eq!(value(&record, "after_restore"), None);
        // One that was mended although nobody had to wait.
        let (f, record) = broken_until(cut, 14, mend);
        let seen = f.seen.clone().map(|seen| Seen { outage: Some(false), ..seen });
        assert_eq!(one(&record, 1, &FaultRecord { seen, ..f }).end, End::Survived);
    }

    #[test]
    fn what_is_restored_is_not_always_what_answers_again() {
        use FaultKind::{Cut, Hang, Kill, Restore};
        use FaultTarget::{FtLink, Hosts, Path, PrimaryHost, Sut};
        let end = |kind, mend| {
            let (f, record) = broken_until(kind, 14, mend);
            one(&record, 1, &f).end
        };
        assert_eq!(end(Cut(Path), Restore(Path)), End::Restored("the network was restored".to_owned()));
        assert_eq!(end(Hang(Sut), Restore(Sut)), End::Restored("it was woken".to_owned()));
        assert_eq!(end(Hang(PrimaryHost), Restore(Hosts)), End::Restored("it was woken".to_owned()));
        // A guest that was killed with its host is answered for by its copy, or by itself once it was booted again.
        assert_eq!(end(Kill(PrimaryHost), Restore(Hosts)), End::Survived);
        assert_eq!(end(Cut(FtLink), Restore(FtLink)), End::Survived);
        assert_eq!(end(Cut(Path), Restore(Hosts)), End::Survived);
        // Another host had taken over from one that hung.
        let (f, record) = broken_until(Hang(PrimaryHost), 14, Restore(Hosts));
        let recovered = Recovered { at: Nanos(1), how: Recovery::Promoted, age: None, stopped: None };
        assert_eq!(one(&record, 1, &FaultRecord { recovered: Some(recovered), ..f }).end, End::Survived);
    }

    #[test]
    fn what_keeps_nobody_waiting_has_no_first_answer() {
        let times = [Some(0), None, None, None, None, None, Some(8_590_000), Some(8_590_000)];
        let calm = fault(&times, [9, 0, 0, 0]);
        let seen = calm.seen.clone().map(|seen| Seen { outage: Some(false), ..seen });
        let calm = FaultRecord { seen, ..calm };
        let of = |f: &FaultRecord, name: &str| {
            let quantity = Quantity::named(name).unwrap();
            (quantity.of)(&one(&trial(), 1, f))
        };
        assert_eq!((of(&calm, "first_answer"), of(&calm, "normal")), (None, None));
        assert_eq!(one(&trial(), 1, &calm).end, End::Survived);
        // Latency that rose all the same took its time to be as before.
        let slower = calm.seen.clone().map(|seen| Seen { normal_again: Some(Nanos(2_000_000_000)), ..seen });
        assert_eq!(of(&FaultRecord { seen: slower, ..calm.clone() }, "normal"), Some(2e9));
        let line = |faults: Vec<FaultRecord>| describe_faults(&outcome(faults));
        assert_eq!(line(vec![calm.clone(); 2]), "2 faults, no outage");
        let other = fault(&[Some(0), None, None, None, None, None, Some(741_000_000), None], [9, 0, 0, 0]);
        let mixed = "2 faults, no outage after 1 of them, first answer after 741 ms";
        assert_eq!(line(vec![calm, other]), mixed);
    }

    #[test]
    fn a_line_has_the_first_answers_after_some_faults() {
        let line = |faults: Vec<FaultRecord>| describe_faults(&outcome(faults));
        let one = fault(&[Some(0), None, None, None, None, None, Some(2_000_000), None], [9, 0, 0, 0]);
        let lost = FaultRecord { lost: Some("both hosts are gone".to_owned()), seen: None, ..one.clone() };
        let lost_twice = "2 faults, no answer after them; service lost 2 times";
        assert_eq!(line(vec![lost.clone(); 2]), lost_twice);
        assert_eq!(line(vec![lost]), "1 fault, no answer after it; service lost 1 time");
        assert_eq!(line(vec![one.clone(); 2]), "2 faults, first answer after 2.00 ms, 2.00 ms");
        let many = "6 faults, first answer after 2.00 ms, 2.00 ms, 2.00 ms, 2.00 ms and 2 more";
        assert_eq!(line(vec![one; 6]), many);
    }

    #[test]
    fn a_move_on_purpose_is_told_by_its_silence() {
        // Begun at 1 s; answers until 1.3 s and from 1.5 s on.
        let times = [1_000, 0, 0, 1_400, 1_900, 1_300, 1_500, 1_600].map(|ms| Some(ms * 1_000_000));
        let times = [times[0], None, None, times[3], times[4], times[5], times[6], times[7]];
        let killed = fault(&times, [9, 0, 0, 0]);
        let kind = FaultKind::Failover(FaultTarget::Planned);
        let moved = FaultRecord { fault: Fault { at: Nanos(5), kind }, ..killed.clone() };
        let of = |f: &FaultRecord, name: &str| {
            let quantity = Quantity::named(name).unwrap();
            (quantity.of)(&one(&trial(), 1, f)).map(|ns| (ns / 1e6).round())
        };
        assert_eq!((of(&moved, "silence"), of(&moved, "first_answer")), (Some(200.0), None));
        assert_eq!((of(&killed, "silence"), of(&killed, "first_answer")), (None, Some(500.0)));
    }

    #[test]
    fn a_replaced_disk_is_told_by_its_rebuild() {
        let moments = [Some(1), None, None, None, None, None, Some(2), None];
        let of = |kind, rebuild| FaultRecord {
            fault: Fault { at: Nanos(5), kind },
            rebuild,
            ..fault(&moments, [9, 0, 0, 0])
        };
        let failed = of(FaultKind::Fail(FaultTarget::Disk), None);
        let replaced = of(FaultKind::Replace(FaultTarget::Disk), Some(Nanos(3_000_000_000)));
        let quantity = Quantity::named("rebuild").unwrap();
        let value = |f: &FaultRecord| (quantity.of)(&one(&trial(), 1, f));
        assert_eq!((value(&failed), value(&replaced)), (None, Some(3e9)));
        assert_eq!(one(&trial(), 1, &replaced).fault, "replace: disk");
    }

    proptest! {
        /// Whatever the order of moments: no length is negative or not a number, and none of them is lost on the
        /// way into a table.
        #[test]
        fn moments_in_any_order(t in moments(), counts in any::<[u64; 4]>()) {
            let found = one(&trial(), 1, &fault(&t, counts));
            for q in &QUANTITIES {
                let value = (q.of)(&found);
                prop_assert!(value.is_none_or(|v| v.is_finite() && v >= 0.0), "{}: {value:?}", q.name);
                let figure = Figure::new([value; 4]);
                prop_assert!(figure.text(q.unit).len() < 40 && figure.detail(q.unit).len() < 80);
            }
            prop_assert_eq!(found.times.detected.is_some(), matches!((t[0], t[1]), (Some(a), Some(b)) if b >= a));
        }
    }
}
