//! How throughput or capacity grows over a sweep: the Universal Scalability Law, or why there is none.

use vtax_plan::model::Cell;
use vtax_stats::{Load, Parameter, Peak, Scalability, scalability};

use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::data::RunData;
use crate::families::named;
use crate::format::{quantity, range};
use crate::html::parts::{close_table, figure, open_table, scrolling};
use crate::markup::Markup;
use crate::plot::scaling::{Axes, Sweep, scaling};
use crate::plot::{responsive, series};
use crate::words::capitalised;

/// Metrics that tell how much a load gets through, best first; all in requests per second.
const METRICS: [&str; 2] = ["throughput", "capacity"];

/// Contention beyond this leaves nothing that grows.
const FLAT: f64 = 0.9;

/// Fewer values of a parameter are a comparison, not a sweep.
const MIN_VALUES: usize = 3;

/// The chapter about swept parameters.
#[derive(Debug)]
pub(crate) struct Sweeps;

impl Chapter for Sweeps {
    fn page(&self, context: &Context) -> Page {
        let mut page = Page::default();
        page.put(Rank::Pictures, "scalability", "Scalability", sweeps(&context.data));
        page
    }
}

/// A part for each numeric parameter that a plan sweeps; empty without one.
fn sweeps(data: &RunData) -> Markup {
    let mut m = Markup::new();
    for name in swept(data) {
        for measure in &data.plan.measures {
            for metric in METRICS {
                m.add(&sweep(data, &name, &measure.name, metric));
            }
        }
    }
    m
}

/// Parameters with enough different numeric values.
fn swept(data: &RunData) -> Vec<String> {
    let mut names: Vec<&String> = data.plan.cells.iter().flat_map(|c| c.parameters.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .filter(|name| {
            let texts: Option<Vec<f64>> = data.plan.cells.iter().map(|c| number(c, name)).collect();
            let Some(mut values) = texts else { return false };
            values.sort_by(f64::total_cmp);
            values.dedup();
            values.len() >= MIN_VALUES && values.iter().all(|v| *v >= 1.0)
        })
        .cloned()
        .collect()
}

fn number(cell: &Cell, parameter: &str) -> Option<f64> {
    cell.parameters.get(parameter)?.parse().ok().filter(|v: &f64| v.is_finite())
}

/// What tells one sweep from the next: name and value.
type Key = Vec<(String, String)>;

/// What else varies besides the parameter and the environment tells one sweep from the next.
fn rest(cell: &Cell, parameter: &str) -> Key {
    let own = &cell.environment.name;
    let others = cell.parameters.iter().filter(|(k, v)| *k != parameter && *v != own);
    let mut rest: Key = others.map(|(k, v)| (k.clone(), v.clone())).collect();
    rest.push(("service".to_owned(), cell.service.name.clone()));
    rest.push(("path".to_owned(), cell.path.name.clone()));
    rest
}

fn sweep(data: &RunData, parameter: &str, measure: &str, metric: &str) -> Markup {
    let mut groups: Vec<(Key, Vec<&Cell>)> = Vec::new();
    for cell in &data.plan.cells {
        let key = rest(cell, parameter);
        match groups.iter_mut().find(|g| g.0 == key) {
            Some(g) => g.1.push(cell),
            None => groups.push((key, vec![cell])),
        }
    }
    let several = groups.len() > 1;
    let mut m = Markup::new();
    for (key, cells) in groups {
        let mut environments: Vec<&str> = Vec::new();
        for cell in &cells {
            if !environments.contains(&cell.environment.name.as_str()) {
                environments.push(&cell.environment.name);
            }
        }
        let found: Vec<(Sweep, String)> = environments
            .iter()
            .enumerate()
            .filter_map(|(position, name)| {
                let own: Vec<&Cell> = cells.iter().copied().filter(|c| c.environment.name == *name).collect();
                of_environment(data, &own, position, (parameter, measure, metric))
            })
            .collect();
        if found.is_empty() {
            continue;
        }
        let title: Vec<String> = key.iter().map(|(k, v)| format!("{k} {v}")).collect();
        let of = if several { format!(", {}", title.join(", ")) } else { String::new() };
        m.add(&section(&found, (parameter, measure, name_of(metric)), &of));
    }
    m
}

/// The sweep of one environment with what there is to say about it; `None` where nothing was measured.
fn of_environment(
    data: &RunData,
    cells: &[&Cell],
    position: usize,
    (parameter, measure, metric): (&str, &str, &str),
) -> Option<(Sweep, String)> {
    let mut loads = Vec::new();
    let mut bounds = 0;
    for cell in cells {
        let n = number(cell, parameter)?;
        let found = data.metric(&cell.id, measure, metric);
        bounds += found.iter().filter(|v| v.censored).count();
        loads.extend(found.iter().map(|v| Load { n, throughput: v.value }));
    }
    let first = cells.first().filter(|_| !loads.is_empty())?;
    let label = data.environment_label(first);
    // A curve through lower bounds would bend where the searches end, not where the system does.
    let fitted = match bounds {
        0 => scalability(&loads, data.plan.seed).map_err(|why| why.to_string()),
        _ => Err(format!(
            "{bounds} of {} trials never came to the limit, so what they found are lower bounds",
            loads.len()
        )),
    };
    let (law, words) = match fitted {
        Ok(law) => (Some(law), in_words(&label, (parameter, name_of(metric)), &law)),
        Err(why) => (None, format!("{label}: the data don't support a law: {why}.")),
    };
    Some((Sweep { label, position, loads, law }, words))
}

/// What a metric is called.
fn name_of(metric: &str) -> &str {
    named(metric).map_or(metric, |info| info.label)
}

fn section(found: &[(Sweep, String)], (parameter, measure, metric): (&str, &str, &str), of: &str) -> Markup {
    let mut m = Markup::new();
    let what = capitalised(metric);
    let caption = format!(
        "{what} over {parameter} ({measure}{of}). Dots are trials; curves are the Universal Scalability Law, \
         where the data support it"
    );
    let keys: Vec<_> = found.iter().map(|(s, _)| (series(s.position), s.label.clone())).collect();
    let sweeps: Vec<Sweep> = found
        .iter()
        .map(|(s, _)| Sweep {
            label: s.label.clone(),
            position: s.position,
            loads: s.loads.clone(),
            law: s.law,
        })
        .collect();
    let axes = Axes { load: parameter, metric, unit: "req/s" };
    let picture = responsive(|w| scaling(&sweeps, axes, w));
    m.add(&figure(&caption, &keys, &picture));
    for (_, words) in found {
        m.element("p", &[("class", "verdict-words")], words);
    }
    if found.iter().all(|(s, _)| s.law.is_none()) {
        return m;
    }
    m.add(&scrolling(&laws(found)));
    m
}

/// The parameters of each law.
fn laws(found: &[(Sweep, String)]) -> Markup {
    let columns = [
        ("Environment", false),
        ("One alone, λ", true),
        ("Contention σ, %", true),
        ("Coherency κ, %", true),
        ("Peak at", true),
        ("Peak", true),
    ];
    let mut table = open_table("", &columns);
    for (sweep, _) in found {
        table.open("tr", &[]).element("th", &[("scope", "row")], &sweep.label);
        let Some(law) = &sweep.law else {
            table.open("td", &[("colspan", "5"), ("class", "quiet")]).text("no law").close("td").close("tr");
            continue;
        };
        let mut cell = |text: &str| {
            table.element("td", &[("class", "n")], text);
        };
        let (one, ends) = (law.lambda.value, law.lambda.interval);
        cell(&format!("{} ({})", quantity(one, "req/s"), range(one, ends, "req/s")));
        cell(&with(law.sigma, |v| format!("{:.1}", v * 100.0)));
        cell(&with(law.kappa, |v| format!("{:.3}", v * 100.0)));
        match law.peak {
            Peak::At { n, throughput } => {
                cell(&with(n, whole));
                cell(&quantity(throughput, "req/s"));
            }
            Peak::Beyond => {
                cell("not within reach");
                cell("");
            }
        }
        table.close("tr");
    }
    close_table(&mut table);
    table
}

fn whole(v: f64) -> String {
    if v.is_finite() { format!("{v:.0}") } else { "∞".to_owned() }
}

fn with(p: Parameter, text: impl Fn(f64) -> String) -> String {
    format!("{} ({}–{})", text(p.value), text(p.interval.0), text(p.interval.1))
}

/// What the law says, for people who don't know it.
fn in_words(label: &str, (parameter, metric): (&str, &str), law: &Scalability) -> String {
    let shared = format!(
        "{label}: {:.1} % of the work can't be shared out among {parameter}",
        law.sigma.value * 100.0
    );
    if law.sigma.value > FLAT {
        return format!("{label}: {metric} hardly depends on {parameter}.");
    }
    match law.peak {
        Peak::At { n, throughput } if n.interval.1.is_finite() => format!(
            "{shared}, and {metric} is predicted to peak at {} {parameter} (between {} and {}) with {}; more makes it \
             slower.",
            whole(n.value),
            whole(n.interval.0),
            whole(n.interval.1),
            quantity(throughput, "req/s")
        ),
        Peak::At { .. } | Peak::Beyond => {
            format!("{shared}; a peak can't be predicted from these loads, if there is one.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches for the capacity were told as throughput.
    #[test]
    fn a_sweep_is_told_by_the_name_of_its_metric() {
        let known = |value: f64, interval: (f64, f64)| Parameter { value, interval };
        let law = |sigma: f64| Scalability {
            lambda: known(100.0, (90.0, 110.0)),
            sigma: known(sigma, (sigma, sigma)),
            kappa: known(0.001, (0.001, 0.001)),
            peak: Peak::At { n: known(16.0, (12.0, 20.0)), throughput: 500.0 },
            scatter: 0.01,
        };
        let loads = [(1.0, 100.0), (2.0, 190.0), (8.0, 400.0)];
        let loads = loads.map(|(n, throughput)| Load { n, throughput }).to_vec();
        for (metric, other) in [("capacity", "hroughput"), ("throughput", "apacity")] {
            let texts = [0.1, 0.95].map(|sigma| in_words("vm", ("workers", name_of(metric)), &law(sigma)));
            assert!(
                texts[0].contains(&format!("and {metric} is predicted to peak at 16 workers")),
                "{texts:?}"
            );
            assert!(texts[1].contains(&format!("vm: {metric} hardly depends on workers")), "{texts:?}");
            let sweep =
                Sweep { label: "vm".to_owned(), position: 0, loads: loads.clone(), law: Some(law(0.1)) };
            let found = [(sweep, texts[0].clone())];
            let page = section(&found, ("workers", "search", name_of(metric)), "").into_string();
            let caption = format!("{} over workers (search)", capitalised(metric));
            assert!(page.contains(&caption) && !page.contains(other), "{page}");
        }
    }
}
