//! A smoke test of a plan: each of its trials once and briefly, to see that all of it works before it is measured for long.

use vtax_units::{Nanos, Rate, Share};

use crate::model::{
    CapacityMeasure, Load, Measure, MeasureKind, NetworkTest, Plan, Ramp, Repeat, Scenario, SipWorkload,
    Workload,
};

/// The longest time that counts of a load that is fast enough for it, and of a storage test.
const LOAD: Nanos = Nanos::from_millis(3_000);
/// The longest time that counts of a network test, and of a storage test without an end of its own.
const TEST: Nanos = Nanos::from_millis(1_000);
/// The longest step of the IMS benchmark, whose scenarios take seconds.
const IMS_STEP: Nanos = Nanos::from_millis(10_000);
/// The longest time at the start of a load or test that doesn't count.
const WARMUP: Nanos = Nanos::from_millis(500);
/// A slower load goes on until so many requests are due.
const REQUESTS: f64 = 20.0;
/// As many of SIP's subscribers are registered at least, where the plan has so many registered.
const REGISTERED: f64 = 1_000.0;
/// For each scenario that is attempted in a second so many are registered at least: then enough are free where answers take seconds.
const REGISTERED_FOR_EACH: f64 = 10.0;

/// What stands behind the name of a plan in that of its smoke test.
const SUFFIX: &str = "-smoke-test";

/// Whether a plan is what [`smoke_test`] made of another: told by its name and its one round, as that is what a stored run has.
#[must_use]
pub fn is_smoke_test(plan: &Plan) -> bool {
    plan.repeat.max == 1 && plan.name.ends_with(SUFFIX)
}

/// The plan that makes each measure in each cell once: loads and tests are short, searches don't go above their first step, and loads
/// that are shares of a capacity are shares of that step's rate. Faults keep their times, and so do tests whose path is cut.
#[must_use]
pub fn smoke_test(plan: &Plan) -> Plan {
    let mut short = Plan {
        name: format!("{}{SUFFIX}", plan.name),
        description: format!(
            "Does all of {} work? Each trial once and briefly; its figures say nothing.",
            plan.name
        ),
        repeat: Repeat { min: 1, max: 1, budget: None, ..plan.repeat },
        ..plan.clone()
    };
    let first_steps = plan.measures.iter().filter(|measure| measure.kind.finds_capacity());
    let capacity = first_steps.filter_map(|measure| measure.kind.first_rate()).next();
    for measure in &mut short.measures {
        shorten(&mut measure.kind, capacity);
    }
    if let Some(rate) = highest(&short.measures) {
        for cell in &mut short.cells {
            if let Workload::Sip(sip) = &mut cell.workload {
                register_few(sip, rate);
            }
        }
    }
    // A shorter test would be over before its path is cut.
    let is_cut = |kind: &MeasureKind| matches!(kind, MeasureKind::Network(it) if it.cut.is_some());
    if !plan.measures.iter().any(|measure| is_cut(&measure.kind)) {
        for cell in &mut short.cells {
            if let Workload::Network(network) = &mut cell.workload {
                network.tests.iter_mut().for_each(shorten_test);
            }
        }
    }
    short
}

/// The highest rate that a load begins with; `None` where one of them isn't known.
fn highest(measures: &[Measure]) -> Option<Rate> {
    let mut rates = measures.iter().map(|measure| measure.kind.first_rate());
    rates.try_fold(0.0, |highest: f64, rate| Some(highest.max(rate?.0))).map(Rate)
}

/// Has no more subscribers registered than loads of this rate need, as that takes minutes for many of them. The service still knows
/// them all.
fn register_few(sip: &mut SipWorkload, rate: Rate) {
    let share =
        |of: Scenario| -> f64 { sip.mix.iter().filter(|p| p.scenario == of).map(|p| p.share.0).sum() };
    // Few would soon be none.
    if share(Scenario::DeRegistration) > share(Scenario::Registration) {
        return;
    }
    // One more, lest rounding leave too few.
    let for_calls = sip.busy_at(rate) / SipWorkload::MOST_BUSY.0 + 1.0;
    let needed = for_calls.max(REGISTERED_FOR_EACH * rate.0).max(REGISTERED);
    let needed = Share(needed / f64::from(sip.subscribers.count));
    if needed < sip.registered {
        sip.registered = needed;
    }
}

fn at_most(time: &mut Nanos, longest: Nanos) {
    *time = (*time).min(longest);
}

fn shorten_test(test: &mut NetworkTest) {
    if let Some(warmup) = &mut test.warmup {
        at_most(warmup, WARMUP);
    }
    if let Some(duration) = &mut test.duration {
        at_most(duration, TEST);
    }
}

/// Shortens a measure; a load that is a share of a capacity becomes one of this capacity.
fn shorten(kind: &mut MeasureKind, capacity: Option<Rate>) {
    match kind {
        MeasureKind::Capacity(search) => {
            search.max = lowest(search.start);
            at_most(&mut search.step, enough(Load::Rate(search.start)));
            at_most(&mut search.settle, WARMUP);
        }
        MeasureKind::Ims(ims) => {
            ims.stir = Nanos::ZERO;
            at_most(&mut ims.step, IMS_STEP);
            at_most(&mut ims.transient, Nanos(IMS_STEP.0 / 5));
            match &mut ims.ramp {
                Ramp::Steps { count, .. } => *count = 1,
                Ramp::Search { start, max, step, .. } => {
                    *max = lowest(*start);
                    at_most(step, IMS_STEP);
                }
            }
        }
        MeasureKind::Latency(latency) => {
            latency.load = known(latency.load, capacity);
            at_most(&mut latency.warmup, WARMUP);
            at_most(&mut latency.duration, enough(latency.load));
        }
        MeasureKind::Throughput(throughput) => {
            at_most(&mut throughput.warmup, WARMUP);
            at_most(&mut throughput.duration, LOAD);
        }
        // Faults happen at times of their own.
        MeasureKind::Failover(failover) => failover.load = known(failover.load, capacity),
        MeasureKind::Network(network) if network.cut.is_some() => {}
        MeasureKind::Network(network) => {
            at_most(&mut network.warmup, WARMUP);
            at_most(&mut network.duration, TEST);
        }
        MeasureKind::Storage(storage) => {
            at_most(&mut storage.duration, TEST);
            at_most(&mut storage.longest, LOAD);
            storage.steady_state = None;
        }
    }
}

/// The only rate of a search that begins there.
const fn lowest(start: Rate) -> Rate {
    Rate(start.0.max(CapacityMeasure::LEAST_RATE.0))
}

/// A load as a rate, so that it needs no other trial to count.
fn known(load: Load, capacity: Option<Rate>) -> Load {
    match (load, capacity) {
        (Load::OwnCapacity(share) | Load::LowestCapacity(share), Some(capacity)) => {
            Load::Rate(Rate(capacity.0 * share.0))
        }
        _ => load,
    }
}

/// Long enough for some requests of a load.
fn enough(load: Load) -> Nanos {
    match load {
        Load::Rate(rate) => LOAD.max(Nanos::from_secs_f64(REQUESTS / rate.0)),
        Load::OwnCapacity(_) | Load::LowestCapacity(_) => LOAD,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Plan {
        let head = "vtax: 1\nname: t\nbaseline: native\nenvironments: [native, container]\n";
        let plan = crate::parse("t.yaml", format!("{head}{text}").as_bytes(), &[] as &[&str]);
        smoke_test(&plan.unwrap_or_else(|errors| panic!("{}", errors.to_text(false))))
    }

    fn load(measure: &Measure) -> (f64, f64) {
        let crate::model::Timing::Fixed { warmup, duration } = measure.kind.timing() else {
            panic!("{measure:?} is no load")
        };
        (warmup.as_secs_f64(), duration.as_secs_f64())
    }

    #[test]
    fn each_trial_is_made_once_and_briefly() {
        let plan = of(
            "services: http\nworkload: {http: {target: /page/1}}\nrepeat: {min: 5, max: 9, budget: 1h}\n\
            measure: [capacity: {start: 100/s, max: 9k/s, step: 10s}, latency: {load: 2/s, duration: 1m}, \
            latency: {name: half, load: 50% of capacity, duration: 1m, warmup: 5s}, throughput: {duration: 200ms}]\n",
        );
        assert_eq!((plan.name.as_str(), plan.repeat.min, plan.repeat.max), ("t-smoke-test", 1, 1));
        assert!(is_smoke_test(&plan));
        let renamed = Plan { name: "t".to_owned(), ..plan.clone() };
        let repeated = Plan { repeat: Repeat { max: 9, ..plan.repeat }, ..plan.clone() };
        assert!(!is_smoke_test(&renamed) && !is_smoke_test(&repeated), "plans of a user's own");
        let MeasureKind::Capacity(search) = &plan.measures[0].kind else { panic!("a search") };
        assert_eq!((search.start.0, search.max.0, search.step.as_secs_f64()), (100.0, 100.0, 3.0));
        assert_eq!(load(&plan.measures[1]).1, 10.0, "20 requests");
        assert_eq!(load(&plan.measures[2]), (0.5, 3.0));
        assert_eq!(plan.measures[2].kind.load(), Some(Load::Rate(Rate(50.0))), "half of the one step");
        assert_eq!(load(&plan.measures[3]).1, 0.2, "the plan's own are kept where they are shorter");
        let trials = crate::estimate::estimate(&plan, &crate::estimate::Assumptions::TCG);
        assert_eq!((trials.trials_min, trials.trials_max), (8, 8));
    }

    #[test]
    fn tests_with_times_of_their_own_are_shortened_but_where_a_path_is_cut() {
        let plan = of("workload: [udp: {rate: 1mbit, duration: 20s}]\nmeasure: [network: {duration: 30s}]\n");
        let Workload::Network(network) = &plan.cells[0].workload else { panic!("a network test") };
        assert_eq!(network.tests[0].duration, Some(TEST));
        let MeasureKind::Network(measure) = &plan.measures[0].kind else { panic!("a suite") };
        assert_eq!(measure.duration, TEST);
        let cut = of("workload: [tcp: {}]\nmeasure: [network: {duration: 30s, cut: {at: 12s}}]\n");
        assert_eq!(
            cut.measures[0].kind.timing().least(),
            Nanos::from_millis(31_000),
            "its warm-up is among it"
        );
        let own = of("workload: [tcp: {warmup: 2s, duration: 20s}]\nmeasure: [network: {cut: {at: 12s}}]\n");
        let Workload::Network(network) = &own.cells[0].workload else { panic!("a network test") };
        let times = (network.tests[0].warmup, network.tests[0].duration);
        assert_eq!(times, (Some(Nanos::from_secs(2)), Some(Nanos::from_secs(20))));
    }

    #[test]
    fn no_more_of_sips_subscribers_are_registered_than_a_short_load_needs() {
        let registered = |sip: &str, measure: &str| {
            let plan = of(&format!("services: sip\nworkload: {{sip: {sip}}}\nmeasure: [{measure}]\n"));
            let Workload::Sip(sip) = &plan.cells[0].workload else { panic!("subscribers") };
            let cautions = plan.measures.iter().filter_map(|m| plan.cells[0].workload.model().caution(m));
            assert_eq!(cautions.count(), 0, "there are enough for the rates");
            (sip.subscribers.count, sip.registered_count().round() as u32)
        };
        // The first step's 50/s are half calls of 35 s on average: 1,750 subscribers at a time, and as many free.
        assert_eq!(registered("{subscribers: 100000}", "ims"), (100_000, 3_501));
        let messages = "{mix: {messaging: 100%}}";
        assert_eq!(registered(messages, "ims"), (100_000, 1_000));
        assert_eq!(registered(messages, "ims, latency: {load: 400/s}"), (100_000, 4_000));
        assert_eq!(registered("{subscribers: 500, mix: {messaging: 100%}}", "ims").1, 400, "the plan's own");
        let leaving = "{mix: {messaging: 50%, de-registration: 50%}}";
        assert_eq!(registered(leaving, "ims").1, 80_000, "they would run out");
    }
}
