//! Failovers as CSV files and sheets of the workbook.

use super::course::overlay;
use super::failover::End;
use super::failovers::{Environment, Ft, Group, OfTrials};
use super::figures::QUANTITIES;
use super::writes;
use crate::table::{Cell, Table, count, number, number_or_none, text, text_or_none, yes_no};

/// Every table; none where the run has nothing about fault tolerance.
pub(super) fn tables(ft: &Ft) -> Vec<Table> {
    if ft.is_empty() {
        return Vec::new();
    }
    let mut tables = vec![failovers(ft), figures(ft), courses(ft), checkpoints(ft), unprotected(ft)];
    if environments(ft).any(|(_, e)| !e.problems.is_empty()) {
        tables.push(problems(ft));
    }
    tables.extend(writes::table(ft));
    tables
}

fn environments(ft: &Ft) -> impl Iterator<Item = (&Group, &Environment)> {
    ft.groups.iter().flat_map(|g| g.environments.iter().map(move |e| (g, e)))
}

fn failovers(ft: &Ft) -> Table {
    let mut header =
        "cell,environment,mode,interval_ns,measure,trial,number,fault,planned,at_s,counts,survived,reason"
            .to_owned();
    for q in &QUANTITIES {
        header.push_str(&format!(",{}{}", q.name, if q.unit.is_empty() { "" } else { "_ns" }));
    }
    header.push_str(",connections_kept,attempted,outage,restored_ns");
    let mut table = Table::new("failovers", "Failovers", &header);
    for (_, e) in environments(ft) {
        for f in &e.failovers {
            let (survived, why) = match &f.end {
                End::Survived => ("yes", String::new()),
                End::Restored(what) => ("no", format!("no answer until {what}")),
                End::Lost(reason) => ("no", reason.clone()),
                End::Unknown => ("", String::new()),
            };
            let mut row = vec![
                text(&e.cell),
                text(&e.label),
                text(e.mode.name()),
                number_or_none(e.interval_ns),
                text(&f.measure),
                number(f.trial),
                count(f.number),
                text(&f.fault),
                yes_no(f.planned),
                number(f.at),
                yes_no(f.excluded.is_none()),
                text(survived),
                text(f.excluded.clone().unwrap_or(why)),
            ];
            row.extend(QUANTITIES.iter().map(|q| number_or_none((q.of)(f))));
            row.extend([f.counts.kept, f.counts.attempted].map(|n| number_or_none(n.map(|n| n as f64))));
            row.push(f.outage.map_or(Cell::Missing, yes_no));
            row.push(number_or_none(f.times.restored.map(|seconds| seconds * 1e9)));
            table.push(row);
        }
    }
    table
}

fn figures(ft: &Ft) -> Table {
    let mut table = Table::new(
        "failover_figures",
        "Failover figures",
        "cell,environment,mode,fault,quantity,unit,n,failovers,median,interval_low,interval_high,lowest,highest,can_tell",
    );
    for (_, e) in environments(ft) {
        for series in e.series() {
            for q in &QUANTITIES {
                let f = series.figure(q);
                let (low, high) = f.interval.unzip();
                let (lowest, highest) = f.extremes.unzip();
                table.push([
                    text(&e.cell),
                    text(&e.label),
                    text(e.mode.name()),
                    text(series.fault),
                    text(q.name),
                    text(q.unit),
                    count(f.n),
                    count(f.of),
                    number_or_none(f.median),
                    number_or_none(low),
                    number_or_none(high),
                    number_or_none(lowest),
                    number_or_none(highest),
                    text(if f.unknown() { "no" } else { "yes" }),
                ]);
            }
        }
    }
    table
}

fn courses(ft: &Ft) -> Table {
    let mut table = Table::new(
        "failover_courses",
        "Around the fault",
        "cell,environment,fault,quantity,study_graph,unit,failovers,since_fault_s,median,lowest,highest",
    );
    for (group, e) in environments(ft) {
        for o in &e.overlays {
            let unit = if o.what.unit.is_empty() { "1/s" } else { o.what.unit };
            for c in overlay(o.window, &o.courses).iter().filter(|c| c.median.is_finite()) {
                table.push([
                    text(&e.cell),
                    text(&e.label),
                    text(&o.fault),
                    text(o.what.name),
                    text_or_none(group.study.and_then(|s| s.graph(o.what.name)).map(|g| g.number.as_str())),
                    text(unit),
                    count(o.courses.len()),
                    number(c.at),
                    number(c.median),
                    number(c.low),
                    number(c.high),
                ]);
            }
        }
    }
    table
}

/// Quantiles of pauses in the file.
const PAUSES: [(&str, f64); 5] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

fn checkpoints(ft: &Ft) -> Table {
    let mut table = Table::new(
        "ft_checkpoints",
        "Checkpoints",
        "cell,environment,mode,interval_ns,quantity,unit,trial_or_all,value",
    );
    for (_, e) in environments(ft) {
        let lists: [(&str, &str, &OfTrials); 8] = [
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
            table.push([
                text(&e.cell),
                text(&e.label),
                text(e.mode.name()),
                number_or_none(e.interval_ns),
                text(quantity),
                text(unit),
                Cell::Fact(which.to_owned()),
                number(value),
            ]);
        };
        for (name, unit, values) in lists {
            for (trial, value) in values {
                row(name, unit, &trial.to_string(), *value);
            }
        }
        let h = &e.costs.pauses.0;
        for (name, q) in PAUSES.iter().filter(|_| !h.is_empty()) {
            row(&format!("pause_{name}"), "ns", "all", h.value_at_quantile(*q) as f64);
        }
    }
    table
}

/// What went wrong with the protection without being asked to.
fn problems(ft: &Ft) -> Table {
    let mut table = Table::new("ft_problems", "Problems of protection", "cell,environment,trial,problem");
    for (_, e) in environments(ft) {
        for (trial, problem) in &e.problems {
            table.push([text(&e.cell), text(&e.label), number(*trial), text(problem)]);
        }
    }
    table
}

fn unprotected(ft: &Ft) -> Table {
    let mut table = Table::new(
        "ft_unprotected",
        "Without protection",
        "cell,environment,trial,from_s,to_s,ended,service_down,reason",
    );
    for (_, e) in environments(ft) {
        for span in &e.spans {
            table.push([
                text(&e.cell),
                text(&e.label),
                number(span.trial),
                number(span.from),
                number(span.to),
                yes_no(span.ended),
                yes_no(span.down),
                text(&span.reason),
            ]);
        }
    }
    table
}
