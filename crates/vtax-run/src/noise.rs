//! Whether what else happened on the machine keeps a trial from counting.

use vtax_plan::model::MeasureKind;
use vtax_probe::noise::{Disturbance, STEAL_SHARE};
use vtax_probe::others::{Census, Others};
use vtax_store::record::{InvalidReason, Validity};
use vtax_units::Nanos;

/// Share of the SUT's CPUs that others may take, and of the time in which they are wanted that a hypervisor may, before a trial no
/// longer counts: as much as the usual margin of a verdict, which a larger one could turn. Less is only told.
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
    let much = |share: f64, seconds: f64| share > DISTURBED_SHARE && seconds > DISTURBED_TIME.as_secs_f64();
    let by_others = much(noise.foreign, noise.foreign * noise.time.as_secs_f64());
    let contended = !shared && (by_others || much(noise.steal, noise.stolen.as_secs_f64()));
    let slowed = noise.throttles > 0 || noise.frequency_drop > DISTURBED_CLOCK;
    let starved = noise.swapped_pages > 0 || (noise.short_of_memory && noise.memory_wait > DISTURBED_SHARE);
    contended || slowed || starved
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

    #[test]
    fn a_clock_is_judged_only_where_the_load_stays_the_same() {
        let judged = |text: &str| {
            let plan = format!(
                "vtax: 1\nname: t\nbaseline: native\nenvironments: [native]\nservices: http\n\
                 workload: {{http: {{target: /bytes/1}}}}\nmeasure: {text}\n"
            );
            let plan = vtax_plan::parse("t", plan.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
            has_constant_load(&plan.measures[0].kind)
        };
        assert!(judged("[throughput]") && judged("[latency: {load: 100/s, duration: 1s}]"));
        assert!(!judged("[capacity]"));
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
