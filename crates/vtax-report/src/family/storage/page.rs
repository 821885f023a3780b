//! The chapter's part of the page: a heat map, lines over sizes, and every test.

use vtax_plan::model::StorageOperation;
use vtax_store::record::{Observation, Validity};
use vtax_units::Bytes;

use super::sweep::Sweep;
use crate::data::RunData;
use crate::format::{duration, quantity};
use crate::html::parts::{close_table, details, figure, open_table, scrolling, titled};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::plot::scale::Scale;
use crate::plot::xy::{Axis, Series, Stroke, xy};
use crate::plot::{responsive, series};

/// Shades of the heat map.
const SHADES: [&str; 6] = ["n heat0", "n heat1", "n heat2", "n heat3", "n heat4", "n heat5"];

/// A table for each operation: environments and file sizes by record size, shaded by value.
pub(super) fn heat(sweeps: &[Sweep<'_>]) -> Markup {
    let mut m = Markup::new();
    for sweep in sweeps {
        for operation in sweep.operations() {
            let caption = titled(&operation.word(), &sweep.label);
            m.element("h3", &[], &caption).add(&scrolling(&heat_of(sweep, operation)));
        }
    }
    if !m.is_empty() {
        m.element(
            "p",
            &[("class", "quiet")],
            "Means over trials; the darker, the more. Sequential operations in bytes per second until durable, others in operations per second.",
        );
    }
    m
}

fn heat_of(sweep: &Sweep<'_>, operation: StorageOperation) -> Markup {
    let (sizes, records) = (sweep.sizes(), sweep.records());
    let names: Vec<String> = records.iter().map(|record| format!("records of {}", Bytes(*record))).collect();
    let mut columns = vec![("Environment", false), ("File", true)];
    columns.extend(names.iter().map(|name| (name.as_str(), true)));
    let points: Vec<_> = sweep.points.iter().filter(|point| point.test.operation == operation).collect();
    let values = || points.iter().flat_map(|point| point.values.iter().flatten());
    let (low, high) = values().fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(*v), high.max(*v)));
    let mut table = open_table("heat", &columns);
    for (place, environment) in sweep.environments.iter().enumerate() {
        for size in &sizes {
            table.open("tr", &[]).element("th", &[("scope", "row")], &environment.label);
            table.element("td", &[("class", "n")], &Bytes(*size).to_string());
            for record in &records {
                let found = sweep.at(operation, *size, *record);
                let value = found.and_then(|point| Some((point, (*point.values.get(place)?)?)));
                match value {
                    Some((point, value)) => {
                        let class = SHADES[shade(value, low, high)];
                        table.element("td", &[("class", class)], &quantity(value, point.unit()));
                    }
                    None => drop(table.element("td", &[("class", "n")], "-")),
                }
            }
            table.close("tr");
        }
    }
    close_table(&mut table);
    table
}

/// The shade of a value, in equal factors between the least and the most.
fn shade(value: f64, low: f64, high: f64) -> usize {
    let most = SHADES.len() - 1;
    if value <= 0.0 || low <= 0.0 || high <= low {
        return 0;
    }
    (((value / low).ln() / (high / low).ln()) * most as f64).round().clamp(0.0, most as f64) as usize
}

/// Lines over file size, and over record size, where there are several: one picture for each operation and value of the other.
pub(super) fn lines(sweeps: &[Sweep<'_>]) -> Markup {
    let mut m = Markup::new();
    for sweep in sweeps {
        let (sizes, records) = (sweep.sizes(), sweep.records());
        for operation in sweep.operations() {
            if sizes.len() > 1 {
                for record in &records {
                    let of = format!("{}, records of {}", operation.word(), Bytes(*record));
                    m.add(&picture(sweep, &of, "file size", &sizes, |size| {
                        sweep.at(operation, size, *record)
                    }));
                }
            }
            if records.len() > 1 {
                for size in &sizes {
                    let of = format!("{}, files of {}", operation.word(), Bytes(*size));
                    m.add(&picture(sweep, &of, "record size", &records, |record| {
                        sweep.at(operation, *size, record)
                    }));
                }
            }
        }
    }
    m
}

fn picture<'s, 'a: 's>(
    sweep: &Sweep<'_>,
    of: &str,
    axis: &str,
    places: &[u64],
    at: impl Fn(u64) -> Option<&'s super::sweep::Point<'a>>,
) -> Markup {
    let unit = places.iter().find_map(|place| at(*place)).map_or("/s", super::sweep::Point::unit);
    let lines: Vec<Series> = sweep
        .environments
        .iter()
        .enumerate()
        .map(|(position, environment)| Series {
            class: format!("{} curve", series(position)),
            label: environment.label.clone(),
            stroke: Stroke::Marked(position),
            points: places
                .iter()
                .filter_map(|place| Some((*place as f64, (*at(*place)?.values.get(position)?)?)))
                .collect(),
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    if lines.is_empty() {
        return Markup::new();
    }
    let keys: Vec<_> =
        sweep.environments.iter().enumerate().map(|(i, e)| (series(i), e.label.clone())).collect();
    let most = lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max);
    let x =
        Axis { name: axis, unit: "B", scale: Scale::log_around(places.iter().map(|place| *place as f64)) };
    let y = Axis { name: "throughput", unit, scale: Scale::from_zero(most) };
    let description = format!("{of}: throughput over {axis}, one line for each environment");
    let drawn = responsive(|width| xy(of, &description, (width, 300.0), x, y, &lines));
    figure("", &keys, &drawn)
}

/// Every test of every environment in figures: means over the trials that count.
pub(super) fn tests(data: &RunData, sweeps: &[Sweep<'_>]) -> Markup {
    let columns = [
        ("Test", false),
        ("Environment", false),
        ("Until durable", true),
        ("Sum of processes", true),
        ("Operations", true),
        ("Median", true),
        ("p99", true),
        ("CPU per GiB", true),
        ("Who answered", false),
    ];
    let mut table = PlainTable::new("", &columns);
    for sweep in sweeps {
        for point in &sweep.points {
            for environment in &sweep.environments {
                let of = |metric: &str| mean(data, &environment.cell.id, &point.measure, metric);
                let show = |value: Option<f64>, unit: &str| {
                    value.map_or_else(|| "-".to_owned(), |v| quantity(v, unit))
                };
                let time = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), duration);
                let per_gib = of("storage_cpu_per_byte").map(|ns| ns * f64::from(1_u32 << 30));
                table.push(
                    &point.test.name,
                    [
                        environment.label.clone(),
                        show(of("storage_throughput"), "B/s"),
                        show(of("storage_children"), "B/s"),
                        show(of("storage_rate"), "/s"),
                        time(of("storage_p50")),
                        time(of("storage_p99")),
                        time(per_gib),
                        answered(data, &environment.cell.id, &point.test.name),
                    ],
                );
            }
        }
    }
    details("As a table", &scrolling(&table.finish()))
}

fn mean(data: &RunData, cell: &str, measure: &str, metric: &str) -> Option<f64> {
    let values = data.metric(cell, measure, metric);
    (!values.is_empty()).then(|| values.iter().map(|value| value.value).sum::<f64>() / values.len() as f64)
}

/// Who answered reads of a test, by its first trial that counts.
fn answered(data: &RunData, cell: &str, test: &str) -> String {
    let trials = data.trials.iter().filter(|trial| trial.cell == cell && trial.validity == Validity::Valid);
    let counts = |o: &&Observation| o.name == test && o.validity == Validity::Valid;
    let mut found = trials.flat_map(|trial| trial.observations.iter().filter(counts));
    found.find_map(|o| o.storage()?.answered()).unwrap_or_else(|| "-".to_owned())
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
