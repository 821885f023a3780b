//! Failovers as CSV files and sheets of the workbook.

use super::course::overlay;
use super::figures::QUANTITIES;
use super::{End, Environment, Ft, Group};
use crate::csv::{Cell, Csv, number};
use crate::report::Report;

/// File names and contents; none where the run has nothing about fault tolerance.
pub(crate) fn files(report: &Report) -> Vec<(&'static str, String)> {
    let ft = report.ft();
    if ft.is_empty() {
        return Vec::new();
    }
    vec![
        ("failovers.csv", failovers(ft)),
        ("failover_figures.csv", figures(ft)),
        ("failover_courses.csv", courses(ft)),
        ("ft_checkpoints.csv", checkpoints(ft)),
        ("ft_unprotected.csv", unprotected(ft)),
    ]
}

/// Name of a file's sheet.
pub(crate) fn sheet(file: &str) -> Option<&'static str> {
    Some(match file {
        "failovers.csv" => "Failovers",
        "failover_figures.csv" => "Failover figures",
        "failover_courses.csv" => "Around the fault",
        "ft_checkpoints.csv" => "Checkpoints",
        "ft_unprotected.csv" => "Without protection",
        _ => return None,
    })
}

fn environments(ft: &Ft) -> impl Iterator<Item = (&Group, &Environment)> {
    ft.groups.iter().flat_map(|g| g.environments.iter().map(move |e| (g, e)))
}

fn failovers(ft: &Ft) -> String {
    let mut header =
        "cell,environment,mode,interval_ns,measure,trial,number,fault,planned,at_s,counts,survived,reason"
            .to_owned();
    for q in &QUANTITIES {
        header.push_str(&format!(",{}{}", q.name, if q.unit.is_empty() { "" } else { "_ns" }));
    }
    header.push_str(",connections_kept,attempted");
    let mut csv = Csv::new(&header);
    for (_, e) in environments(ft) {
        for f in &e.failovers {
            let (survived, lost) = match &f.end {
                End::Survived => ("yes", ""),
                End::Lost(reason) => ("no", reason.as_str()),
            };
            let mut row = vec![
                Cell::Text(&e.cell),
                Cell::Text(&e.label),
                Cell::Text(e.mode.name()),
                Cell::Number(e.interval_ns),
                Cell::Text(&f.measure),
                number(f.trial),
                number(f.number as f64),
                Cell::Text(&f.fault),
                Cell::Text(if f.planned { "yes" } else { "no" }),
                number(f.at),
                Cell::Text(if f.excluded.is_none() { "yes" } else { "no" }),
                Cell::Text(survived),
                Cell::Text(f.excluded.as_deref().unwrap_or(lost)),
            ];
            row.extend(QUANTITIES.iter().map(|q| Cell::Number((q.of)(f))));
            row.extend([f.counts.kept, f.counts.attempted].map(|n| Cell::Number(n.map(|n| n as f64))));
            csv.push(&row);
        }
    }
    csv.finish()
}

fn figures(ft: &Ft) -> String {
    let mut csv = Csv::new(
        "cell,environment,mode,fault,quantity,unit,n,failovers,median,interval_low,interval_high,lowest,highest,can_tell",
    );
    for (_, e) in environments(ft) {
        for series in e.series() {
            for q in &QUANTITIES {
                let f = series.figure(q);
                let (low, high) = f.interval.unzip();
                let (lowest, highest) = f.extremes.unzip();
                csv.push(&[
                    Cell::Text(&e.cell),
                    Cell::Text(&e.label),
                    Cell::Text(e.mode.name()),
                    Cell::Text(series.fault),
                    Cell::Text(q.name),
                    Cell::Text(q.unit),
                    number(f.n as f64),
                    number(f.of as f64),
                    Cell::Number(f.median),
                    Cell::Number(low),
                    Cell::Number(high),
                    Cell::Number(lowest),
                    Cell::Number(highest),
                    Cell::Text(if f.unknown() { "no" } else { "yes" }),
                ]);
            }
        }
    }
    csv.finish()
}

fn courses(ft: &Ft) -> String {
    let mut csv = Csv::new(
        "cell,environment,fault,quantity,study_graph,unit,failovers,since_fault_s,median,lowest,highest",
    );
    for (_, e) in environments(ft) {
        for o in &e.overlays {
            let unit = if o.what.unit.is_empty() { "1/s" } else { o.what.unit };
            for c in overlay(o.window, &o.courses).iter().filter(|c| c.median.is_finite()) {
                csv.push(&[
                    Cell::Text(&e.cell),
                    Cell::Text(&e.label),
                    Cell::Text(&o.fault),
                    Cell::Text(o.what.name),
                    Cell::Text(o.what.graph.map_or("", |g| g.number)),
                    Cell::Text(unit),
                    number(o.courses.len() as f64),
                    number(c.at),
                    number(c.median),
                    number(c.low),
                    number(c.high),
                ]);
            }
        }
    }
    csv.finish()
}

/// Quantiles of pauses in the file.
const PAUSES: [(&str, f64); 5] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

fn checkpoints(ft: &Ft) -> String {
    let mut csv = Csv::new("cell,environment,mode,interval_ns,quantity,unit,trial_or_all,value");
    for (_, e) in environments(ft) {
        let lists: [(&str, &str, &[f64]); 8] = [
            ("checkpoints", "1/s", &e.costs.checkpoint_rate),
            ("stopped", "1", &e.costs.stopped_share),
            ("link", "B/s", &e.costs.link_rate),
            ("bytes_per_checkpoint", "B", &e.costs.bytes),
            ("pages_per_checkpoint_at_most", "1", &e.costs.pages),
            ("host_cpu", "cores", &e.costs.host_cpu),
            ("supervision_cpu", "cores", &e.costs.supervision),
            ("armed_in", "ns", &e.costs.armed_ns),
        ];
        let mut row = |quantity: &str, unit: &str, which: &str, value: f64| {
            csv.push(&[
                Cell::Text(&e.cell),
                Cell::Text(&e.label),
                Cell::Text(e.mode.name()),
                Cell::Number(e.interval_ns),
                Cell::Text(quantity),
                Cell::Text(unit),
                Cell::Text(which),
                number(value),
            ]);
        };
        for (name, unit, values) in lists {
            for (i, value) in values.iter().enumerate() {
                row(name, unit, &(i + 1).to_string(), *value);
            }
        }
        let h = &e.costs.pauses.0;
        for (name, q) in PAUSES.iter().filter(|_| !h.is_empty()) {
            row(&format!("pause_{name}"), "ns", "all", h.value_at_quantile(*q) as f64);
        }
    }
    csv.finish()
}

fn unprotected(ft: &Ft) -> String {
    let mut csv = Csv::new("cell,environment,trial,from_s,to_s,ended,service_down,reason");
    for (_, e) in environments(ft) {
        for span in &e.spans {
            csv.push(&[
                Cell::Text(&e.cell),
                Cell::Text(&e.label),
                number(span.trial),
                number(span.from),
                number(span.to),
                Cell::Text(if span.ended { "yes" } else { "no" }),
                Cell::Text(if span.down { "yes" } else { "no" }),
                Cell::Text(&span.reason),
            ]);
        }
    }
    csv.finish()
}
