//! The sheet laid out as iozone's throughput report: types of test down, numbers of processes across, in kilobytes per second.

use std::collections::HashMap;

use rust_xlsxwriter::{Format, Worksheet, XlsxError};
use vtax_load::storage::StorageResult;
use vtax_store::record::Validity;
use vtax_units::Bytes;

use super::sweep::{Environment, Point, Sweep, not_durable, varying};
use super::workbook::{KILOBYTE, kilobytes, words};
use crate::data::RunData;
use crate::metric::measure_of_test;
use crate::sheet::text;

/// What iozone tells of processes besides, in its order.
const OF_PROCESSES: [&str; 3] = ["least of a process", "most of a process", "average of a process"];

/// Tests that differ in their operation and their number of processes only.
struct Report<'s, 'a> {
    title: String,
    points: Vec<&'s Point<'a>>,
}

/// What processes had for themselves in every trial that counts, by cell and measure: least, most and average.
type Processes<'a> = HashMap<(&'a str, String), Vec<[f64; 3]>>;

/// Writes the reports: of each environment one for each file and record size, and what else varies.
pub(super) fn throughput(
    data: &RunData,
    sweeps: &[Sweep<'_>],
    sheet: &mut Worksheet,
) -> Result<(), XlsxError> {
    let bold = Format::new().set_bold();
    let head = "Throughput report Y-axis is type of test X-axis is number of processes";
    sheet.write_string_with_format(0, 0, head, &bold)?;
    let unit = "Output is in Kbytes/sec, of all processes together until durable (iozone: parent sees)";
    let own = "What a process had for itself is without the sync at the end (iozone: children see); of tests in rounds, in the last one";
    sheet.write_string(1, 0, unit)?.write_string(2, 0, own)?;
    let (reports, processes) = (reports(sweeps), processes(data));
    let environments = sweeps.first().map_or(&[][..], |sweep| &sweep.environments);
    let mut line = 4;
    if let Some(note) = not_durable(sweeps) {
        sheet.write_string(3, 0, note)?;
        line = 5;
    }
    for (place, environment) in environments.iter().enumerate() {
        for report in &reports {
            let points = report.points.iter().copied().filter(|point| point.value(place).is_some());
            let points: Vec<&Point<'_>> = points.collect();
            if points.is_empty() {
                continue;
            }
            let title = format!("{}: {}", environment.label, report.title);
            sheet.write_string_with_format(line, 0, text(&title), &bold)?;
            line = lines(&points, &processes, (place, environment), sheet, line + 1)? + 1;
        }
    }
    sheet.set_column_width(0, 36)?;
    Ok(())
}

/// By file and record size, then in the plan's order.
fn reports<'s, 'a>(sweeps: &'s [Sweep<'a>]) -> Vec<Report<'s, 'a>> {
    let all = || sweeps.iter().flat_map(|sweep| &sweep.points).filter(|point| point.test.rate.is_none());
    let several =
        all().any(|point| all().next().is_some_and(|first| first.of_measure() != point.of_measure()));
    let mut reports: Vec<((u64, u64), Report<'s, 'a>)> = Vec::new();
    for point in all() {
        let shape = &point.test.shape;
        let sizes = (shape.file.0, shape.record.0);
        let mut title = format!("file size {}, record size = {}", Bytes(sizes.0), Bytes(sizes.1));
        let others = varying(point.test, &["operation", "size", "record", "processes"]);
        let measure = if several { point.of_measure() } else { "" };
        for more in [others.as_str(), measure].iter().filter(|more| !more.is_empty()) {
            title.push_str(&format!(", {more}"));
        }
        match reports.iter_mut().find(|(_, report)| report.title == title) {
            Some((_, report)) => report.points.push(point),
            None => reports.push((sizes, Report { title, points: vec![point] })),
        }
    }
    reports.sort_by_key(|(sizes, _)| *sizes);
    reports.into_iter().map(|(_, report)| report).collect()
}

/// A report's numbers of processes and its types of test from a line on; the line behind them.
fn lines(
    points: &[&Point<'_>],
    processes: &Processes<'_>,
    (place, environment): (usize, &Environment<'_>),
    sheet: &mut Worksheet,
    from: u32,
) -> Result<u32, XlsxError> {
    let (bold, whole) = (Format::new().set_bold(), Format::new().set_num_format("0"));
    let mut counts: Vec<u32> = points.iter().map(|point| point.test.shape.processes).collect();
    counts.sort_unstable();
    counts.dedup();
    for (column, count) in (1..).zip(&counts) {
        sheet.write_number_with_format(from, column, f64::from(*count), &bold)?;
    }
    let mut line = from + 1;
    let mut written = Vec::new();
    for point in points {
        let Some(name) = name(point).filter(|name| !written.contains(name)) else { continue };
        sheet.write_string(line, 0, &name)?;
        for (below, what) in (1..).zip(OF_PROCESSES) {
            sheet.write_string(line + below, 0, format!("{name}, {what}"))?;
        }
        for (column, count) in (1..).zip(&counts) {
            let same =
                |p: &&&Point<'_>| p.test.shape.processes == *count && self::name(p).as_ref() == Some(&name);
            let Some(point) = points.iter().find(same) else { continue };
            let trials = processes.get(&(environment.cell.id.as_str(), point.measure.clone()));
            let values =
                std::iter::once(kilobytes(point, place)).chain(medians(trials.map_or(&[], Vec::as_slice)));
            for (below, value) in (0..).zip(values).filter_map(|(below, value)| Some((below, value?))) {
                sheet.write_number_with_format(line + below, column, value, &whole)?;
            }
        }
        written.push(name);
        line += 1 + OF_PROCESSES.len() as u32;
    }
    Ok(line)
}

/// What iozone calls a test; one that is made again is told apart.
fn name(point: &Point<'_>) -> Option<String> {
    let (_, word) = words(point.test.operation)?;
    Some(match point.test.name.rsplit_once(".again-") {
        Some((_, "1")) => format!("{word}, again"),
        Some((_, time)) => format!("{word}, again ({time})"),
        None => word.to_owned(),
    })
}

fn processes(data: &RunData) -> Processes<'_> {
    let mut all = Processes::new();
    for trial in data.trials.iter().filter(|trial| trial.validity == Validity::Valid) {
        for observation in trial.observations.iter().filter(|o| o.validity == Validity::Valid) {
            let figures = observation.storage().and_then(|found| of_processes(&found.result));
            let key = (trial.cell.as_str(), measure_of_test(&trial.measure, &observation.name));
            all.entry(key).or_default().extend(figures);
        }
    }
    all
}

fn of_processes(result: &StorageResult) -> Option<[f64; 3]> {
    let (least, most) = result.slowest_and_fastest();
    let figures = [least, most, result.children() / result.processes.len() as f64];
    figures.iter().all(|figure| figure.is_finite()).then_some(figures)
}

/// The medians over trials, in kilobytes per second.
fn medians(trials: &[[f64; 3]]) -> [Option<f64>; 3] {
    [0, 1, 2].map(|at| {
        let values: Vec<f64> = trials.iter().map(|figures| figures[at]).collect();
        Some(vtax_stats::quantile(&values, 0.5)? / KILOBYTE)
    })
}
