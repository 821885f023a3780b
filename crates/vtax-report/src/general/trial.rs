//! What every load tells of a trial: rates, latency, CPU time per request; and what a trial took to begin.

use vtax_load::{LatencyHistogram, LoadResult};
use vtax_plan::model::Plan;
use vtax_store::ims::ImsPhaseKind;
use vtax_store::record::{Finding, Layer, TrialRecord, Validity};
use vtax_units::metric::{LATENCY_P50, THROUGHPUT};

use crate::format::{quantity, tick, typical};
use crate::ft::trial::failover;
use crate::metric::{HISTOGRAM_RESOLUTION, Info, Unanswered, Value, exact, higher, lower, percentiles};

/// The metrics of all loads, in the order of tables.
pub(crate) const METRICS: &[Info] = &[
    lower(LATENCY_P50.name, LATENCY_P50.label, "ns", 2),
    lower("latency_p90", "latency, p90", "ns", 1),
    lower("latency_p95", "latency, p95", "ns", 1),
    lower("latency_p99", "latency, p99", "ns", 2),
    lower("latency_p99.9", "latency, p99.9", "ns", 1),
    lower("latency_mean", "latency, mean", "ns", 1),
    lower("cpu_per_request", "CPU time per request", "ns/req", 2),
    lower("cpu_per_request.service-user", "… service, user mode", "ns/req", 0),
    lower("cpu_per_request.service-system", "… service, kernel", "ns/req", 0),
    lower("cpu_per_request.service-interrupts", "… interrupts of its kernel", "ns/req", 0),
    lower("cpu_per_request.guest-other", "… rest of the guest", "ns/req", 0),
    lower("cpu_per_request.vcpu", "… vCPU beyond the guest", "ns/req", 0),
    lower("cpu_per_request.hypervisor-io", "… hypervisor's I/O", "ns/req", 0),
    lower("cpu_per_request.supervisor", "… runtime and agent", "ns/req", 0),
    lower("cpu_per_request.host-interrupts", "… host interrupts", "ns/req", 0),
    higher("offered", "offered load", "req/s", 0),
    higher("goodput", "goodput", "req/s", 0),
    lower("error_share", "failed or missed", "1", 0),
    lower("lateness_p99", "generator's lateness, p99", "ns", 0),
    lower("generator_busiest", "generator's busiest worker", "1", 0),
    lower("startup", "service start to ready", "ns", 1),
    lower("build", "environment built in", "ns", 1),
    lower("latency_max", "latency, maximum", "ns", 0),
];

/// Words for a layer.
pub(crate) fn layer_label(layer: Layer) -> &'static str {
    match layer {
        Layer::ServiceUser => "service, user mode",
        Layer::ServiceSystem => "service, kernel",
        Layer::ServiceInterrupts => "interrupts of its kernel",
        Layer::GuestOther => "rest of the guest",
        Layer::Vcpu => "vCPU beyond the guest (emulation, exits)",
        Layer::HypervisorIo => "hypervisor's I/O threads",
        Layer::Supervisor => "runtime and agent",
        Layer::HostInterrupts => "host interrupts",
    }
}

/// Every layer, innermost first.
pub(crate) const LAYERS: [(Layer, &str); 8] = [
    (Layer::ServiceUser, "cpu_per_request.service-user"),
    (Layer::ServiceSystem, "cpu_per_request.service-system"),
    (Layer::ServiceInterrupts, "cpu_per_request.service-interrupts"),
    (Layer::GuestOther, "cpu_per_request.guest-other"),
    (Layer::Vcpu, "cpu_per_request.vcpu"),
    (Layer::HypervisorIo, "cpu_per_request.hypervisor-io"),
    (Layer::Supervisor, "cpu_per_request.supervisor"),
    (Layer::HostInterrupts, "cpu_per_request.host-interrupts"),
];

/// What the generator recorded, where the trial is of a kind that has it.
pub(crate) fn load(record: &TrialRecord) -> Option<&LoadResult> {
    record.finding()?.load()
}

/// CPU time per request, layer by layer.
pub(crate) fn of_cpu(record: &TrialRecord) -> Vec<Value> {
    // A request's share of a time in which none was answered says nothing.
    let undisturbed = failover(record).is_none();
    let Some(cpu) = record.cpu().filter(|c| c.requests > 0 && undisturbed) else { return Vec::new() };
    let per_request = |ns: u64| ns as f64 / cpu.requests as f64;
    let sum = cpu.layers.iter().map(|l| l.time.0).sum();
    let mut values = vec![exact("cpu_per_request", per_request(sum))];
    for (layer, metric) in LAYERS {
        let times = || cpu.layers.iter().filter(|l| l.layer == layer);
        if times().count() > 0 {
            values.push(exact(metric, per_request(times().map(|l| l.time.0).sum())));
        }
    }
    values.retain(|v| v.value.is_finite());
    values
}

/// Percentiles that are metrics.
pub(crate) const PERCENTILES: [(&str, f64); 5] = [
    (LATENCY_P50.name, 0.5),
    ("latency_p90", 0.9),
    ("latency_p95", 0.95),
    ("latency_p99", 0.99),
    ("latency_p99.9", 0.999),
];

/// The figures of a load in an open or a closed loop.
pub(crate) fn of_load(record: &TrialRecord) -> Vec<Value> {
    let (load, offered, rate) = match record.finding() {
        Some(Finding::Latency { load, offered }) => (load, Some(offered.0), "goodput"),
        Some(Finding::Throughput { load }) => (load, None, THROUGHPUT.name),
        _ => return Vec::new(),
    };
    let mut values = Vec::new();
    values.extend(offered.map(|offered| exact("offered", offered)));
    values.push(exact(rate, load.counts.ok as f64 / load.duration.as_secs_f64()));
    values.push(exact("error_share", load.unanswered()));
    values.push(exact("generator_busiest", load.generator.busiest));
    let of_histogram = |metric, value| Value { resolution: HISTOGRAM_RESOLUTION, ..exact(metric, value) };
    if !load.lateness.is_empty() {
        values.push(of_histogram("lateness_p99", load.lateness.quantile(0.99).0 as f64));
    }
    if !load.latency.is_empty() {
        values.extend(percentiles(&load.latency, Unanswered::of(load), &PERCENTILES));
        values.push(of_histogram("latency_mean", load.latency.0.mean()));
        values.push(of_histogram("latency_max", load.latency.0.max() as f64));
    }
    values.retain(|v| v.value.is_finite());
    values
}

/// Largest share of requests without an answer, or of scenarios without success, in a measure that isn't said first.
const FEW: f64 = 0.001;

/// Cells that a caution names one by one.
const MOST_NAMES: usize = 4;

/// Where requests had no answer or scenarios no success, by measure: what their percentiles mean then.
pub(crate) fn cautions(plan: &Plan, trials: &[TrialRecord]) -> Vec<String> {
    plan.measures.iter().filter_map(|measure| caution(plan, &measure.name, trials)).collect()
}

fn caution(plan: &Plan, measure: &str, trials: &[TrialRecord]) -> Option<String> {
    let share = |cell: &str| {
        let own = trials.iter().filter(|t| t.cell == cell && t.measure == measure);
        let shares = own.filter(|t| t.validity == Validity::Valid).filter_map(|t| undone(t.finding()?));
        let (sum, n) = shares.fold((0.0, 0), |(sum, n), share| (sum + share, n + 1));
        sum / f64::from(n.max(1))
    };
    let mut found: Vec<(&str, f64)> =
        plan.cells.iter().map(|c| (c.id.as_str(), share(&c.id))).filter(|(_, s)| *s > FEW).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    let more = found.len().saturating_sub(MOST_NAMES);
    let named =
        found.iter().take(MOST_NAMES).map(|(cell, share)| format!("{cell} ({})", quantity(*share, "1")));
    let named = named.collect::<Vec<_>>().join(", ");
    let others = if more > 0 { format!(" and {more} more") } else { String::new() };
    let of_scenarios = |t: &TrialRecord| t.measure == measure && matches!(t.finding(), Some(Finding::Ims(_)));
    if !found.is_empty() && trials.iter().any(of_scenarios) {
        return Some(format!(
            "Scenarios without success in {measure}: {named}{others}. Medians that are judged count what had no answer as slower \
             than every answer; pictures and tables of the mix's response times are of answers alone."
        ));
    }
    (!found.is_empty()).then(|| {
        format!(
            "Requests without an answer in {measure}: {named}{others}. Percentiles that are judged count them as slower than \
             every answer; means, and pictures and tables of latency by percentile, are of answers alone."
        )
    })
}

/// Share of what was asked for in a trial and not done: requests without an answer, scenarios at a given rate without success. At a
/// capacity its limits bound it.
fn undone(finding: &Finding) -> Option<f64> {
    match finding {
        Finding::Latency { load, .. } | Finding::Throughput { load } => Some(load.unanswered()),
        Finding::Ims(ims) => {
            let load = ims.decisive().filter(|phase| phase.kind == ImsPhaseKind::Fixed);
            load.map(|phase| phase.ihs.clamp(0.0, 1.0))
        }
        _ => None,
    }
}

/// What a valid trial tells whichever measure it was for.
pub(crate) fn of_lifecycle(record: &TrialRecord) -> Vec<Value> {
    if record.validity != Validity::Valid {
        return Vec::new();
    }
    let values = [("startup", record.timings.service.0), ("build", record.timings.testbed.0)];
    values.into_iter().filter(|(_, ns)| *ns > 0).map(|(metric, ns)| exact(metric, ns as f64)).collect()
}

/// What a load found, in a few words.
pub(crate) fn describe_load(load: &LoadResult) -> String {
    let failed = load.counts.intended.max(load.counts.sent).saturating_sub(load.counts.ok);
    let rate = load.counts.ok as f64 / load.duration.as_secs_f64().max(1e-9);
    let busiest = tick(load.generator.busiest, "1");
    format!("{} answered, {failed} not; generator {busiest} busy", quantity(rate, "req/s"))
}

/// `; median 95.9 µs, p99 340 µs`, where a trial has them among its figures.
pub(crate) fn describe_latency(figures: &[Value]) -> String {
    let of = |metric: &str| {
        let figure = figures.iter().find(|figure| figure.metric == metric)?;
        Some(typical(figure.value, "ns", figure.censored))
    };
    match (of("latency_p50"), of("latency_p99")) {
        (Some(median), Some(p99)) => format!("; median {median}, p99 {p99}"),
        (Some(median), None) => format!("; median {median}, too few answers for p99"),
        (None, _) => String::new(),
    }
}

/// Empties the histograms of a load.
pub(crate) fn forget_histograms(record: &mut TrialRecord) {
    for load in record.observations.iter_mut().filter_map(|o| o.result.as_mut()?.load_mut()) {
        (load.latency, load.lateness) = (LatencyHistogram::new(), LatencyHistogram::new());
    }
}

#[cfg(test)]
mod tests {
    use vtax_store::record::Observation;

    use super::*;
    use crate::family::sip::trial::tests::mix_at;

    /// Calls that a system lost at a given rate were told nowhere.
    #[test]
    fn scenarios_without_success_are_told() {
        let text = "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: sip\n\
                    workload: {sip: {subscribers: 1000, ring_time: 5ms, hold_time: 20ms}}\n\
                    measure: {latency: {load: 40/s, duration: 20s}}\n";
        let plan = vtax_plan::parse("t", text.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
        let told = |lost: f64| {
            let trial = TrialRecord {
                cell: plan.cells[0].id.clone(),
                measure: plan.measures[0].name.clone(),
                observations: vec![Observation::whole(0, Finding::Ims(Box::new(mix_at(40.0, lost))))],
                ..TrialRecord::default()
            };
            cautions(&plan, &[trial])
        };
        assert!(told(0.0).is_empty());
        let [caution]: [String; 1] = told(0.45).try_into().unwrap();
        let cell = &plan.cells[0].id;
        let text =
            format!("Scenarios without success in {}: {cell} (45.0 %). Medians", plan.measures[0].name);
        assert!(caution.starts_with(&text), "{caution}");
    }
}
