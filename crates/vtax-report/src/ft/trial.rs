//! What one trial with faults comes to.

use std::collections::{BTreeMap, BTreeSet};

use vtax_plan::model::{FaultKind, FaultTarget, TopologyFault};
use vtax_store::failover::{FailoverOutcome, FaultRecord, Recovery};
use vtax_store::record::{Finding, InvalidReason, TrialRecord, Validity};
use vtax_topology::convergence::Convergence;
use vtax_units::{Nanos, counted};

use super::failover::{Counts, End, Failover, Times};
use super::figures::QUANTITIES;
use super::writes;
use crate::format::duration;
use crate::metric::{Info, Value, exact, higher, lower};
use crate::routed;
use crate::words::invalid;

/// Faults of one trial that are looked at: a run may hold anything.
const MOST_FAULTS: usize = 1000;
/// First answers after faults that are named one by one.
const MOST_NAMED: usize = 4;

/// How long routers' data plane was broken, by the rate of what arrived: a bound where it never was whole again.
pub(crate) const CONVERGENCE_RATE: &str = "convergence_rate";

/// The metrics of faults, in the order of tables.
pub(crate) const METRICS: &[Info] = &[
    higher("survived", "faults survived", "1", 0),
    lower("detection", "fault to its detection", "ns", 0),
    lower("takeover", "take-over", "ns", 0),
    lower("first_answer", "fault to first answer", "ns", 0),
    lower("requests_lost", "requests lost per fault", "", 0),
    lower("requests_delayed", "requests delayed per fault", "", 0),
    lower("rebuild", "rebuild of the RAID", "ns", 0),
    lower("writes_wrong", "acknowledged writes lost or wrong", "", 0),
    lower("convergence_loss", "convergence of the routers' data plane, by loss", "ns", 0),
    lower(CONVERGENCE_RATE, "convergence of the routers' data plane, by rate", "ns", 0),
    lower("restoration_loss", "loss on the way back, as time", "ns", 0),
];

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

/// What became of the faults of a trial, in a few words.
pub(crate) fn describe_faults(found: &FailoverOutcome) -> String {
    let injected = || broken(found).filter(|f| f.injected.is_some());
    let first_answer = |f: &FaultRecord| between(f.injected, f.seen.as_ref()?.first_answer).map(duration);
    let mut answers: Vec<String> = injected().filter_map(first_answer).collect();
    let more = answers.len().saturating_sub(MOST_NAMED);
    answers.truncate(MOST_NAMED);
    let count = injected().count();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let answered = match (answers.is_empty(), count) {
        (true, 1) => "no answer after it".to_owned(),
        (true, _) => "no answer after them".to_owned(),
        (false, _) => format!("first answer after {}{more}", answers.join(", ")),
    };
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

/// How a fault ended for the service.
fn end(f: &FaultRecord) -> End {
    match (&f.lost, &f.seen) {
        (Some(why), _) => End::Lost(why.clone()),
        (None, Some(seen)) if seen.first_answer.is_some() => End::Survived,
        (None, Some(_)) if f.discounted.is_none() => {
            End::Lost("nobody answered until the end of the trial or the next fault".to_owned())
        }
        (None, _) => End::Unknown,
    }
}

/// What a fault did to clients.
fn counts(f: &FaultRecord) -> Counts {
    let seen = f.seen.as_ref();
    let connections = seen.and_then(|s| s.connections);
    Counts {
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
    Failover {
        trial: record.index,
        measure: record.measure.clone(),
        number,
        fault: f.fault.kind.words(),
        happened: happened(f.fault.kind),
        host_failed: host_failed(f.fault.kind),
        planned,
        at: f.injected.unwrap_or(f.fault.at).as_secs_f64(),
        end: end(f),
        excluded: excluded(record, f),
        times: Times {
            detected: since(f.detected),
            fenced: since(f.fenced),
            promoted: since(running),
            answered: since(seen.and_then(|s| s.first_answer)),
            normal: since(seen.and_then(|s| s.normal_again)),
            rearmed: since(f.armed),
        },
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

/// What a trial's faults come to: medians over those that count, as a trial gives one value of a metric.
pub(crate) fn values(record: &TrialRecord) -> Vec<Value> {
    let faults = failover(record).into_iter().flat_map(broken);
    let counted: Vec<Failover> =
        faults.map(|f| one(record, 0, f)).filter(|f| f.excluded.is_none() && !f.planned).collect();
    let survived: Vec<&Failover> = counted.iter().filter(|f| f.end == End::Survived).collect();
    let mut values = Vec::new();
    let mut put = |metric, value: Option<f64>| {
        values.extend(value.map(|value| exact(metric, value)));
    };
    let share = survived.len() as f64 / counted.len() as f64;
    put("survived", (!counted.is_empty()).then_some(share));
    for (metric, name) in [
        ("detection", "detection"),
        ("takeover", "takeover"),
        ("first_answer", "first_answer"),
        ("requests_lost", "failed"),
        ("requests_delayed", "delayed"),
        ("rebuild", "rebuild"),
    ] {
        let of = QUANTITIES.iter().find(|q| q.name == name).map(|q| q.of);
        let found: Vec<f64> = survived.iter().filter_map(|f| of.and_then(|of| of(f))).collect();
        put(metric, vtax_stats::quantile(&found, 0.5));
    }
    put("writes_wrong", writes::wrong(record));
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
    let by_loss = |metric: &'static str, all: &[Convergence]| {
        let times: Vec<f64> = all.iter().map(|found| found.by_loss.0 as f64).collect();
        vtax_stats::quantile(&times, 0.5).map(|ns| exact(metric, ns))
    };
    let by_rate = routed::median_by_rate(&broke);
    let by_rate = by_rate.map(|(ns, censored)| Value { censored, ..exact(CONVERGENCE_RATE, ns) });
    let found = [by_loss("convergence_loss", &broke), by_rate, by_loss("restoration_loss", &mended)];
    found.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vtax_plan::model::{Fault, LossyLink, StopDaemon};
    use vtax_store::failover::{Connections, FailoverLoad, Recovered, Seen, TopologyEvent, TopologyOutcome};
    use vtax_store::ims::ImsOutcome;
    use vtax_store::record::Observation;
    use vtax_topology::frr::Daemon;
    use vtax_units::Rate;

    use super::*;
    use crate::ft::figures::Figure;

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
        assert_eq!(end(&done), End::Survived);
        let why = Some("it could not be done: no host is free".to_owned());
        let refused = FaultRecord { injected: None, seen: None, discounted: why.clone(), ..done.clone() };
        assert_eq!(end(&refused), End::Unknown);
        let unanswered = |discounted| {
            let seen = done.seen.clone().map(|seen| Seen { first_answer: None, ..seen });
            end(&FaultRecord { seen, discounted, ..done.clone() })
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
        let by_rate = |events: Vec<TopologyEvent>| {
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
            let of_rate = values.iter().find(|v| v.metric == CONVERGENCE_RATE);
            of_rate.map(|v| (v.value, v.censored))
        };
        let (back, never) = (event(Some(20), 20), event(None, 900));
        assert_eq!(by_rate(vec![back.clone(), back.clone(), never.clone()]), Some((20.0, false)));
        assert_eq!(by_rate(vec![back, never.clone(), never]), Some((900.0, true)));
        assert_eq!(by_rate(Vec::new()), None);
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
            let quantity = QUANTITIES.iter().find(|q| q.name == name).unwrap();
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
        let quantity = QUANTITIES.iter().find(|q| q.name == "rebuild").unwrap();
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
