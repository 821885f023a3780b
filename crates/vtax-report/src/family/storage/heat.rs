//! Tables by file and record size: values shaded, each with its interval and its verdict.

use vtax_plan::model::StorageOperation;
use vtax_units::Bytes;

use super::sweep::{Found, Point, Sweep, has_intervals, noted};
use crate::format::{quantity, range, tax};
use crate::html::parts::{badge, close_table, open_table, wide};
use crate::markup::Markup;

/// Shades of the heat map.
const SHADES: [&str; 6] = ["n heat0", "n heat1", "n heat2", "n heat3", "n heat4", "n heat5"];

/// A table for each operation: environments and file sizes by record size, shaded by value.
pub(super) fn heat(sweeps: &[Sweep<'_>]) -> Markup {
    let mut m = Markup::new();
    for sweep in sweeps {
        for operation in sweep.operations() {
            m.element("h3", &[], &sweep.titled(&operation.word()));
            m.add(&wide(&table(sweep, operation), sweep.records().len() + 2));
        }
    }
    if !m.is_empty() {
        let (intervals, verdict) = match has_intervals(sweeps) {
            true => (
                " with their 95 % intervals",
                " and verdict against the baseline: all of the first table are judged together",
            ),
            false => (", too few for intervals", " against the baseline"),
        };
        let note = format!(
            "Typical values over trials (median){intervals}; the darker, the more. Sequential operations in bytes per \
             second until durable, others in operations per second. Below each candidate its tax{verdict}."
        );
        m.element("p", &[("class", "small-print")], &noted(&note, sweeps));
    }
    m
}

fn table(sweep: &Sweep<'_>, operation: StorageOperation) -> Markup {
    let (sizes, records) = (sweep.sizes(), sweep.records());
    let names: Vec<String> = records.iter().map(|record| format!("records of {}", Bytes(*record))).collect();
    let mut columns = vec![("Environment", false), ("File", true)];
    columns.extend(names.iter().map(|name| (name.as_str(), true)));
    let points = || sweep.points.iter().filter(|point| point.test.operation == operation);
    let values = points().flat_map(|point| point.found.iter().flatten().map(|found| found.figure.center));
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    let mut table = open_table("heat", &columns);
    for (place, environment) in sweep.environments.iter().enumerate() {
        for size in &sizes {
            table.open("tr", &[]).element("th", &[("scope", "row")], &environment.label);
            table.element("td", &[("class", "n")], &Bytes(*size).to_string());
            for record in &records {
                let point = sweep.at(operation, *size, *record);
                match point.and_then(|point| Some((point, (*point.found.get(place)?)?))) {
                    Some((point, found)) => {
                        let class = SHADES[shade(found.figure.center, low, high)];
                        table.open("td", &[("class", class)]).add(&cell(point, &found)).close("td");
                    }
                    None => drop(table.element("td", &[("class", "n quiet")], "-")),
                }
            }
            table.close("tr");
        }
    }
    close_table(&mut table);
    table
}

/// `72.4 MB/s`, its interval, and of a candidate its tax and verdict.
fn cell(point: &Point<'_>, found: &Found<'_>) -> Markup {
    let mut m = Markup::new();
    let center = found.figure.center;
    m.element("b", &[], &quantity(center, point.unit()));
    if let Some(interval) = found.figure.interval {
        m.element("small", &[], &range(center, interval, point.unit()));
    }
    if let Some(comparison) = found.comparison {
        m.open("span", &[("class", "told"), ("title", &comparison.reason)]);
        if let Some(ratio) = comparison.tax {
            m.text(&tax(ratio)).text(" ");
        }
        m.add(&badge(comparison.verdict)).close("span");
    }
    m
}

/// The shade of a value, in equal factors between the least and the most.
fn shade(value: f64, low: f64, high: f64) -> usize {
    let most = SHADES.len() - 1;
    if value <= 0.0 || low <= 0.0 || high <= low {
        return 0;
    }
    (((value / low).ln() / (high / low).ln()) * most as f64).round().clamp(0.0, most as f64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_go_by_factors() {
        let shades = [1.0, 10.0, 100_000.0].map(|value| shade(value, 1.0, 100_000.0));
        assert_eq!(shades, [0, 1, 5]);
        assert_eq!((shade(0.0, 0.0, 5.0), shade(3.0, 3.0, 3.0)), (0, 0));
    }
}
