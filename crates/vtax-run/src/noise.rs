//! Whether what else happened on the machine keeps a trial from counting.

use vtax_plan::model::{MeasureKind, NetworkTestKind, Workload};
use vtax_probe::noise::{Disturbance, STEAL_SHARE};
use vtax_probe::others::{Census, Others};
use vtax_store::record::{InvalidReason, Validity};
use vtax_units::Nanos;

/// Share of the SUT's CPUs that others may take, and of the time in which they are wanted that a hypervisor may (in a closed loop of all
/// time), before a trial no longer counts: as much as the usual margin of a verdict, which a larger one could turn. Less is only told.
pub(crate) const DISTURBED_SHARE: f64 = 0.05;
/// Drop of the clock between a trial's first and last third beyond which it no longer counts: what was
/// measured before and after are two machines.
const DISTURBED_CLOCK: f64 = 0.10;
/// CPU time of others below which nothing is said to be disturbed: the kernel counts in ticks of
/// 10 ms, and a few of them are a large share of a short trial.
const DISTURBED_TIME: Nanos = Nanos::from_millis(50);

/// Whether so much happened on the SUT's CPUs that the trial doesn't count.
///
/// Sides of a duet that share their CPUs share what disturbs them, which is what they are for: load
/// of others is only told there.
pub(crate) fn is_too_much(noise: &Disturbance, shared: bool) -> bool {
    let foreign = Nanos((noise.foreign * noise.time.0 as f64) as u64);
    let contended = !shared && (is_much(noise.foreign, foreign) || is_much(noise.steal, noise.stolen));
    let slowed = noise.throttles > 0 || noise.frequency_drop > DISTURBED_CLOCK;
    let starved = noise.swapped_pages > 0 || (noise.short_of_memory && noise.memory_wait > DISTURBED_SHARE);
    contended || slowed || starved
}

/// Whether a share of a trial's time is so much that it doesn't count.
fn is_much(share: f64, time: Nanos) -> bool {
    share > DISTURBED_SHARE && time > DISTURBED_TIME
}

/// Whether a measure's load is the same from its beginning to its end. Elsewhere the clock of CPUs follows the load: it falls where a
/// search ends, between the tests of a suite, or when a fault leaves nothing to do.
pub(crate) const fn has_constant_load(measure: &MeasureKind) -> bool {
    match measure {
        MeasureKind::Latency(_) | MeasureKind::Throughput(_) => true,
        MeasureKind::Capacity(_)
        | MeasureKind::Ims(_)
        | MeasureKind::Failover(_)
        | MeasureKind::Network(_)
        | MeasureKind::Storage(_) => false,
    }
}

/// Whether all that a measure does is a closed loop, in which the next operation begins once one before it is over: there, unlike where
/// operations are due at times of their own, what a hypervisor takes delays all of them together by no more than that.
pub(crate) fn is_closed_loop(measure: &MeasureKind, workload: &Workload) -> bool {
    matches!(measure, MeasureKind::Throughput(_)) || are_tests_closed_loops(measure, workload)
}

/// Whether a measure is of tests that are closed loops. Their operations wait for the client's CPUs, and for what else runs there (a
/// client's guest, an emulated lab's routers), as much as for the system under test's: unlike a throughput, they have no others at the
/// same time that keep the system busy meanwhile.
fn are_tests_closed_loops(measure: &MeasureKind, workload: &Workload) -> bool {
    match (measure, workload) {
        (MeasureKind::Network(_), Workload::Network(network)) => {
            let mut kinds = network.tests.iter().map(|test| &test.kind);
            kinds.all(|kind| matches!(kind, NetworkTestKind::Tcp(_) | NetworkTestKind::Rr(_)))
        }
        (MeasureKind::Storage(_), Workload::Storage(storage)) => {
            storage.tests.iter().all(|test| test.rate.is_none())
        }
        _ => false,
    }
}

/// Why a trial doesn't count for what a hypervisor took of the client's CPUs.
pub(crate) fn taken_from_client(
    client: Disturbance,
    measure: &MeasureKind,
    workload: &Workload,
) -> Option<String> {
    let taken = are_tests_closed_loops(measure, workload).then(|| client.of_closed_loop())?;
    let percent = taken.steal * 100.0;
    is_much(taken.steal, taken.stolen)
        .then(|| format!("a hypervisor took the load generator's CPUs away for {percent:.1} % of the time"))
}

/// `ours` with all that threads of the kernel have done since this census: where systems have disks these write, encrypt and check for them
/// on any CPU. `None` where one of the two isn't known.
pub(crate) fn with_kernel(ours: Option<Nanos>, census: Option<&(&Others, Census)>) -> Option<Nanos> {
    let (ours, (others, start)) = ours.zip(census)?;
    let kernel = others.look().kernel_time_since(start)?;
    Some(Nanos(ours.0.saturating_add(kernel.0)))
}

/// A generator whose CPUs a hypervisor took was not limited by itself: more CPUs would not have helped.
/// `stolen` is the share of the time in which its CPUs were wanted.
pub(crate) fn blame(validity: Validity, stolen: f64) -> Validity {
    match validity {
        Validity::Invalid { reason: InvalidReason::GeneratorLimited, detail } if stolen > STEAL_SHARE => {
            let percent = stolen * 100.0;
            let what = format!("a hypervisor took {percent:.1} % of the time that the load generator wanted");
            let detail = format!("{what}; {detail}");
            Validity::Invalid { reason: InvalidReason::Disturbed, detail }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A process of a recorded host, and the ticks that it has used.
    fn put(proc: &Path, id: u32, (name, flags): (&str, u32), ticks: u64) {
        let directory = proc.join(id.to_string());
        std::fs::create_dir_all(&directory).unwrap();
        let rest = "0 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0";
        let text = format!("{id} ({name}) S 2 0 0 0 0 {flags} 0 0 0 0 {ticks} {rest}\n");
        std::fs::write(directory.join("stat"), text).unwrap();
    }

    #[test]
    fn threads_of_the_kernel_that_work_for_a_disk_are_no_strangers() {
        let directory = tempfile::tempdir().unwrap();
        let (thread, program) = (("kcryptd", 0x20_8040), ("stranger", 0x40_0000));
        put(directory.path(), 7, thread, 10);
        put(directory.path(), 8, program, 10);
        let others = Others::with_proc(directory.path(), 1);
        let census = (&others, others.look());
        let ours = Some(Nanos::from_secs(3));
        assert_eq!(with_kernel(ours, Some(&census)), ours, "nobody did anything");
        put(directory.path(), 8, program, 500);
        assert_eq!(with_kernel(ours, Some(&census)), ours, "a stranger stays one");
        put(directory.path(), 7, thread, 110);
        assert!(with_kernel(ours, Some(&census)) > ours);
        assert_eq!((with_kernel(None, Some(&census)), with_kernel(ours, None)), (None, None));
        // As in a container.
        std::fs::remove_dir_all(directory.path().join("7")).unwrap();
        assert_eq!(with_kernel(ours, Some(&census)), None);
    }

    /// The first measure and workload of a plan with these lines.
    fn planned(lines: &str) -> (MeasureKind, Workload) {
        let text = format!("vtax: 1\nname: t\nbaseline: native\nenvironments: [native]\n{lines}\n");
        let plan = vtax_plan::parse("t", text.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
        (plan.measures[0].kind.clone(), plan.cells[0].workload.clone())
    }

    #[test]
    fn a_clock_is_judged_only_where_the_load_stays_the_same() {
        let judged = |measure: &str| has_constant_load(&planned(&of_http(measure)).0);
        assert!(judged("[throughput]") && judged("[latency: {load: 100/s, duration: 1s}]"));
        assert!(!judged("[capacity]"));
    }

    fn of_http(measure: &str) -> String {
        format!("services: http\nworkload: {{http: {{target: /bytes/1}}}}\nmeasure: {measure}")
    }

    #[test]
    fn a_load_with_times_of_its_own_is_no_closed_loop() {
        let closed = |lines: &str| {
            let (measure, workload) = planned(lines);
            is_closed_loop(&measure, &workload)
        };
        let network = |tests: &str| closed(&format!("workload: [{tests}]\nmeasure: [network: {{}}]"));
        assert!(network("{rr: {}}, {tcp: {}}"));
        assert!(!network("{rr: {}}, {udp: {rate: 1mbit}}") && !network("ping: {}"));
        assert!(closed(&of_http("[throughput]")));
        assert!(
            !closed(&of_http("[capacity]")) && !closed(&of_http("[latency: {load: 100/s, duration: 1s}]"))
        );
        let storage = |rate: &str| {
            closed(&format!(
                "workload: {{storage: {{operations: read, size: 1MiB, record: 4KiB{rate}}}}}\nmeasure: [storage: {{}}]"
            ))
        };
        assert!(storage("") && !storage(", rate: 100/s"));
    }

    #[test]
    fn tests_wait_for_both_sides() {
        let client = |milliseconds: u64| Disturbance {
            steal: 0.5,
            stolen: Nanos::from_millis(milliseconds),
            elapsed: Nanos::from_secs(10),
            ..Disturbance::default()
        };
        let told = |lines: &str, milliseconds: u64| {
            let (measure, workload) = planned(lines);
            taken_from_client(client(milliseconds), &measure, &workload)
        };
        let tests = "workload: [rr: {}]\nmeasure: [network: {}]";
        let why = "a hypervisor took the load generator's CPUs away for 6.0 % of the time";
        assert_eq!(told(tests, 600).as_deref(), Some(why));
        assert_eq!(told(tests, 400), None);
        assert_eq!(told(&of_http("[throughput]"), 600), None, "others keep the system busy");
    }

    #[test]
    fn a_generator_is_not_blamed_for_what_a_hypervisor_took() {
        let late =
            || Validity::Invalid { reason: InvalidReason::GeneratorLimited, detail: "it was late".into() };
        assert_eq!(blame(late(), 0.004), late());
        let disturbed = Validity::Invalid {
            reason: InvalidReason::Disturbed,
            detail: "a hypervisor took 12.0 % of the time that the load generator wanted; it was late".into(),
        };
        assert_eq!(blame(late(), 0.12), disturbed);
        assert_eq!(blame(Validity::Valid, 0.12), Validity::Valid, "who kept up kept up");
    }

    #[test]
    fn a_few_ticks_and_a_shared_duet_are_not_disturbed() {
        // CPUs that are wanted half of the time.
        let noise = |seconds: f64, steal: f64| Disturbance {
            time: Nanos((seconds * 1e9) as u64),
            steal,
            stolen: Nanos((seconds * 1e9 * steal / 2.0) as u64),
            ..Disturbance::default()
        };
        assert!(is_too_much(&noise(2.0, 0.06), false));
        assert!(!is_too_much(&noise(2.0, 0.04), false));
        assert!(!is_too_much(&noise(1.0, 0.06), false), "30 ms are three ticks");
        assert!(!is_too_much(&noise(2.0, 0.06), true));
        let others = |seconds: u64, foreign| {
            let time = Nanos::from_secs(seconds);
            is_too_much(&Disturbance { time, foreign, ..Disturbance::default() }, false)
        };
        assert_eq!([others(1, 0.06), others(1, 0.04), others(0, 0.06)], [true, false, false]);
        assert!(is_too_much(&Disturbance { throttles: 1, ..Disturbance::default() }, true));
    }
}
