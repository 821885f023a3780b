//! What the plan asks first.

use crate::decode::Many;
use crate::diagnose::{Report, nearest, shorten};
use crate::model::{Plan, Primary};
use crate::raw::PrimaryRaw;
use crate::source::Spanned;

/// Longer names of metrics are taken for a slip.
const MAX_METRIC: usize = 60;

/// The comparisons named; names that the plan doesn't have are refused.
pub(super) fn primary(raw: &Spanned<PrimaryRaw>, plan: &Plan, report: &mut Report) -> Primary {
    let PrimaryRaw { measures, metrics, environments } = &raw.value;
    if measures.is_none() && metrics.is_none() && environments.is_none() {
        report
            .error(raw.span, "`primary` names nothing")
            .help("name `measures`, `metrics` or `environments`");
    }
    let mut known: Vec<String> = plan.measures.iter().map(|m| m.name.clone()).collect();
    for cell in &plan.cells {
        let tests = cell.workload.model().tests();
        let of = |measure: &str| tests.iter().map(|t| format!("{measure}/{}", t.name)).collect::<Vec<_>>();
        let named: Vec<String> = plan.measures.iter().flat_map(|m| of(&m.name)).collect();
        known.extend(named.into_iter().filter(|n| !known.contains(n)).collect::<Vec<_>>());
    }
    let candidates = plan.cells.iter().filter(|c| c.baseline.is_some());
    let compared: Vec<String> = candidates.map(|c| c.environment.name.clone()).collect();
    Primary {
        measures: named(measures.as_ref(), "measure", &known, report),
        metrics: metrics_of(metrics.as_ref(), report),
        environments: named(environments.as_ref(), "compared environment", &compared, report),
    }
}

/// The names of a list, each of which has to be known.
fn named(
    list: Option<&Spanned<Many<String>>>,
    what: &str,
    known: &[String],
    report: &mut Report,
) -> Vec<String> {
    let Some(list) = list else { return Vec::new() };
    for item in list.value.items.iter().filter(|item| !known.contains(&item.value)) {
        let error = report.error(item.span, format!("there is no {what} `{}`", shorten(&item.value)));
        if let Some(near) = nearest(&item.value, known.iter().map(String::as_str)) {
            error.help(format!("did you mean `{near}`?"));
        }
    }
    list.value.items.iter().map(|item| item.value.clone()).collect()
}

/// Which metrics there are only the report knows; it says where one is missing.
fn metrics_of(list: Option<&Spanned<Many<String>>>, report: &mut Report) -> Vec<String> {
    let Some(list) = list else { return Vec::new() };
    // `latency_p99.9`, `cpu_per_request.service-user`
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.' | '-');
    for item in &list.value.items {
        let name = &item.value;
        if name.is_empty() || name.len() > MAX_METRIC || !name.chars().all(fits) {
            report
                .error(item.span, format!("`{}` can't be a metric", shorten(name)))
                .help("metrics are named as in `summary.json`: `capacity`, `latency_p50`, `cpu_per_request`");
        }
    }
    list.value.items.iter().map(|item| item.value.clone()).collect()
}
